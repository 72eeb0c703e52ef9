"""Environments that are pure functions of JAX, whoever wrote them, as one record: what a compiled rollout is made of.

Gymnasium's `FuncEnv`, environments of Brax, MuJoCo Playground and others with `reset(key)` and `step(state, action)`,
a pair of functions of one's own, and the tasks of this package all become a `PureEnv`. Importing this imports JAX.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ddopg.envs.base import Task, initial_observation
from ddopg.envs.environment import Environment
from ddopg.envs.functional_checks import check_functions, require_actions, same_structure
from ddopg.errors import SpaceError
from ddopg.support.compilation import in_float32


class Transition(NamedTuple):
    """What one step of a pure environment gives."""

    state: Any
    reward: Any
    terminated: Any  # the task ended the episode
    truncated: Any = False  # a clock inside the environment did


class PureEnv(NamedTuple):
    """An environment without memory. Hashable by its functions' identity: fit for a static jit argument."""

    draw: Callable[[Sequence[int]], np.ndarray]  # seeds → what each episode begins with, (B, …); not compiled
    start: Callable[[Any], Any]  # one of them → the first state
    step: Callable[[Any, Any], Transition]  # (state, what the policy answered (A,)) → what comes of it
    observe: Callable[[Any], Any]  # state → observation (O,)
    observation_size: int
    action_size: int
    double: bool = False  # its single rollouts are in float64, as its plain Python is


class FunctionalEnvironment(gym.Env[np.ndarray, np.ndarray]):
    """A pure environment with Gymnasium's manners, as `from_functional` makes it. Rollouts of ddopg use `pure`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, pure: PureEnv, action_space: gym.spaces.Box) -> None:
        self.pure, self.action_space = pure, action_space
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (pure.observation_size,), np.float32)
        compiled = (in_float32(jax.jit(each)) for each in (pure.start, pure.step, pure.observe))
        self._start, self._step, self._observe = compiled
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        self._state = self._start(self.pure.draw([chosen])[0])
        return np.asarray(self._observe(self._state)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make a step."""
        if self._state is None:
            raise gym.error.ResetNeeded("cannot step before the first episode; call env.reset() first")
        after = self._step(self._state, np.asarray(action, np.float32))
        self._state = after.state
        seen = np.asarray(self._observe(after.state))
        return seen, float(after.reward), bool(after.terminated), bool(after.truncated), {}


def from_functional(
    source: Any,
    *,
    horizon: int | None = None,
    action_space: gym.spaces.Box | None = None,
    to_action: Callable[[Any], Any] | None = None,
) -> gym.Env:
    """Make a Gymnasium environment of pure functions of JAX; its rollouts and evaluations are compiled programs.

    Args:
        source: a `FuncEnv` of Gymnasium; an environment as Brax and MuJoCo Playground have them, whose `reset(key)`
            and `step(state, action)` give a state with `obs`, `reward` and `done`; or a pair of functions of your
            own: `reset(key)` gives (state, observation), `step(state, action)` gives (state, observation, reward,
            terminated). States and observations may be nested; observations become one vector. Whoever needs random
            numbers in a step keeps a key in the state.
        horizon: the time limit in steps; `DDOPG(env, horizon=…)` is the other way to give it.
        action_space: the range of the policy's actions. If not given, that of the `FuncEnv`, or from −1 to 1 where
            the source says how many actions there are (`action_size`); a pair of functions needs one.
        to_action: from the policy's action, a vector clipped to `action_space`, to what the source takes, such as
            `lambda a: (a[0] > 0).astype(int)` for one of two discrete actions.

    Returns:
        The environment. A seed is `jax.random.PRNGKey(seed)`; a `FuncEnv` plays the episodes that Gymnasium's own
        wrapper, `FunctionalJaxEnv`, plays.

    Raises:
        SpaceError: the functions do not fit each other or what is said here, or the actions are no real numbers.

    Example:
        >>> import gymnasium as gym, jax, jax.numpy as jnp
        >>> def reset(key):
        ...     place = jax.random.uniform(key, (1,))
        ...     return place, place
        >>> def step(place, action):
        ...     after = place + 0.1 * action
        ...     return after, after, -jnp.abs(after[0]), False
        >>> env = from_functional((reset, step), horizon=20, action_space=gym.spaces.Box(-1, 1, (1,)))
        >>> ddopg.DDOPG(env, seed=0).learn(total_episodes=3).state.steps
        60
    """
    describe = _choose_form(source)
    space = require_actions(_find_action_space(source) if action_space is None else action_space)
    pure = describe(source, _make_converter(space, to_action), math.prod(space.shape))
    env: gym.Env = FunctionalEnvironment(check_functions(pure, space.shape), space)
    return env if horizon is None else gym.wrappers.TimeLimit(env, horizon)


