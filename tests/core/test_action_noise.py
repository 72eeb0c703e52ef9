"""Noise on the raw output: the same from the same seed, of the size that was asked for, in every kind of rollout."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg.config import preset
from ddopg.core.action_noise import act_with_noise, draw_noise
from ddopg.core.state import Proposal
from ddopg.policies import clipped, limited, linear, mlp, squashed
from ddopg.rollouts import rollout
from ddopg.rollouts.playing import play_proposal
from ddopg.rollouts.spec import RolloutSpec
from ddopg.rollouts.wire import decode_response, encode_request, handle_request, to_wire
from ddopg.support.records import change
from tests.probes import Follow

BALANCE = np.array([0.1, 0.2, -6.0, -1.2, 0.0], np.float32)


def spec_of(env, name):
    config = change(preset("trajectory"), {"policy.squash": True})
    agent = ddopg.DDOPG(env, config=config, seed=0)
    return RolloutSpec(env, name, agent.problem, config, agent.policy, False, None)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, np.ndarray))


def test_noise_has_the_deviation_asked_for_and_comes_from_the_seed_alone():
    noise = draw_noise(3, (0.5, 2.0), 4000)
    assert noise.shape == (4000, 2)
    np.testing.assert_allclose(noise.std(axis=0), (0.5, 2.0), rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.1)
    assert np.array_equal(noise, draw_noise(3, (0.5, 2.0), 4000))
    assert not np.array_equal(noise, draw_noise(4, (0.5, 2.0), 4000))


@pytest.mark.parametrize(
    "policy",
    [
        linear(3, 2),
        squashed(mlp(3, 2, (4,), linear_path=True), (-1.0, 0.0), (3.0, 2.0)),
        clipped(linear(3, 2), (-1.0, 0.0), (3.0, 2.0)),
        limited(linear(3, 2), (-1.0, 0.0), (3.0, 2.0)),
        limited(linear(3, 2), (-1.0, 0.0), (3.0, 2.0), smooth=True),
    ],
)
def test_an_action_is_its_raw_output_squashed(policy):
    rng = np.random.default_rng(0)
    theta, seen = (rng.standard_normal(shape).astype(np.float32) for shape in (policy.size, (5, 3)))
    for xp, some in ((np, seen), (jnp, seen[0])):
        raw = policy.raw(xp.asarray(theta), xp.asarray(some))
        acted = policy.act(xp.asarray(theta), xp.asarray(some))
        np.testing.assert_allclose(policy.squash_raw(raw), acted, rtol=1e-5, atol=1e-6)
    quiet = act_with_noise(policy, theta, np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(quiet(seen[0]), policy.act(theta, seen[0]), rtol=1e-5, atol=1e-6)
    loud = act_with_noise(policy, theta, np.full((1, 2), 0.3, np.float32))
    wanted = policy.squash_raw(policy.raw(theta, seen[0]) + np.float32(0.3))
    np.testing.assert_allclose(loud(seen[0]), wanted, rtol=1e-6)
    np.testing.assert_allclose(loud(seen[0]), policy.act(theta, seen[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("linear_path", [False, True])
def test_parameters_on_standardised_observations_do_the_same(hidden, linear_path):
    policy = mlp(3, 2, hidden, linear_path=linear_path)
    rng = np.random.default_rng(1)
    theta, seen, mean = (rng.standard_normal(shape).astype(np.float32) for shape in (policy.size, (5, 3), 3))
    deviation = np.array([0.1, 2.0, 30.0], np.float32)
    moved = policy.on_standardised(jnp.asarray(theta), mean, deviation)
    found = policy.act(np.asarray(moved), (seen - mean) / deviation)
    np.testing.assert_allclose(found, policy.act(theta, seen), rtol=1e-3, atol=1e-4)
    back = policy.on_standardised(moved, -mean / deviation, 1 / deviation)
    np.testing.assert_allclose(back, theta, rtol=1e-3, atol=1e-4)


def test_a_rollout_with_noise_can_be_played_again_and_differs_from_one_without():
    spec = spec_of(gym.make("ddopg/Cartpole-v0"), "ddopg/Cartpole-v0")
    noisy = Proposal(0, BALANCE, 5, "noisy", (0.4,))
    one, again = (play_proposal(spec, noisy) for _ in "ab")
    assert same(one, again)
    plain = play_proposal(spec, noisy._replace(noise=()))
    assert same(plain, rollout(spec.env, spec.policy, BALANCE, 5))
    assert not np.array_equal(one.actions, plain.actions)


def test_compiled_and_stepped_rollouts_have_the_same_noise():
    """A wrapper around the task is enough for it to be stepped."""
    noisy = Proposal(0, BALANCE, 5, "noisy", (0.4,))
    env = gym.make("ddopg/Cartpole-v0")
    compiled = play_proposal(spec_of(env, "ddopg/Cartpole-v0"), noisy)
    stepped = play_proposal(spec_of(gym.Wrapper(gym.make("ddopg/Cartpole-v0")), None), noisy)
    assert compiled.length == stepped.length
    np.testing.assert_allclose(compiled.actions, stepped.actions, rtol=1e-3, atol=1e-3)


def test_another_process_plays_the_same_noise():
    spec = spec_of(gym.make("ddopg/Cartpole-v0"), "ddopg/Cartpole-v0")
    noisy = Proposal(0, BALANCE, 5, "noisy", (0.4,))
    response = handle_request(encode_request(to_wire(spec), noisy))
    assert same(decode_response(response, noisy, spec.problem), play_proposal(spec, noisy))


def ask_for_noise(agent):
    """The first proposal with noise: the actor's rollouts begin with one as it is."""
    agent.learn(total_episodes=8)
    while not agent.ask()[0].noise:
        agent.learn(total_episodes=1)
    (proposal,) = agent.pending
    return proposal


class TestProposal:
    def noisy(self):
        small = {
            "critic.updates": 1.0,
            "critic.hidden": (4,),
            "policy.hidden": (3,),
            "policy.linear_path": True,
        }
        agent = ddopg.DDOPG(Follow(), config=change(preset("trajectory"), small), seed=4)
        return agent, ask_for_noise(agent)

    def test_its_noise_is_that_of_the_rollout_which_the_library_would_play(self):
        agent, proposal = self.noisy()
        assert proposal.purpose == "noisy"
        assert len(proposal.noise) == 1
        assert proposal.noise[0] > 0
        played = play_proposal(agent._rollout_spec(None), proposal.pure)
        for act in (proposal.begin(), proposal.begin(), proposal.act):
            shown = [act(seen) for seen in played.observations[: played.length]]
            np.testing.assert_allclose(shown, played.actions[: played.length], rtol=1e-6)

    def test_it_may_be_told_with_or_without_its_noise_and_neither_is_odd(self):
        for quiet in (False, True):
            agent, proposal = self.noisy()
            act = proposal.trained.act if quiet else proposal.begin()
            seen = np.zeros((3, 1))
            told = proposal.trajectory(seen, [act(each) for each in seen], np.zeros(3))
            assert agent.tell(proposal, told).remark == ""

    def test_it_is_resumed_with_its_noise(self, tmp_path):
        config = change(
            preset("trajectory"),
            {"critic.updates": 1.0, "critic.hidden": (4,), "policy.hidden": (3,), "policy.linear_path": True},
        )
        agent = ddopg.DDOPG("Pendulum-v1", config=config, seed=4, run_directory=tmp_path / "run")
        before = ask_for_noise(agent)
        agent.close()
        resumed = ddopg.DDOPG.resume(tmp_path / "run")
        assert [p.noise for p in resumed.pending] == [before.noise] != [()]
        resumed.close()
