"""Episodes as one compiled program: those that stepping shows, where nothing but the pure task is to be seen."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.core.types import check_trajectory
from ddopg.envs import CARTPOLE
from ddopg.envs.adapter import make
from ddopg.envs.environment import Environment, TaskSimulation
from ddopg.errors import RolloutError
from ddopg.policies import custom, linear, mlp, squashed
from ddopg.rollouts.compiled import play_compiled
from ddopg.rollouts.playing import evaluate, rollout

BALANCE = np.array([1.0, 2.0, -60.0, -12.0, 0.0], np.float32)
CART = linear(4, 1)


def stepped(name):
    """The environment with a wrapper that does nothing, but is none of those that are known to."""
    return gym.Wrapper(make(name))


def own(observations, actions):
    """A policy that computes in JAX wherever it is, with constants of JAX's default precision."""

    def apply(weights, observation):
        assert observation.dtype == jnp.zeros(1).dtype == jnp.float32
        return jnp.tanh(weights @ observation + jnp.linspace(0, 1, actions)) * np.float64(3.0)

    return custom(lambda key: jax.random.normal(key, (actions, observations)), apply, observations, actions)


class TestTheSameEpisodes:
    @pytest.mark.parametrize("name", ["cartpole", "swimmer"])
    def test_the_physics_is_that_of_gymnasium_in_float64(self, name):
        """The policy computes in JAX on both ways, so that physics alone can differ."""
        env = make(name)
        policy = own(env.observation_space.shape[0], env.action_space.shape[0])
        for seed in range(4):
            theta = np.random.default_rng(seed).standard_normal(policy.size).astype(np.float32)
            one = play_compiled(env, policy, theta, seed, 100)
            other = rollout(stepped(name), policy, theta, seed, 100)
            check_trajectory(one)
            # Sines and cosines of XLA: 4e-12 was seen with JAX 0.8.1, 1e-10 with 0.12, less than 1e-12 with 0.10.
            np.testing.assert_allclose(one.rewards, other.rewards, rtol=0, atol=1e-9)
            np.testing.assert_allclose(one.observations, other.observations, rtol=1e-6, atol=1e-7)
            for field in ("theta", "alive", "terminated", "truncated", "seed"):
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field))

    @pytest.mark.parametrize("gains", [BALANCE, 0 * BALANCE], ids=["balanced", "falling"])
    def test_with_numpys_policy_they_differ_by_float32s_rounding(self, gains):
        for policy, theta in ((CART, gains), (squashed(CART, (-10.0,), (10.0,)), gains / 10)):
            for seed in range(5):
                one, other = (
                    rollout(env, policy, theta, seed) for env in (make("cartpole"), stepped("cartpole"))
                )
                np.testing.assert_allclose(one.observations, other.observations, atol=1e-5)
                np.testing.assert_allclose(one.actions, other.actions, atol=1e-3)
                assert (one.length, one.terminated, one.truncated) == other_end(other)
                assert one.length == 100 if gains.any() else one.length < 30

    def test_a_rollout_can_be_played_again_bit_for_bit(self):
        env, policy = make("swimmer"), mlp(13, 2)
        theta = np.random.default_rng(0).standard_normal(policy.size).astype(np.float32)
        one, _, again = (rollout(env, policy, theta, seed) for seed in (1, 2, 1))
        for a, b in zip(one, again, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_a_shorter_horizon_cuts(self):
        cut = play_compiled(make("cartpole"), CART, BALANCE, 3, 20)
        assert (cut.length, cut.horizon, cut.terminated, cut.truncated) == (20, 20, False, True)

    def test_time_limits_are_no_matter(self):
        assert rollout(make("cartpole"), CART, BALANCE, 0, time_limit=1e-6).length == 100


def other_end(trajectory):
    return trajectory.length, trajectory.terminated, trajectory.truncated


class TestWhatIsLeftAlone:
    def test_the_environment_is_not_touched(self):
        env = make("cartpole")
        env.reset(seed=5)
        inner = env.unwrapped
        before = inner._simulation.state, inner.np_random.bit_generator.state
        rollout(env, CART, BALANCE, 1)
        assert (inner._simulation.state, inner.np_random.bit_generator.state) == before

    def test_nothing_changes_for_others_precision(self):
        rollout(make("cartpole"), CART, BALANCE, 1)
        assert jnp.zeros(1).dtype == jnp.float32


class Heavier(Environment):
    """A subclass may do anything."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 2 * reward, *rest


class TestWhatIsSteppedInstead:
    def test_wrappers_that_change_something_are_heard(self):
        env = gym.wrappers.TransformReward(make("cartpole"), lambda reward: 2 * reward)
        plain = rollout(make("cartpole"), CART, BALANCE, 1).rewards.sum()
        assert play_compiled(env, CART, BALANCE, 1, 100) is None
        assert rollout(env, CART, BALANCE, 1).rewards.sum() == pytest.approx(2 * plain)
        assert evaluate(env, CART, BALANCE, [1])[0] == pytest.approx(2 * plain)

    def test_subclasses_too(self):
        env = Heavier(TaskSimulation(CARTPOLE), lambda state: None, 20)
        assert rollout(env, CART, BALANCE, 1, horizon=10).rewards.sum() == pytest.approx(200, abs=1)

    def test_an_environment_that_is_looked_at_shows_the_end_of_the_episode(self):
        env = gym.make("ddopg/Cartpole-v0", render_mode="rgb_array")
        last = rollout(env, CART, BALANCE, 1).observations[-1]
        assert np.allclose(env.unwrapped._simulation.state.x, last[0], atol=0.1)
        env.close()

    def test_a_time_limit_shorter_than_the_horizon_cuts_as_ever(self):
        env = gym.wrappers.TimeLimit(make("cartpole"), 7)
        cut = rollout(env, CART, BALANCE, 1, horizon=50)
        assert (cut.length, cut.horizon, cut.truncated) == (7, 50, True)

    @pytest.mark.parametrize(
        ("theta", "seed"),
        [
            (np.array([np.nan, 0, 0, 0, 0]), 1),
            (np.array([0, 0, 3e38, 3e38, 0]), 1),
            (np.array([0, 0, 0, 0, 1e38]), 1),
            (BALANCE, -1),
            (BALANCE, 0.5),
        ],
        ids=["NaN", "infinite", "huge", "negative seed", "broken seed"],
    )
    def test_what_goes_wrong_is_said_in_the_same_words(self, theta, seed):
        said = []
        for env in (make("cartpole"), stepped("cartpole")):
            try:
                said.append(rollout(env, CART, theta, seed).rewards.tobytes())
            except RolloutError as error:
                said.append((str(error), error.steps))
        assert said[0] == said[1]

    def test_a_policy_for_another_task_is_refused_as_ever(self):
        with pytest.raises(RolloutError, match=r"action must have shape \(1,\), got shape \(2,\)"):
            rollout(make("cartpole"), linear(4, 2), np.zeros(10, np.float32), 0)
