"""Rollouts of several policies as one program: the same bits in whatever company, and so the same run in pieces."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.phys2d.pendulum import PendulumFunctional

import ddopg
from ddopg.core.state import Proposal
from ddopg.core.types import check_trajectory
from ddopg.envs import from_functional
from ddopg.envs.adapter import make
from ddopg.errors import ConfigError, RolloutError
from ddopg.policies import custom, linear, mlp
from ddopg.rollouts import Here, Locally, Together, rollout, rollout_together
from ddopg.rollouts.compiled import Episode, find_functions, play_compiled, play_places
from ddopg.rollouts.scheduling import TogetherRunner, resolve_place
from ddopg.rollouts.together import arrange, play_proposals
from ddopg.support.records import change
from tests.recorded import contents, everything, quick
from tests.worlds import Logged

BOX = gym.spaces.Box(-1.0, 1.0, (1,))


def counting(observations, actions):
    """A policy with a memory: its answer fades in."""
    return custom(
        lambda key: jax.random.normal(key, (actions, observations)),
        lambda weights, state, seen: (state + 1, jnp.tanh(weights @ seen) * state / 10),
        observations,
        actions,
        initial=lambda weights: jnp.zeros(1),
    )


def asked(policy, horizon, number, noisy=True):
    """Episodes of different policies, every other one with noise."""
    rng = np.random.default_rng(0)
    for k in range(number):
        noise = 0.1 * rng.standard_normal((horizon, len(policy.action_scale))).astype(np.float32)
        theta = (0.3 * rng.standard_normal(policy.size)).astype(np.float32)
        yield Episode(theta, 100 + k, noise if noisy and k % 2 else None)


def bits(trajectory):
    return [np.asarray(part).tobytes() for part in trajectory]


CASES = {
    "cartpole": (lambda: make("cartpole"), mlp(4, 1), 100),
    "swingup": (lambda: make("swingup"), mlp(5, 1, (8,), linear_path=True), 250),
    "pendulum": (lambda: from_functional(PendulumFunctional(), horizon=50), linear(3, 1), 50),
    "memory": (lambda: make("cartpole"), counting(4, 1), 100),
}


@pytest.mark.parametrize(("make_env", "policy", "horizon"), CASES.values(), ids=CASES)
class TestOneProgram:
    def test_an_episode_has_the_same_bits_in_whatever_company(self, make_env, policy, horizon):
        pure = find_functions(make_env())
        episodes = [*asked(policy, horizon, 8, noisy=policy.recurrence is None)]
        whole = play_places(pure, policy, episodes, horizon)
        assert len({one.rewards.tobytes() for one in whole}) == 8
        for kept in ({5}, {0, 3, 6}, {1, 2, 4, 7}):
            some = [one if k in kept else None for k, one in enumerate(episodes)]
            for k, one in enumerate(play_places(pure, policy, some, horizon)):
                assert (one is None) == (k not in kept)
                assert one is None or bits(one) == bits(whole[k])

    def test_it_plays_what_each_plays_alone(self, make_env, policy, horizon):
        env = make_env()
        episodes = [*asked(policy, horizon, 4, noisy=policy.recurrence is None)]
        for one, k in zip(play_places(find_functions(env), policy, episodes, horizon), episodes, strict=True):
            alone = play_compiled(env, policy, k.theta, k.seed, horizon, k.noise)
            check_trajectory(one)
            np.testing.assert_allclose(one.observations, alone.observations, atol=1e-4)
            np.testing.assert_allclose(one.actions, alone.actions, atol=1e-4)
            np.testing.assert_allclose(one.rewards, alone.rewards, atol=1e-4)
            for field in ("theta", "alive", "terminated", "truncated", "seed"):
                np.testing.assert_array_equal(getattr(one, field), getattr(alone, field))


class Counted:
    """Functions that count how often a step is computed; an episode lasts as many steps as the action says."""

    def __init__(self, horizon=1000, bad=None):
        self.steps, self.bad = 0, bad
        self.env = from_functional(
            (self.reset, self.step), horizon=horizon, action_space=gym.spaces.Box(-99, 99, (1,))
        )

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, time, action):
        jax.debug.callback(self.count)
        wrong = jnp.where((action[0] == self.bad) & (time >= 2), jnp.nan, 0.0) if self.bad else 0.0
        return time + 1, jnp.zeros(1) + wrong, action[0], time + 1 >= action[0]

    def count(self):
        self.steps += 1


def lasting(*lengths):
    return [Proposal(k, np.array([0, length], np.float32), seed=k) for k, length in enumerate(lengths)]


def test_the_program_ends_with_the_longest_episode():
    world = Counted()
    played = rollout_together(world.env, linear(1, 1), lasting(3, 7, 2))
    jax.effects_barrier()
    assert [one.length for one in played] == [3, 7, 2]
    assert all(one.terminated for one in played)
    assert world.steps == 7


class TestWhatIsNotFinite:
    def test_it_spoils_no_other_rollout_and_is_named_with_its_step(self):
        world = Counted(bad=5.0)
        agent = ddopg.DDOPG(world.env, config=quick(), policy=linear(1, 1))
        spoilt, fine = (
            play_proposals(agent._rollout_spec(None), lasting(*some), 4) for some in ((4, 5, 6), (4, 6))
        )
        assert [spoilt[0].length, spoilt[2].length] == [one.length for one in fine] == [4, 6]
        assert isinstance(spoilt[1], RolloutError)
        assert "observation [nan] at step 3 (seed 1)" in str(spoilt[1])

    def test_a_learner_notes_it_and_tries_again(self):
        """The first proposal of the design always answers 5, and so never comes to its end."""
        agent = ddopg.DDOPG(Counted(bad=5.0).env, config=quick(), seed=0, policy=linear(1, 1))
        waiting = agent.ask(4)
        spoilt = waiting[0].pure._replace(theta=np.array([0, 5], np.float32))
        agent.state = agent.state._replace(pending=(spoilt, *agent.state.pending[1:]))
        with pytest.raises(RolloutError, match=r"observation \[nan\] at step 3"):
            agent.learn(total_episodes=4, parallel=Together(4), retries=2)
        assert [(failure.proposal, failure.attempt) for failure in agent.failures] == [(0, 1), (0, 2), (0, 3)]
        assert agent.state.told == 0

    def test_rewards_whose_sum_is_not_finite_are_refused(self):
        env = gym.wrappers.TransformReward(make("cartpole"), lambda reward: 1e308)
        agent = ddopg.DDOPG(env, config=quick(), seed=1)
        (outcome,) = play_proposals(agent._rollout_spec(None), agent.ask(1), 1)
        assert isinstance(outcome, RolloutError)
        with pytest.raises(RolloutError, match=r"the return of the episode with seed .* is inf"):
            rollout_together(env, agent.policy, agent.pending)


class TestProposals:
    """What `ask(n)` gives, rolled out by one's own loop."""

    def test_a_batch_is_one_program_and_each_rollout_that_of_its_proposal(self):
        agent = ddopg.DDOPG("swingup", config=quick("default"), seed=3).learn(total_episodes=20)
        batch = agent.ask(5)
        assert {bool(proposal.noise) for proposal in batch} == {True, False}
        played = rollout_together(agent.env, agent.policy, batch)
        for proposal, trajectory in zip(batch, played, strict=True):
            (alone,) = rollout_together(agent.env, agent.policy, [proposal])
            np.testing.assert_allclose(trajectory.rewards, alone.rewards, atol=1e-3)
            assert trajectory.theta.tobytes() == proposal.theta.tobytes()
            assert agent.tell(proposal, trajectory).remark == ""

    def test_on_a_stepped_environment_each_is_played_as_ever(self):
        agent = ddopg.DDOPG("tests.worlds:Follow-v0", config=quick(), seed=3)
        batch = agent.ask(3)
        for proposal, one in zip(batch, rollout_together(agent.env, agent.policy, batch), strict=True):
            assert bits(one) == bits(rollout(agent.env, agent.policy, proposal.theta, proposal.seed))

    def test_a_policy_for_another_task_is_refused_as_ever(self):
        with pytest.raises(RolloutError, match=r"action must have shape \(1,\), got shape \(2,\)"):
            rollout_together(make("cartpole"), linear(4, 2), [Proposal(0, np.zeros(10, np.float32), 0)])

    def test_nobody_is_left_without_a_place(self):
        numbers = [3, 4, 8, 0, 5, 12]
        rounds = arrange(numbers, 4)
        assert sorted(index for seats in rounds for index in seats if index is not None) == [*range(6)]
        for seats in rounds:
            assert all(index is None or numbers[index] % 4 == place for place, index in enumerate(seats))
        assert len(rounds) == 4


