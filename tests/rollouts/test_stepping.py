"""Episodes step by step: the quick loop is the plain one bit for bit, and looks at every number."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.envs.adapter import make, takes_unclipped_actions
from ddopg.errors import RolloutError
from ddopg.policies import clipped, custom, linear, mlp, normalised, squashed
from ddopg.rollouts.playing import _to_trajectory, evaluate, rollout
from ddopg.rollouts.stepping import iterate_steps
from tests.box2d import mark_box2d
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


@pytest.mark.parametrize(
    "name", mark_box2d(["cartpole", "mountaincar", "swimmer", "Pendulum-v1", "Swimmer-v5"])
)
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


class Breaking(Wide):
    """Shows something that is no number, and then breaks."""

    def step(self, action):
        if np.isinf(self.shown[-1]):
            raise ValueError("lost")
        return super().step(action)


def test_of_a_bad_number_and_what_comes_of_it_the_number_is_named():
    with pytest.raises(RolloutError, match=r"inf\] at step 1 \(seed 0\), expected finite"):
        list(iterate_steps(Breaking(np.inf), still, 0, 9))


def test_huge_numbers_are_numbers():
    largest = np.finfo(np.float32).max
    assert len(list(iterate_steps(Wide(largest), still, 0, 3))) == 3
    env = Target(length=3)
    answered = [
        action for _, action, *_ in iterate_steps(env, lambda o: np.full(1, largest, np.float32), 0, 3)
    ]
    assert np.array_equal(answered, np.full((3, 1), largest))


class Greedy(Target):
    """Overwrites the action that it is sent; with `unclipped_actions` it is sent what the policy answered."""

    def __init__(self, unclipped):
        super().__init__()
        self.metadata = {"unclipped_actions": unclipped}
        self.sent = []

    def step(self, action):
        self.sent.append(action.copy())
        returned = super().step(action)
        action[:] = -1
        return returned


@pytest.mark.parametrize("unclipped", [True, False])
def test_an_environment_may_change_its_action_and_what_is_stored_is_what_was_sent(unclipped):
    env, policy, theta = Greedy(unclipped), linear(1, 1), np.array([0.3, 0.1], np.float32)
    played = rollout(env, policy, theta, seed=0)
    assert (
        played.actions.tobytes() == np.array(env.sent).tobytes() == np.full((3, 1), 0.4, np.float32).tobytes()
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_action_is_clipped_to_the_space_on_both_sides_and_left_alone_within(kind):
    env = Greedy(False)
    env.action_space = gym.spaces.Box(kind(-0.5), kind(0.25), (1,), kind)
    answers = iter(np.float32([[0.2], [0.25], [0.26]]))
    assert len(list(iterate_steps(env, lambda o: next(answers), 0, 3))) == 3
    answers = iter(np.float32([[-0.6], [-0.5], [-0.4]]))
    assert len(list(iterate_steps(env, lambda o: next(answers), 0, 3))) == 3
    np.testing.assert_allclose(np.ravel(env.sent), [0.2, 0.25, 0.25, -0.5, -0.5, -0.4], rtol=1e-7)
    assert {sent.dtype for sent in env.sent} == {np.dtype(kind)}


def test_answers_of_different_sizes_are_refused_even_if_their_numbers_would_fit():
    env = Greedy(True)
    answers = iter([np.zeros(size, np.float32) for size in (2, 1, 3)])
    episode = list(iterate_steps(env, lambda o: next(answers), 0, 3))
    assert len(episode) == 3
    with pytest.raises(RolloutError, match="the episode with seed 7 cannot be used: actions"):
        _to_trajectory(np.zeros(1, np.float32), episode, 3, 7)


@pytest.mark.parametrize("answer", [[float("nan")], jnp.full(1, jnp.inf), np.full(1, np.nan)])
def test_an_answer_that_is_no_vector_of_float32_is_looked_at_too(answer):
    with pytest.raises(RolloutError, match=r"the policy answered \[(nan|inf)\] at step 0"):
        list(iterate_steps(Greedy(True), lambda o: answer, 0, 3))


def test_an_environment_may_change_the_action_of_a_policy_of_one_s_own():
    """JAX gives arrays that cannot be written; the environment gets one that can."""
    policy = custom(lambda key: jnp.ones(1), lambda theta, o: theta * o, 1, 1)
    played = rollout(Greedy(True), policy, np.full(1, 0.4, np.float32), seed=0)
    assert played.actions.ravel().tolist() == [np.float32(0.4)] * 3


def test_a_policy_may_answer_with_one_array_that_it_changes():
    answer = np.zeros(1, np.float32)

    def count(observation):
        answer[:] += 1
        return answer

    actions = [action for _, action, *_ in iterate_steps(Target(), count, 0, 3)]
    assert np.ravel(actions).tolist() == [1, 2, 3]


def test_copies_in_a_vector_may_change_their_actions():
    policy = custom(lambda key: jnp.ones(1), lambda theta, o: theta * o, 1, 1)
    envs = gym.vector.SyncVectorEnv([lambda: Greedy(True)] * 2)
    envs.metadata = {**envs.metadata, "unclipped_actions": True}
    returns = evaluate(envs, policy, np.full(1, 0.5, np.float32), [0, 1], horizon=3)
    assert returns.tolist() == [0, 0]
