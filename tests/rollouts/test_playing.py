"""Rollouts and evaluations: seeds, ends, clipping, and environments that return nonsense."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import ddopg  # noqa: F401  registers the tasks
from ddopg.envs import CARTPOLE
from ddopg.envs.adapter import SHORT_NAMES, make, problem_from_env, problem_from_spaces
from ddopg.envs.functional import pure_from_task
from ddopg.errors import RolloutError, SpaceError, UnknownNameError
from ddopg.policies import linear
from ddopg.rollouts import evaluate, rollout
from ddopg.rollouts.compiled import simulate
from tests.box2d import mark_box2d
from tests.probes import Follow, Scripted, Target

POLICY = linear(1, 1)
THETA = np.array([0.2, 0.1], np.float32)
CARTPOLE_GAINS = np.array([1.0, 2.0, -60.0, -12.0, 0.0], np.float32)  # of a policy that balances


class TestRollout:
    def test_the_same_seed_plays_the_same_episode_and_another_one_another(self):
        env = make("cartpole")
        policy = linear(4, 1)
        one, two, other = (rollout(env, policy, CARTPOLE_GAINS, seed) for seed in (1, 1, 2))
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(one.observations, other.observations)

    def test_the_stored_actions_are_what_the_policy_answers_to_the_stored_observations(self):
        trajectory = rollout(Follow(), POLICY, THETA, 0)
        answers = POLICY.act(THETA, trajectory.observations[: trajectory.length])
        np.testing.assert_array_equal(trajectory.actions[: trajectory.length], answers)

    def test_an_end_by_the_task_and_an_end_by_the_clock_are_told_apart(self):
        ended = rollout(Target(length=3, horizon=5), POLICY, THETA, 0)
        cut = rollout(Target(length=9, horizon=5), POLICY, THETA, 0)
        assert (ended.length, ended.terminated, ended.truncated) == (3, True, False)
        assert (cut.length, cut.terminated, cut.truncated) == (5, False, True)

    def test_a_shorter_horizon_can_be_asked_for(self):
        assert rollout(Target(length=3), POLICY, THETA, 0, horizon=2).length == 2

    def test_ordinary_environments_get_clipped_actions_and_the_memory_the_policy_s_own(self):
        sent = []

        class Spy(Target):
            def step(self, action):
                sent.append(float(action[0]))
                return super().step(action)

        trajectory = rollout(Spy(), POLICY, np.array([50.0, 0.0], np.float32), 0)
        assert sent == [2.0, 2.0, 2.0]
        assert trajectory.actions[0, 0] == 50

    def test_the_three_tasks_see_the_unclipped_action(self):
        env = make("cartpole")
        big = rollout(env, linear(4, 1), np.array([0, 0, 0, 0, 1000.0], np.float32), 0)
        assert big.rewards[0] < 10 - 1e-5 * 1000**2 + 1

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_bad_observation_is_named_with_its_step_and_seed(self, bad):
        env = Scripted(observation=np.array([bad], np.float32), at=2)
        with pytest.raises(
            RolloutError, match=r"observation \[(nan|inf)\] at step 2 \(seed 7\), expected finite"
        ):
            rollout(env, POLICY, THETA, 7)

    def test_a_bad_reward_is_named(self):
        with pytest.raises(
            RolloutError, match="seed 7 cannot be used: rewards must be finite, got nan at step 1"
        ):
            rollout(Scripted(reward=np.nan, at=2), POLICY, THETA, 7)

    def test_a_policy_that_answers_nonsense_is_named(self):
        with pytest.raises(RolloutError, match=r"the policy answered \[nan\] at step 0"):
            rollout(Target(), POLICY, np.array([np.nan, 0], np.float32), 0)


class Changing(Target):
    """Its spaces are others after the first step: `change(env)` says how."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def step(self, action):
        self.change(self)
        return super().step(action)


def box(*arguments, **options):
    return gym.spaces.Box(*arguments, **options)


class Subclass(gym.spaces.Box):
    pass


