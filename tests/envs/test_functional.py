"""Environments that are pure functions, whoever wrote them: compiled programs play the episodes of stepping."""

from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.functional_jax_env import FunctionalJaxEnv
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
from gymnasium.envs.phys2d.pendulum import PendulumFunctional, PendulumJaxEnv
from gymnasium.experimental.functional import FuncEnv

import ddopg
from ddopg.core.types import check_trajectory
from ddopg.envs import from_functional
from ddopg.envs.checks import check_contract
from ddopg.errors import RolloutError, SpaceError
from ddopg.policies import linear
from ddopg.rollouts import evaluate, rollout
from ddopg.rollouts.compiled import find_functions, play_compiled

BOX = gym.spaces.Box(-1, 1, (1,))
SWING, PUSH = np.array([-1.0, -2.0, -0.5, 0.1], np.float32), np.array([0.0, 0.0, 1.0, 1.0, 0.0], np.float32)


def one_of_two(action):
    return (action[0] > 0).astype(int)


def cartpole():
    return from_functional(CartPoleFunctional(), horizon=200, action_space=BOX, to_action=one_of_two)


class Places(NamedTuple):
    """A state as Brax has it."""

    obs: Any
    reward: Any
    done: Any
    info: Any


class Slider:
    """In the form of Brax and MuJoCo Playground: a mass on a rail, which ends at 1, and a clock of its own."""

    action_size = 1

    def __init__(self, clock=9):
        self.clock = clock

    def reset(self, key):
        place = 0.1 * jax.random.normal(key, (2,))
        return Places(
            {"at": place[:1], "speed": place[1:]}, 0.0, 0.0, {"truncation": 0.0, "time": jnp.int32(0)}
        )

    def step(self, state, action):
        speed = state.obs["speed"] + 0.2 * action
        at, time = state.obs["at"] + 0.2 * speed, state.info["time"] + 1
        out, late = jnp.abs(at[0]) > 1, time >= self.clock
        done = jnp.where(out | late, 1.0, 0.0)
        info = {"truncation": jnp.where(late & ~out, 1.0, 0.0), "time": time}
        return Places({"at": at, "speed": speed}, -jnp.sum(at**2), done, info)


def drift(key):
    """A pair of functions; chance in a step comes from a key in the state."""
    return (key, jnp.zeros(2)), jnp.zeros(2)


def drift_on(state, action):
    key, place = state
    key, now = jax.random.split(key)
    place = place + 0.1 * action + 0.01 * jax.random.normal(now, (2,))
    return (key, place), place, -jnp.sum(place**2), jnp.any(jnp.abs(place) > 0.5)


def stepped(env):
    return gym.Wrapper(env)


def cases():
    yield "Pendulum", from_functional(PendulumFunctional(), horizon=40), linear(3, 1), SWING
    yield "CartPole", cartpole(), linear(4, 1), PUSH * [0, 0, -1, -1, 0]
    yield "Brax' form", from_functional(Slider(), horizon=20), linear(2, 1), np.array([0.1, 0.3, 2.0])
    pair = from_functional((drift, drift_on), horizon=30, action_space=gym.spaces.Box(-1, 1, (2,)))
    yield "a pair", pair, linear(2, 2), np.array([0, 0, 0, 0, 0.4, 0.1])


@pytest.mark.parametrize(
    ("env", "policy", "theta"), [pytest.param(*rest, id=name) for name, *rest in cases()]
)
class TestEveryForm:
    def test_one_program_plays_the_episode_that_stepping_plays(self, env, policy, theta):
        for seed in (0, 5):
            one = play_compiled(env, policy, np.asarray(theta, np.float32), seed, env._max_episode_steps)
            other = rollout(stepped(env), policy, theta, seed)
            check_trajectory(one)
            for a, b in zip(one[1:4], other[1:4], strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5)
            assert (one.length, one.terminated, one.truncated) == (
                other.length,
                other.terminated,
                other.truncated,
            )

    def test_many_at_once_earn_what_they_earn_one_by_one(self, env, policy, theta):
        alone = evaluate(stepped(env), policy, theta, range(4))
        np.testing.assert_allclose(evaluate(env, policy, theta, range(4)), alone, rtol=1e-4, atol=1e-3)

    def test_gymnasiums_checker_has_no_complaint(self, env, policy, theta):
        assert check_contract(env) is None


