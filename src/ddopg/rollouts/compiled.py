"""Environments that are pure functions, as compiled programs: an episode, some of many policies, many returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from jax import Array

from ddopg.core.replay import begin, respond
from ddopg.core.types import Trajectory
from ddopg.envs.functional import PureEnv, find_pure
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

_TRANSPARENT = (TimeLimit, OrderEnforcing, PassiveEnvChecker)  # they change nothing that a rollout shows
_FAST_COMPILATION = {
    "xla_cpu_use_fusion_emitters": False
}  # compiles in a third of the time, and runs as fast


class Episode(NamedTuple):
    """What is to be played."""

    theta: np.ndarray  # (D,)
    seed: int
    noise: np.ndarray | None = None  # (H, A) on the raw output of a policy without a memory


def find_functions(env: gym.Env) -> PureEnv | None:
    """Return the pure functions that the environment shows as they are: no wrapper or subclass changes them."""
    inner, _ = _unwrap(env)
    return find_pure(inner)


def find_playable(env: gym.Env, policy: Policy, horizon: int) -> PureEnv | None:
    """Return the pure functions of which whole rollouts are compiled, or None where only stepping will do.

    That is where there are none, or somebody watches; where the policy is a black box; or where JAX computes on a
    graphics card, where one small step after another is slow, and there is plain Python instead.
    """
    inner, limit = _unwrap(env)
    pure = find_pure(inner)
    if pure is None or inner.render_mode is not None or horizon > limit or policy.black_box is not None:
        return None
    if (pure.double and jax.default_backend() != "cpu") or len(policy.action_scale) != pure.action_size:
        return None
    return pure


def play_compiled(
    env: gym.Env,
    policy: Policy,
    theta: np.ndarray,
    seed: int,
    horizon: int,
    noise: np.ndarray | None = None,
) -> Trajectory | None:
    """Play one episode as one compiled program: what stepping shows, but for rounding. The environment is left alone.

    Returns:
        The trajectory, or None where only stepping will do (`find_playable`), or a number is not finite, and stepping
        says what went wrong.
    """
    pure = find_playable(env, policy, horizon)
    start = None if pure is None else _draw_start(pure, seed)
    if pure is None or start is None:
        return None
    with jax.enable_x64(pure.double):
        rows = np.asarray(_compile(_run_episode)(pure, policy, theta, start, horizon, noise))
    return _to_trajectory(rows, pure.observation_size, theta, seed)


def play_places(
    pure: PureEnv, policy: Policy, places: Sequence[Episode | None], horizon: int
) -> list[Trajectory | None]:
    """Play the episodes of B policies as one compiled program, which ends when the longest of them does.

    What comes of an episode depends on its place, but on no other episode: each place has its own arithmetic, always
    the same. So whoever gives an episode the same place among as many gets the same bits.

    Args:
        pure: the environment, as `find_playable` gives it.
        policy: the policy class.
        places: the episode of each place; None where there is none. The number of places is compiled in.
        horizon: the longest episode in steps.

    Returns:
        The trajectory of each place; None where there is no episode, or a number is not finite.
    """
    drawn = {k: (asked, _draw_start(pure, asked.seed)) for k, asked in enumerate(places) if asked is not None}
    ready = {k: (asked, start) for k, (asked, start) in drawn.items() if start is not None}
    if not ready:
        return [None] * len(places)
    first = next(iter(ready.values()))  # empty places are filled with this one, and are over at once
    episodes, starts = zip(*(ready.get(k, first) for k in range(len(places))), strict=True)
    thetas, used = np.stack([asked.theta for asked in episodes]), np.isin(np.arange(len(places)), list(ready))
    noise = None if policy.recurrence else _stack_noise(episodes, horizon, len(policy.action_scale))
    with jax.enable_x64(pure.double):
        run = _compile(_run_episodes)
        rows = np.asarray(run(pure, policy, thetas, np.stack(starts), horizon, noise, used))
    size = pure.observation_size
    return [
        _to_trajectory(rows[:, k], size, asked.theta, asked.seed) if used[k] else None
        for k, asked in enumerate(episodes)
    ]


@in_float32
def simulate(pure: PureEnv, policy: Policy, theta: Any, starts: Any, horizon: int) -> Array:
    """Play B episodes as one compiled program.

    Args:
        pure: the environment.
        policy: the policy class.
        theta: its parameters, (D,).
        starts: what each begins with, as `pure.draw` gives it, (B, …).
        horizon: the longest episode in steps.

    Returns:
        Undiscounted returns, (B,).

    Example:
        >>> from ddopg.envs import CARTPOLE
        >>> from ddopg.envs.functional import pure_from_task
        >>> from ddopg.policies import linear
        >>> pure = pure_from_task(CARTPOLE)
        >>> starts = pure.draw(range(3))
        >>> simulate(pure, linear(4, 1), np.zeros(5, np.float32), starts, horizon=100).shape
        (3,)
    """
    return _simulate(pure, policy, jnp.asarray(theta), jnp.asarray(starts), horizon)


_ALIVE, _LAST, _CUT = (
    1.0,
    2.0,
    3.0,
)  # marks of a step: an ordinary one, one that ended the task, one that a clock ended


def _run_episode(
    pure: PureEnv, policy: Policy, theta: Array, start: Any, horizon: int, noise: Array | None = None
) -> Array:
    """Return rows (H, O + A + 2): observation, action, reward and mark of each step; zeros after the end.

    The noise (H, A) is added to the raw output of a policy without a memory.
    """

    def goes_on(carry: tuple) -> Array:
        count, ended, *_ = carry
        return (count < horizon) & ~ended

    def step(carry: tuple) -> tuple:
        count, _, state, remembered, rows = carry
        now = None if noise is None else noise[count]
        state, remembered, row, ended = _take_step(pure, policy, theta, state, remembered, now)
        rows = jax.lax.dynamic_update_slice(rows, row[None], (count, 0))
        return count + 1, ended, state, remembered, rows

    rows = jnp.zeros((horizon, _width(pure)), _precision(pure))
    with jax.enable_x64(False):
        remembered = begin(policy, theta)
    first = (0, jnp.bool_(False), pure.start(start), remembered, rows)
    return jax.lax.while_loop(goes_on, step, first)[-1]


def _run_episodes(
    pure: PureEnv,
    policy: Policy,
    thetas: Array,
    starts: Any,
    horizon: int,
    noise: Array | None,
    used: Array,
) -> Array:
    """`_run_episode` of B policies (B, D) side by side where a place is used (B,), (H, B, O + A + 2).

    The noise is (H, B, A). A finished episode runs on until all are, and whatever comes of that is not written.
    """
    take_step = jax.vmap(partial(_take_step, pure, policy))

    def goes_on(carry: tuple) -> Array:
        count, alive, *_ = carry
        return (count < horizon) & alive.any()

    def step(carry: tuple) -> tuple:
        count, alive, states, remembered, rows = carry
        now = None if noise is None else noise[count]
        states, remembered, row, ended = take_step(thetas, states, remembered, now)
        written = jnp.where(alive[:, None], row, 0)
        rows = jax.lax.dynamic_update_slice(rows, written[None], (count, 0, 0))
        return count + 1, alive & ~ended, states, remembered, rows

    rows = jnp.zeros((horizon, len(thetas), _width(pure)), _precision(pure))
    with jax.enable_x64(False):
        remembered = jax.vmap(partial(begin, policy))(thetas)
    first = (0, used, jax.vmap(pure.start)(starts), remembered, rows)
    return jax.lax.while_loop(goes_on, step, first)[-1]


def _take_step(
    pure: PureEnv, policy: Policy, theta: Array, state: Any, remembered: Any, noise: Array | None
) -> tuple[Any, Any, Array, Array]:
    """One step of one episode: both states after it, its row, and whether the episode is over.

    The policy is in float32, and so is the environment, unless its plain form is in float64, as those of this package
    are.
    """
    kind, seen = _precision(pure), pure.observe(state).astype(jnp.float32)
    with jax.enable_x64(False):
        if noise is None:
            remembered, action = respond(policy, theta, remembered, seen)
        else:
            action = policy.squash_raw(policy.raw(theta, seen) + noise)
        action = jnp.asarray(action, jnp.float32)
    asked: Any = action.astype(kind)
    after = pure.step(state, asked)
    ended, cut = jnp.asarray(after.terminated, bool), jnp.asarray(after.truncated, bool)
    mark = jnp.where(ended, _LAST, jnp.where(cut, _CUT, _ALIVE))
    row = jnp.concatenate([seen.astype(kind), asked, jnp.stack([after.reward, mark]).astype(kind)])
    return after.state, remembered, row, ended | cut


def _width(pure: PureEnv) -> int:
    return pure.observation_size + pure.action_size + 2


def _precision(pure: PureEnv) -> Any:
    return jnp.float64 if pure.double else jnp.float32


def _draw_start(pure: PureEnv, seed: int) -> np.ndarray | None:
    """What an episode begins with; None where the seed is none, and stepping says so."""
    try:
        return pure.draw([seed])[0]
    except gym.error.Error:
        return None


def _stack_noise(episodes: Sequence[Episode], horizon: int, actions: int) -> np.ndarray:
    """The noise of each, (H, B, A); zeros where there is none, so that one program plays both."""
    none = np.zeros((horizon, actions), np.float32)
    return np.stack([none if asked.noise is None else asked.noise for asked in episodes], axis=1)


def _to_trajectory(rows: np.ndarray, size: int, theta: np.ndarray, seed: int) -> Trajectory | None:
    """What happened; None where a number is not finite."""
    if not np.isfinite(rows).all():
        return None
    marks = rows[:, -1]
    terminated = bool((marks == _LAST).any())
    return Trajectory(
        theta=theta,
        observations=rows[:, :size].astype(np.float32),
        actions=rows[:, size:-2].astype(np.float32),
        rewards=rows[:, -2].astype(np.float64),
        alive=marks > 0,
        terminated=terminated,
        truncated=not terminated,
        seed=int(seed),
    )


@cache
def _compile(function: Callable[..., Array]) -> Any:
    """Compile a function that plays episodes, quickly where this JAX knows how."""
    compiled = partial(jax.jit, static_argnames=("pure", "policy", "horizon"))
    try:
        jax.jit(lambda: 0, compiler_options=_FAST_COMPILATION).lower().compile()
    except jax.errors.JaxRuntimeError:  # no such option
        return compiled(function)
    return compiled(function, compiler_options=_FAST_COMPILATION)


@partial(jax.jit, static_argnames=("pure", "policy", "horizon"))
def _simulate(pure: PureEnv, policy: Policy, theta: Array, starts: Array, horizon: int) -> Array:
    """The returns; NaN where a policy saw what is no number, whatever it earned.

    A finished episode runs on, and whatever comes of that counts for nothing.
    """

    def step(carry: tuple, _: None) -> tuple[tuple, Array]:
        state, remembered, alive, odd = carry
        seen = pure.observe(state)
        remembered, action = respond(policy, theta, remembered, seen)
        after = pure.step(state, action)
        reward = jnp.where(alive, after.reward, 0.0)
        odd = odd | (alive & ~jnp.isfinite(seen).all())
        over = jnp.asarray(after.terminated, bool) | jnp.asarray(after.truncated, bool)
        return (after.state, remembered, alive & ~over, odd), reward

    def one(start: Any) -> Array:
        first = (pure.start(start), begin(policy, theta), jnp.bool_(True), jnp.bool_(False))
        (*_, odd), rewards = jax.lax.scan(step, first, None, length=horizon)
        return jnp.where(odd, jnp.nan, jnp.sum(rewards))

    return jax.vmap(one)(starts)


def _unwrap(env: gym.Env) -> tuple[gym.Env, float]:
    """Return what is inside the wrappers that change nothing, and the shortest time limit among them."""
    limit = float("inf")
    while type(env) in _TRANSPARENT:
        if type(env) is TimeLimit:
            limit = min(limit, env._max_episode_steps)
        env = env.env  # type: ignore[attr-defined]
    return env, limit