def learnt(parallel, episodes=20, directory=None, callback=None, env="swingup"):
    agent = ddopg.DDOPG(env, config=quick("default"), seed=3, run_directory=directory)
    agent.learn(total_episodes=episodes, parallel=parallel, callback=callback)
    agent.close()
    return agent


class TestTheRun:
    def test_n_at_a_time_are_played_by_one_program(self, monkeypatch):
        """Batches in the design are its stages, and later n."""
        together, original = [], TogetherRunner.wait

        def wait(self):
            if not self._done:
                together.append([proposal.number for proposal in self._waiting])
            return original(self)

        monkeypatch.setattr(TogetherRunner, "wait", wait)
        design = learnt(Together(4), episodes=18).config.design
        first, size = design.constants, design.policies
        assert together[0] == [*range(min(first, 4))]
        assert [number for some in together for number in some] == [*range(max(map(max, together)) + 1)]
        assert [len(some) for some in together if some[0] >= size] == [4] * sum(
            s[0] >= size for s in together
        )

    def test_it_is_what_n_at_a_time_are_but_for_rounding(self):
        one, other = learnt(Together(4), 6), learnt(Here(4), 6)
        for a, b in zip(one.state.memory.trajectories, other.state.memory.trajectories, strict=True):
            np.testing.assert_allclose(a.rewards, b.rewards, atol=1e-3)
        assert contents(one.state.memory) != contents(other.state.memory)  # so the tests below can fail

    @pytest.mark.long
    def test_stopped_and_resumed_anywhere_in_the_design_or_later_it_is_the_run_in_one_piece(self, tmp_path):
        learnt(Together(4), directory=tmp_path / "whole")
        expected = everything(tmp_path / "whole")
        for stop in (1, 3, 6, 7, 13):
            place = tmp_path / f"after {stop}"
            learnt(Together(4), stop, directory=place)
            for more in (1, 19 - stop):
                agent = ddopg.DDOPG.resume(place)
                agent.learn(total_episodes=more, parallel=Together(4))
                agent.close()
            assert everything(place) == expected, stop

    def test_a_number_means_one_program_where_there_are_functions_and_processes_where_there_are_none(self):
        def place(env, parallel, **options):
            return resolve_place(parallel, ddopg.DDOPG(env, **options)._rollout_spec(None))

        assert place("cartpole", 4) == place(gym.make("phys2d/Pendulum-v0"), 4) == Together(4)
        assert place("cartpole", 1) == Here()
        assert place("cartpole", Locally(3)) == Locally(3)
        assert place("Pendulum-v1", 4) == Locally(4)
        assert place(gym.Wrapper(make("cartpole")), 2) == Locally(2)
        with pytest.raises(ConfigError, match="parallel must be between 1 and 256"):
            place("cartpole", 0)

    def test_where_there_are_no_functions_it_is_one_after_the_other(self):
        Logged.seeds.clear()
        played, world = [], "tests.worlds:Logged-v0"
        one = learnt(Together(3), 9, env=world, callback=lambda agent, info: played.append(len(Logged.seeds)))
        assert played == [*range(1, 10)]
        assert contents(one.state) == contents(learnt(Here(3), 9, env=world).state)

    def test_three_at_a_time_have_four_places_and_are_resumed_as_well(self, tmp_path):
        config = change(quick("trajectory"), {"policy.hidden": (4,)})

        def go_on(directory, episodes):
            agent = (
                ddopg.DDOPG.resume(directory)
                if directory.exists()
                else ddopg.DDOPG("swingup", config=config, seed=1, run_directory=directory)
            )
            agent.learn(total_episodes=episodes, parallel=3)
            agent.close()

        go_on(tmp_path / "whole", 12)
        for episodes in (2, 3, 1, 6):
            go_on(tmp_path / "pieces", episodes)
        assert everything(tmp_path / "pieces") == everything(tmp_path / "whole")