class TestSpaces:
    """They must stay the same."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("action_space", box(-2, 3, (1,), np.float32)),
            ("action_space", box(-3, 2, (1,), np.float32)),
            ("action_space", box(-2, 2, (2,), np.float32)),
            ("action_space", box(-2, 2, (1,), np.int64)),
            ("action_space", gym.spaces.Discrete(2)),
            ("observation_space", box(-1, 1, (2,), np.float32)),
            ("observation_space", box(0, 255, (1, 1), np.uint8)),
            ("observation_space", gym.spaces.Discrete(2)),
        ],
    )
    def test_another_space_is_found(self, name, value):
        with pytest.raises(RolloutError, match="changed its spaces"):
            rollout(Changing(lambda env: setattr(env, name, value)), POLICY, THETA, 0)

    def test_other_bounds_in_the_same_space_are_found(self):
        with pytest.raises(RolloutError, match=r"from Problem\(.*low=\(-2.0,\).* to .*low=\(-3.0,\)"):
            rollout(Changing(lambda env: env.action_space.low.fill(-3)), POLICY, THETA, 0)

    @pytest.mark.parametrize("kind", [gym.spaces.Box, Subclass])
    def test_an_equal_space_in_another_object_is_no_change(self, kind):
        def change(env):
            env.observation_space = kind(-1, 1, (1,), np.float64)
            env.action_space = kind(-2, 2, (1,), np.float32)

        assert rollout(Changing(change), POLICY, THETA, 0).length == 3


def test_the_public_names_load_on_first_use():
    code = (
        "import sys, ddopg.rollouts as rollouts\n"
        "assert not {'jax', 'gymnasium'} & set(sys.modules)\n"
        "names = {'Here', 'Locally', 'OnRay', 'Together', 'evaluate', 'rollout', 'rollout_together'}\n"
        "assert set(dir(rollouts)) == names and all(getattr(rollouts, name) for name in names)\n"
        "assert not hasattr(rollouts, 'Game')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestEvaluate:
    def test_the_compiled_episodes_are_those_of_gymnasium(self):
        env, policy, seeds = make("cartpole"), linear(4, 1), range(20)
        compiled = evaluate(env, policy, CARTPOLE_GAINS, seeds)
        stepped = [rollout(gym.Wrapper(env), policy, CARTPOLE_GAINS, seed).rewards.sum() for seed in seeds]
        np.testing.assert_allclose(compiled, stepped, atol=0.05)
        assert min(stepped) > 990

    def test_episodes_that_end_early_stop_paying(self):
        env, policy, seeds = make("cartpole"), linear(4, 1), range(20)
        nothing = np.zeros(5, np.float32)
        stepped = [rollout(gym.Wrapper(env), policy, nothing, seed).rewards.sum() for seed in seeds]
        np.testing.assert_allclose(evaluate(env, policy, nothing, seeds), stepped, atol=1e-2)
        assert max(stepped) < 500

    def test_a_finished_episode_earns_nothing_whatever_its_last_state_would_pay(self):
        paid = CARTPOLE._replace(reward=lambda state, action, ops: ops.constant(1.0, state.x))
        pure = pure_from_task(paid)
        lengths = [rollout(make("cartpole"), linear(4, 1), np.zeros(5), seed).length for seed in range(5)]
        assert (
            simulate(pure, linear(4, 1), np.zeros(5, np.float32), pure.draw(range(5)), 100).tolist()
            == lengths
        )

    def test_other_environments_are_stepped_one_by_one(self):
        returns = evaluate(Target(goal=0.3), POLICY, THETA, [1, 2])
        np.testing.assert_allclose(returns, [0, 0], atol=1e-12)


class TestProblem:
    @pytest.mark.parametrize("name", mark_box2d(SHORT_NAMES))
    def test_sizes_range_and_horizon_of_the_tasks(self, name):
        found = problem_from_env(make(name))
        expected = {
            "cartpole": (4, 1, 100, (10.0,)),
            "mountaincar": (2, 1, 500, (1.0,)),
            "swimmer": (13, 2, 1000, (50.0, 50.0)),
            "swingup": (5, 1, 250, (10.0,)),
        }
        assert (found.observation_size, found.action_size, found.horizon, found.high) == expected[name]

    @pytest.mark.parametrize(
        ("name", "near"), [("cartpol", "cartpole"), ("swimer", "swimmer"), ("Pendulum-v9", "Pendulum-v1")]
    )
    def test_an_unknown_environment_is_answered_with_the_nearest(self, name, near):
        with pytest.raises(
            UnknownNameError, match=f"no environment called '{name}'; did you mean .*'{near}'"
        ):
            make(name)

    @pytest.mark.parametrize(
        ("observation_space", "action_space", "horizon", "message"),
        [
            (gym.spaces.Discrete(3), gym.spaces.Box(-1, 1), 9, r"must be a Box .* got Discrete\(3\)"),
            (gym.spaces.Box(-1, 1), gym.spaces.Discrete(2), 9, r"action space must be a Box .* got Discrete\(2\)"),
            (gym.spaces.Dict(a=gym.spaces.Box(-1, 1)), gym.spaces.Box(-1, 1), 9, "use .*FlattenObservation"),
            (gym.spaces.Box(-1, 1), gym.spaces.Box(0, 9, dtype=np.int64), 9, "real numbers, got dtype"),
            (gym.spaces.Box(-1, 1), gym.spaces.Box(-1, 1, (0,)), 9, "action space is empty"),
            (gym.spaces.Box(-1, 1), gym.spaces.Box(-1, 1), None, "needs a time limit .* got None; pass horizon"),
            (gym.spaces.Box(-1, 1), gym.spaces.Box(-1, 1), 0, "at least one step, got 0"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_learnt_on_is_refused_with_advice(
        self, observation_space, action_space, horizon, message
    ):
        with pytest.raises(SpaceError, match=message):
            problem_from_spaces(observation_space, action_space, horizon)
