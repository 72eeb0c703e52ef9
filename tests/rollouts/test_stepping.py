"""Episodes step by step: the quick loop is the plain one bit for bit, and looks at every number."""

import gymnasium as gym
import numpy as np
import pytest

from ddopg.envs.adapter import make, takes_unclipped_actions
from ddopg.errors import RolloutError
from ddopg.policies import clipped, linear, mlp, normalised, squashed
from ddopg.rollouts.playing import rollout
from ddopg.rollouts.stepping import iterate_steps
from tests.probes import Target

HORIZON = 80


def plainly(env, policy, theta, seed):
    """The same episode as anybody would write it."""
    seen, answers, rewards = [], [], []
    observation, _ = env.reset(seed=seed)
    for _ in range(HORIZON):
        seen.append(np.asarray(observation, np.float32))
        answers.append(policy.act(theta, seen[-1]))
        low, high = env.action_space.low, env.action_space.high
        action = answers[-1] if takes_unclipped_actions(env) else np.clip(answers[-1], low, high)
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    return np.array(seen), np.array(answers), np.array(rewards)


def policies_for(env):
    sizes = env.observation_space.shape[0], env.action_space.shape[0]
    low, high = (tuple(map(float, bound)) for bound in (env.action_space.low, env.action_space.high))
    network = mlp(*sizes, (16, 16))
    scaled = normalised(network, (0.1,) * sizes[0], (2.0,) * sizes[0])
    return linear(*sizes), network, squashed(network, low, high), clipped(scaled, low, high)


@pytest.mark.parametrize("name", ["cartpole", "mountaincar", "swimmer", "Pendulum-v1", "Swimmer-v5"])
def test_a_rollout_is_the_plain_loop_bit_for_bit(name):
    env = gym.Wrapper(make(name))  # with a wrapper of any kind, every task is stepped
    for kind, policy in enumerate(policies_for(env)):
        for seed, size in enumerate((0.3, 3.0)):
            theta = np.random.default_rng(kind).normal(0, size, policy.size).astype(np.float32)
            played, expected = rollout(env, policy, theta, seed, HORIZON), plainly(env, policy, theta, seed)
            for array, plain in zip(played[1:4], expected, strict=True):
                assert array[: played.length].tobytes() == plain.tobytes()
    env.close()


class Wide(gym.Env):
    """Shows one array, which it changes in place."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (60,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, later):
        self.shown, self.later = np.zeros(60, np.float32), later

    def reset(self, *, seed=None, options=None):
        self.shown[:] = 0
        return self.shown, {}

    def step(self, action):
        self.shown[-1] = self.later
        return self.shown, 0.0, False, False, {}


def still(observation):
    return np.zeros(1, np.float32)


def test_an_observation_that_the_environment_changes_afterwards_is_kept_as_it_was():
    assert [seen[-1] for seen, *_ in iterate_steps(Wide(7.0), still, 0, 3)] == [0, 7, 7]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_among_many_is_found(bad):
    with pytest.raises(RolloutError, match=r"at step 1 \(seed 0\), expected finite"):
        list(iterate_steps(Wide(bad), still, 0, 3))


def test_huge_numbers_are_numbers():
    largest = np.finfo(np.float32).max
    assert len(list(iterate_steps(Wide(largest), still, 0, 3))) == 3
    env = Target(length=3)
    answered = [
        action for _, action, *_ in iterate_steps(env, lambda o: np.full(1, largest, np.float32), 0, 3)
    ]
    assert np.array_equal(answered, np.full((3, 1), largest))