class Noisy(FuncEnv):
    """Chance in every one of its functions."""

    observation_space, action_space = gym.spaces.Box(-np.inf, np.inf, (1,)), BOX

    def initial(self, rng, params=None):
        return jax.random.normal(rng, (1,))

    def transition(self, state, action, rng, params=None):
        return state + action + 0.1 * jax.random.normal(rng, (1,))

    def observation(self, state, rng, params=None):
        return state + 0.1 * jax.random.uniform(rng, (1,))

    def reward(self, state, action, next_state, rng, params=None):
        return state[0] + jax.random.uniform(rng)

    def terminal(self, state, rng, params=None):
        return jax.random.uniform(rng) > 0.9


class TestGymnasium:
    """The ids of Gymnasium itself, against what its own wrapper steps."""

    def test_the_pendulum_of_an_id_is_one_program_as_it_is_and_plays_the_same_episodes(self):
        env = gym.make("phys2d/Pendulum-v0")
        one = play_compiled(env, linear(3, 1), SWING, 3, 200)
        other = rollout(stepped(env), linear(3, 1), SWING, 3)  # `FunctionalJaxEnv.step`
        ours = rollout(from_functional(PendulumFunctional(), horizon=200), linear(3, 1), SWING, 3)
        np.testing.assert_allclose(one.observations, other.observations, atol=1e-5)
        np.testing.assert_allclose(one.rewards, other.rewards, atol=1e-5)
        assert one.rewards.tobytes() == ours.rewards.tobytes()

    def test_the_cartpole_of_an_id_steps_as_ours_does_with_discrete_actions(self):
        env, ours = gym.make("phys2d/CartPole-v1"), cartpole()
        seen, _ = env.reset(seed=4)
        mine, _ = ours.reset(seed=4)
        for step in range(30):
            np.testing.assert_allclose(mine, seen, atol=1e-6)
            push = step % 3 == 0
            seen, reward, ended, *_ = env.step(int(push))
            mine, same, end, *_ = ours.step(np.array([0.7 if push else -0.2], np.float32))
            assert (reward, ended) == (same, end)

    def test_chance_is_that_of_gymnasiums_own_wrapper(self):
        env = FunctionalJaxEnv(Noisy())
        for seed in range(3):
            one, other = (
                rollout(each, linear(1, 1), np.full(2, 0.1), seed, 20) for each in (env, stepped(env))
            )
            assert one.length == other.length > 1
            np.testing.assert_allclose(one.observations, other.observations, atol=1e-5)
            np.testing.assert_allclose(one.rewards, other.rewards, atol=1e-5)

    def test_its_checker_is_not_asked_about_arrays_of_jax(self):
        assert check_contract(gym.make("phys2d/Pendulum-v0")) is None

    def test_a_subclass_that_plays_otherwise_is_stepped(self):
        class Heavier(PendulumJaxEnv):
            def step(self, action):
                seen, reward, *rest = super().step(action)
                return seen, 2 * reward, *rest

        plain = rollout(gym.make("phys2d/Pendulum-v0"), linear(3, 1), SWING, 0, 10).rewards.sum()
        twice = rollout(Heavier(), linear(3, 1), SWING, 0, horizon=10).rewards.sum()
        assert find_functions(Heavier()) is None
        assert twice == pytest.approx(2 * plain, rel=1e-5)

    def test_the_same_environment_compiles_once(self):
        env = gym.make("phys2d/Pendulum-v0")
        assert find_functions(env) is find_functions(env) is not None


class TestBrax:
    def test_a_clock_inside_the_environment_cuts_and_does_not_terminate(self):
        policy, still = linear(2, 1), np.zeros(3, np.float32)
        cut = rollout(from_functional(Slider(clock=6), horizon=20), policy, still, 0)
        assert (cut.length, cut.terminated, cut.truncated) == (6, False, True)
        out = rollout(from_functional(Slider(clock=99), horizon=40), policy, np.array([0, 0, 1.0]), 0)
        assert (out.terminated, out.truncated) == (True, False)
        assert out.length < 40

    def test_actions_are_from_minus_one_to_one_and_clipped(self):
        env = from_functional(Slider(clock=99), horizon=3)
        assert (env.action_space.low, env.action_space.high) == (-1, 1)
        one, two = (rollout(env, linear(2, 1), np.array([0, 0, size], np.float32), 0) for size in (1.0, 50.0))
        assert two.actions[0, 0] == 50
        assert one.observations.tobytes() == two.observations.tobytes()