def find_pure(env: gym.Env) -> PureEnv | None:
    """Return the pure functions that an environment without wrappers shows as they are; None where there are none."""
    if type(env) is Environment:
        return None if env.task is None else pure_from_task(env.task)
    if type(env) is FunctionalEnvironment:
        return env.pure
    return _of_gymnasium(env)


@cache
def pure_from_task(task: Task) -> PureEnv:
    """The physics of one of the package's tasks, which clips actions itself, in JAX's arithmetic."""
    from ddopg.envs.jax_ops import JAX

    def step(state: Any, action: Any) -> Transition:
        after = task.step(state, action, JAX)
        return Transition(after, task.reward(after, action, JAX), task.terminated(after, JAX))

    return PureEnv(
        draw=lambda seeds: np.stack([initial_observation(task, seed) for seed in seeds]),
        start=lambda observation: task.start(observation, JAX),
        step=step,
        observe=lambda state: task.observe(state, JAX),
        observation_size=task.observation_size,
        action_size=task.action_size,
        double=True,
    )


_KNOWN: WeakKeyDictionary[gym.Env, PureEnv | None] = WeakKeyDictionary()
"""Compiled programs are found by the record, so an environment keeps the same one."""


def _of_gymnasium(env: gym.Env) -> PureEnv | None:
    """The functions inside Gymnasium's wrapper of a `FuncEnv`, unless a subclass plays otherwise."""
    kind = getattr(sys.modules.get("gymnasium.envs.functional_jax_env"), "FunctionalJaxEnv", None)
    if kind is None or not isinstance(env, kind) or not isinstance(env.action_space, gym.spaces.Box):
        return None
    if type(env).step is not kind.step or type(env).reset is not kind.reset:
        return None
    if env not in _KNOWN:
        space, inner = env.action_space, env.func_env
        pure = _from_func_env(inner, _make_converter(space, None), math.prod(space.shape))
        try:
            _KNOWN[env] = check_functions(pure, space.shape)
        except SpaceError:  # stepping says what is wrong
            _KNOWN[env] = None
    return _KNOWN[env]


def _find_action_space(source: Any) -> Any:
    if (space := getattr(source, "action_space", None)) is not None:
        return space
    size = getattr(source, "action_size", None)
    if not isinstance(size, int):
        raise SpaceError(
            "nothing says what the actions are; give action_space=gymnasium.spaces.Box(low, high, (A,))"
        )
    return gym.spaces.Box(-1.0, 1.0, (size,), np.float32)


