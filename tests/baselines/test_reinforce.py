"""REINFORCE: gradient, reward-to-go and baseline against slow float64 oracles, and learning on a known problem."""

import math

import jax
import numpy as np
import pytest

from ddopg.baselines.reinforce import (
    Batch,
    Episode,
    Parameters,
    features,
    fit_baseline,
    make_batch,
    make_gaussian,
    objective,
    play_episode,
    reinforce,
    reward_to_go,
)
from ddopg.baselines.scaling import make_identity
from ddopg.baselines.settings import ReinforceSettings
from ddopg.envs.adapter import problem_from_env
from ddopg.policies import mlp
from ddopg.rollouts.playing import evaluate
from tests.probes import Follow, Target


def slow_objective(theta, log_std, batch):
    """1/S Σ A log N(u | K·o + b, σ²) in plain Python, up to a constant."""
    o_size, a_size = batch.inputs.shape[1], batch.raw_actions.shape[1]
    gains, bias = theta[: o_size * a_size].reshape(o_size, a_size), theta[o_size * a_size :]
    total = steps = 0.0
    for o, u, advantage, real in zip(*batch, strict=True):
        if not real:
            continue
        steps += 1
        for k in range(a_size):
            mean = sum(o[i] * gains[i, k] for i in range(o_size)) + bias[k]
            std = math.exp(log_std[k])
            density = math.exp(-((u[k] - mean) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))
            total += advantage * math.log(density)
    return total / steps


@pytest.mark.usefixtures("float64")
def test_the_gradient_is_that_of_the_log_likelihood_weighted_by_advantages():
    rng = np.random.default_rng(0)
    batch = Batch(
        rng.normal(size=(7, 3)), rng.normal(size=(7, 2)), rng.normal(size=7), np.array([1.0] * 5 + [0.0] * 2)
    )
    policy = mlp(3, 2, ())
    point = np.concatenate([rng.normal(size=policy.size), [0.3, -0.4]])
    found = jax.grad(objective)(Parameters(point[:-2], point[-2:]), batch, policy)
    step, expected = 1e-5, []
    for i in range(len(point)):
        up, down = point.copy(), point.copy()
        up[i] += step
        down[i] -= step
        difference = slow_objective(up[:-2], up[-2:], batch) - slow_objective(down[:-2], down[-2:], batch)
        expected.append(difference / (2 * step))
    np.testing.assert_allclose(np.concatenate([found.theta, found.log_std]), expected, rtol=1e-6, atol=1e-8)


def test_reward_to_go_by_hand():
    np.testing.assert_allclose(reward_to_go(np.array([1.0, 2.0, 4.0]), 0.5), [1 + 1 + 1, 2 + 2, 4])
    np.testing.assert_allclose(reward_to_go(np.array([1.0, 2.0, 4.0]), 1.0), [7, 6, 4])


def test_features_by_hand():
    found = features(np.array([[2.0, -30.0], [1.0, 3.0]]))
    np.testing.assert_allclose(found[0], [2, -10, 4, 100, 0, 0, 0, 1])
    np.testing.assert_allclose(found[1], [1, 3, 1, 9, 0.01, 1e-4, 1e-6, 1])


def test_the_baseline_finds_what_is_linear_in_the_features():
    rng = np.random.default_rng(1)
    inputs = [features(rng.uniform(-1, 1, size=(n, 2))) for n in (60, 90)]
    truth = np.array([1.0, -2.0, 0.5, 3.0, 7.0, 0.0, 0.0, 4.0])
    to_go = [x @ truth for x in inputs]
    found = fit_baseline(inputs, to_go)
    for x, y in zip(inputs, to_go, strict=True):
        np.testing.assert_allclose(x @ found, y, atol=0.01)


class TestStack:
    def episode(self, length, value):
        return Episode(
            seen=np.full((length, 1), value),
            inputs=np.full((length, 1), 10 * value, np.float32),
            raw_actions=np.full((length, 1), value, np.float32),
            rewards=np.ones(length),
        )

    def test_advantages_are_what_exceeds_the_earlier_baseline_standardised(self):
        episodes, to_go = (
            [self.episode(2, 0.5), self.episode(1, 2.0)],
            [np.array([3.0, 1.0]), np.array([9.0])],
        )
        coefficients = np.array([1.0, 0, 0, 0, 0, 0.5])  # baseline o + 0.5
        batch = make_batch(episodes, to_go, coefficients, size=5)
        raw = np.array([3 - 1.0, 1 - 1.0, 9 - 2.5])
        np.testing.assert_allclose(batch.advantages, [*(raw - raw.mean()) / raw.std(), 0, 0], rtol=1e-6)
        assert batch.real.tolist() == [1, 1, 1, 0, 0]
        assert batch.inputs.ravel().tolist() == [5, 5, 20, 0, 0]

    def test_the_first_batch_has_no_baseline_and_equal_returns_no_advantage(self):
        episodes = [self.episode(2, 0.5)]
        batch = make_batch(episodes, [np.array([3.0, 1.0])], np.zeros(0), size=2)
        np.testing.assert_allclose(batch.advantages, [1, -1])
        assert make_batch(episodes, [np.array([3.0, 3.0])], np.zeros(0), size=2).advantages.tolist() == [0, 0]


@pytest.mark.parametrize("squash", [False, True])
def test_actions_are_the_sampled_raw_actions_brought_onto_the_action_range(squash):
    env, sent = Target(length=40, horizon=40), []
    settings = ReinforceSettings(hidden=(), squash=squash, std=2.0)
    gaussian = make_gaussian(problem_from_env(env), settings)
    original = env.step
    env.step = lambda action: sent.append(action[0]) or original(action)
    parameters = Parameters(np.array([0.3, 0.1], np.float32), np.log(np.array([2.0], np.float32)))
    episode = play_episode(env, gaussian, parameters, make_identity(1), seed=5, horizon=40)
    u = episode.raw_actions.ravel()
    onto = np.tanh(u) if squash else np.clip(u, -1, 1)
    np.testing.assert_allclose(sent, 2 * onto, rtol=1e-6)
    assert np.abs(u).max() > 1
    assert 1.2 < np.std(u - 0.4) < 2.8


@pytest.mark.parametrize(("world", "scaling"), [(Target, "none"), (Follow, "none"), (Follow, "whiten")])
def test_it_learns_a_constant_and_a_gain(world, scaling):
    settings = ReinforceSettings(
        batch=150, learning_rate=0.05, hidden=(), std=0.5, discount=1.0, scaling=scaling
    )
    for checkpoint in reinforce(world(), 0, settings):
        if checkpoint.steps >= 15_000:
            break
    assert np.mean(evaluate(world(), checkpoint.policy, checkpoint.theta, range(2**31, 2**31 + 20))) > -0.05


def test_the_policy_changes_once_per_batch_of_whole_episodes():
    changes, before = [], None
    for checkpoint in reinforce(Target(), 0, ReinforceSettings(batch=10, hidden=())):
        if before is not None and not np.array_equal(checkpoint.theta, before):
            changes.append(checkpoint.steps)
        before = checkpoint.theta
        if checkpoint.steps >= 48:
            break
    assert changes == [12, 24, 36, 48]