class TestLearning:
    def test_a_run_on_functions_of_ones_own_is_deterministic_and_plays_no_step_of_gymnasium(
        self, monkeypatch
    ):
        def never(*_, **__):
            raise AssertionError("stepped")

        env = from_functional((drift, drift_on), horizon=30, action_space=gym.spaces.Box(-1, 1, (2,)))
        monkeypatch.setattr(type(env.unwrapped), "step", never)
        monkeypatch.setattr(type(env.unwrapped), "reset", never)
        one, two = (ddopg.DDOPG(env, seed=3).learn(total_episodes=6) for _ in range(2))
        assert one.state.steps > 6
        assert one.state.incumbent.theta.tobytes() == two.state.incumbent.theta.tobytes()
        assert ddopg.evaluate(one, episodes=3).shape == (3,)

    @pytest.mark.parametrize("seed", [-1, 0.5])
    def test_a_seed_that_is_none_is_named(self, seed):
        with pytest.raises(RolloutError, match="seed"):
            rollout(cartpole(), linear(4, 1), PUSH, seed)


class TestNumbersThatAreNone:
    def bad(self, what):
        def step(state, action):
            late = state >= 2
            nan = jnp.where(late, jnp.nan, 0.0)
            seen, reward = (nan if what == each else 0.0 for each in ("observation", "reward"))
            return state + 1, jnp.zeros(1) + seen, reward, False

        return from_functional((lambda key: (jnp.int32(0), jnp.zeros(1)), step), horizon=9, action_space=BOX)

    @pytest.mark.parametrize(
        ("what", "said"), [("observation", r"observation \[nan\] at step 3"), ("reward", "got nan at step 2")]
    )
    def test_they_are_named_with_their_step_in_rollouts_and_evaluations(self, what, said):
        for play in (rollout, lambda env, policy, theta, seed: evaluate(env, policy, theta, [seed])):
            with pytest.raises(RolloutError, match=said):
                play(self.bad(what), linear(1, 1), np.zeros(2, np.float32), 7)


def fine(key):
    return jnp.zeros(2), jnp.zeros(2)


def still(state, action):
    return state, state, 0.0, False


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (7, "expected a FuncEnv of Gymnasium, .* got 7"),
            (CartPoleFunctional(), r"the actions are Discrete\(2\); give action_space.*to_action"),
            ((fine, still), "nothing says what the actions are; give action_space"),
        ],
    )  # fmt: skip
    def test_what_is_no_environment_or_says_no_actions(self, source, message):
        with pytest.raises(SpaceError, match=message):
            from_functional(source)

    @pytest.mark.parametrize(
        ("reset", "step", "message"),
        [
            (lambda: 0, still, r"reset\(key\) cannot be compiled: TypeError: .*takes 0 positional"),
            (lambda key: jnp.zeros(3), still, r"reset\(key\) cannot be compiled: .*return \(state, observation\)"),
            (fine, lambda s, a: (s, s, 0.0), r"step\(state, action\) with .* shape \(1,\) cannot be compiled"),
            (fine, lambda s, a: (s, np.asarray(s), 0.0, False), "must be a function of JAX alone"),
            (fine, lambda s, a: (s, s, a, False), r"reward must be one number, got an array of shape \(1,\)"),
            (fine, lambda s, a: (s[:1], s, 0.0, False), r"float32\[2\] after reset and float32\[1\] after step"),
            (fine, lambda s, a: ((s, s), s, 0.0, False), "same parts as reset"),
            (lambda k: (jnp.int32(0), 0.0), lambda s, a: (s + 0.5, 0.0, 0.0, False), "int32.*reset and float32"),
            (lambda k: (0, ()), still, "reset.* cannot be compiled|at least one number"),
        ],
    )  # fmt: skip
    def test_functions_that_do_not_fit(self, reset, step, message):
        with pytest.raises(SpaceError, match=message):
            from_functional((reset, step), action_space=BOX)

    def test_numbers_that_python_wrote_are_no_fault(self):
        env = from_functional(
            (lambda key: (0, 0.0), lambda s, a: (s + 1, s * 1.0, 0, s > 5)), action_space=BOX
        )
        assert rollout(env, linear(1, 1), np.zeros(2), 0, horizon=20).length == 7

    def test_a_learner_says_what_to_do_with_functions(self):
        with pytest.raises(
            SpaceError, match=r"one of Gymnasium, or an id, .* ddopg.envs.from_functional makes one"
        ):
            ddopg.DDOPG(PendulumFunctional())

    def test_a_step_before_the_first_episode(self):
        with pytest.raises(gym.error.ResetNeeded):
            cartpole().unwrapped.step(np.zeros(1))