def _make_converter(space: gym.spaces.Box, to_action: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """From the vector of a policy to what the functions take: clipped, in the shape of the space."""
    low, high, shape = space.low, space.high, space.shape

    def convert(action: Any) -> Any:
        sent = jnp.clip(jnp.reshape(action, shape), low, high)
        return sent if to_action is None else to_action(sent)

    return convert


def _choose_form(source: Any) -> Callable[[Any, Callable[[Any], Any], int], PureEnv]:
    """Which of the three forms the source has."""
    if isinstance(source, tuple) and len(source) == 2 and all(map(callable, source)):
        return _from_pair
    if all(callable(getattr(source, name, None)) for name in ("initial", "transition", "observation")):
        return _from_func_env
    if all(callable(getattr(source, name, None)) for name in ("reset", "step")):
        return _from_states
    raise SpaceError(
        "expected a FuncEnv of Gymnasium, an environment with reset(key) and step(state, action), or a pair of such "
        f"functions, (reset, step), got {source!r:.100}"
    )


def _from_func_env(source: Any, convert: Callable[[Any], Any], action_size: int) -> PureEnv:
    """Keys are split as Gymnasium's `FunctionalJaxEnv` splits them, so that a seed is the same episode.

    An observation is computed where it is needed, from the key that led to its state: a carried one would cost as
    much as the physics of a pendulum.
    """

    def start(seed: Any) -> Any:
        key = jax.random.PRNGKey(seed)
        return source.initial(rng=jax.random.split(key)[0]), key

    def observe(carried: Any) -> Any:
        state, key = carried
        return _flatten(source.observation(state, jax.random.split(key)[0]))

    def step(carried: Any, action: Any) -> Transition:
        state, key = carried
        later = jax.random.split(key)[1]
        now, sent = jax.random.split(later)[0], convert(action)
        after = source.transition(state, sent, now)
        reward = source.reward(state, sent, after, now)
        return Transition((_keep_types(after, state), later), reward, source.terminal(after, now))

    return _make_pure(start, step, observe, action_size)


def _from_states(source: Any, convert: Callable[[Any], Any], action_size: int) -> PureEnv:
    """As in Brax and MuJoCo Playground: the state has `obs`, `reward` and `done`, and may say `truncation`."""

    def step(state: Any, action: Any) -> Transition:
        after = _keep_types(source.step(state, convert(action)), state)
        over, info = after.done > 0, getattr(after, "info", {})
        cut = over & (info["truncation"] > 0) if "truncation" in info else False
        return Transition(after, after.reward, over & ~jnp.asarray(cut), cut)

    return _make_pure(
        lambda seed: source.reset(jax.random.PRNGKey(seed)),
        step,
        lambda state: _flatten(state.obs),
        action_size,
    )


def _from_pair(source: Any, convert: Callable[[Any], Any], action_size: int) -> PureEnv:
    reset, advance = source

    def start(seed: Any) -> Any:
        state, observation = reset(jax.random.PRNGKey(seed))
        return state, _flatten(observation)

    def step(carried: Any, action: Any) -> Transition:
        state, observation, reward, terminated = advance(carried[0], convert(action))
        return Transition((_keep_types(state, carried[0]), _flatten(observation)), reward, terminated)

    return _make_pure(start, step, lambda carried: carried[1], action_size)


def _make_pure(start: Any, step: Any, observe: Any, action_size: int) -> PureEnv:
    """The observations are counted by `check_functions`."""
    return PureEnv(_draw_keys, start, step, observe, observation_size=0, action_size=action_size)


def _draw_keys(seeds: Sequence[int]) -> np.ndarray:
    """What `jax.random.PRNGKey` makes of seeds in float32's world: their lowest 32 bits."""
    numbers = np.asarray(seeds)
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise gym.error.Error(f"a seed must be an integer and not negative, got {seeds!r:.80}")
    return (numbers & 0xFFFFFFFF).astype(np.uint32)


def _flatten(observation: Any) -> Any:
    """One vector of float32, part by part in the order of their names."""
    parts = [jnp.ravel(jnp.asarray(part, jnp.float32)) for part in jax.tree.leaves(observation)]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _keep_types(after: Any, before: Any) -> Any:
    """Numbers that Python wrote have no type of their own: they take that of the state before."""
    if not same_structure(after, before):
        return after  # `check_functions` says so
    return jax.tree.map(_keep_type, after, before)


def _keep_type(after: Any, before: Any) -> Any:
    weak, kind = not hasattr(after, "dtype") or getattr(after, "weak_type", False), jnp.asarray(before).dtype
    return jnp.asarray(after, kind) if weak and jnp.result_type(after, kind) == kind else after
