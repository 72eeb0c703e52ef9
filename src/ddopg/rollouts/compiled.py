"""Tasks whose physics is pure, as compiled programs: one episode and all that happened, or the returns of many."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from jax import Array

from ddopg.core.replay import begin, respond
from ddopg.core.types import Trajectory
from ddopg.envs.base import Task, initial_observation
from ddopg.envs.environment import Environment
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

_TRANSPARENT = (TimeLimit, OrderEnforcing, PassiveEnvChecker)  # they change nothing that a rollout shows
_FAST_COMPILATION = {
    "xla_cpu_use_fusion_emitters": False
}  # compiles in a third of the time, and runs as fast


def find_task(env: gym.Env) -> Task | None:
    """Return the pure simulator that the environment shows as it is: no wrapper or subclass changes it."""
    inner, _ = _unwrap(env)
    return inner.task if type(inner) is Environment else None


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
        The trajectory, or None where only stepping will do: there is no pure task, or somebody watches; a number is
        not finite, and stepping says what went wrong; or JAX computes on a graphics card, where one small step after
        another is slow.
    """
    inner, limit = _unwrap(env)
    task = inner.task if type(inner) is Environment else None
    if task is None or inner.render_mode is not None or horizon > limit or policy.black_box is not None:
        return None
    if jax.default_backend() != "cpu" or len(policy.action_scale) != task.action_size:
        return None
    try:
        start = initial_observation(task, seed)
    except gym.error.Error:
        return None
    with jax.enable_x64(True):
        rows = np.asarray(_compile_episode()(task, policy, theta, start, horizon, noise))
    return _to_trajectory(rows, task.observation_size, theta, seed) if np.isfinite(rows).all() else None


@in_float32
def simulate(task: Task, policy: Policy, theta: Any, starts: Any, horizon: int | None = None) -> Array:
    """Play B episodes as one compiled program.

    Args:
        task: the pure simulator.
        policy: the policy class.
        theta: its parameters, (D,).
        starts: initial observations, (B, O).
        horizon: the longest episode in steps; the task's own, if not given.

    Returns:
        Undiscounted returns, (B,).

    Example:
        >>> from ddopg.envs import CARTPOLE, initial_observation
        >>> from ddopg.policies import linear
        >>> starts = np.stack([initial_observation(CARTPOLE, seed) for seed in range(3)])
        >>> simulate(CARTPOLE, linear(4, 1), np.zeros(5, np.float32), starts).shape
        (3,)
    """
    return _simulate(task, policy, jnp.asarray(theta), jnp.asarray(starts), horizon or task.horizon)


_ALIVE, _LAST = 1.0, 2.0  # marks of a step: an ordinary one, and one with which the task ended the episode


def _run_episode(
    task: Task, policy: Policy, theta: Array, start: Any, horizon: int, noise: Array | None = None
) -> Array:
    """Return rows (H, O + A + 2): observation, action, reward and mark of each step; zeros after the end.

    The noise (H, A) is added to the raw output of a policy without a memory. The physics is in float64, as in
    Gymnasium, the policy in float32.
    """
    from ddopg.envs.jax_ops import JAX

    def goes_on(carry: tuple) -> Array:
        count, ended, *_ = carry
        return (count < horizon) & ~ended

    def step(carry: tuple) -> tuple:
        count, _, state, remembered, rows = carry
        seen = task.observe(state, JAX).astype(jnp.float32)
        with jax.enable_x64(False):
            if noise is None:
                remembered, action = respond(policy, theta, remembered, seen)
            else:
                action = policy.squash_raw(policy.raw(theta, seen) + noise[count])
            action = jnp.asarray(action, jnp.float32)
        asked: Any = action.astype(start.dtype)
        after = task.step(state, asked, JAX)
        ended = task.terminated(after, JAX)
        reward, mark = task.reward(after, asked, JAX), jnp.where(ended, _LAST, _ALIVE)
        row = jnp.concatenate([seen.astype(start.dtype), asked, jnp.stack([reward, mark])])
        rows = jax.lax.dynamic_update_slice(rows, row[None], (count, 0))
        return count + 1, ended, after, remembered, rows

    rows = jnp.zeros((horizon, task.observation_size + task.action_size + 2), start.dtype)
    with jax.enable_x64(False):
        remembered = begin(policy, theta)
    first = (0, jnp.bool_(False), task.start(start, JAX), remembered, rows)
    return jax.lax.while_loop(goes_on, step, first)[-1]


def _to_trajectory(rows: np.ndarray, size: int, theta: np.ndarray, seed: int) -> Trajectory:
    marks = rows[:, -1]
    terminated = bool((marks == _LAST).any())
    return Trajectory(
        theta=theta,
        observations=rows[:, :size].astype(np.float32),
        actions=rows[:, size:-2].astype(np.float32),
        rewards=rows[:, -2].copy(),
        alive=marks > 0,
        terminated=terminated,
        truncated=not terminated,
        seed=int(seed),
    )


@cache
def _compile_episode() -> Any:
    """Compile `_run_episode`, quickly where this JAX knows how."""
    compiled = partial(jax.jit, static_argnames=("task", "policy", "horizon"))
    try:
        jax.jit(lambda: 0, compiler_options=_FAST_COMPILATION).lower().compile()
    except jax.errors.JaxRuntimeError:  # no such option
        return compiled(_run_episode)
    return compiled(_run_episode, compiler_options=_FAST_COMPILATION)


@partial(jax.jit, static_argnames=("task", "policy", "horizon"))
def _simulate(task: Task, policy: Policy, theta: Array, starts: Array, horizon: int) -> Array:
    from ddopg.envs.jax_ops import JAX

    def step(carry: tuple, _: None) -> tuple[tuple, Array]:
        state, remembered, alive = carry
        remembered, action = respond(policy, theta, remembered, task.observe(state, JAX))
        after = task.step(state, action, JAX)
        reward = jnp.where(alive, task.reward(after, action, JAX), 0.0)
        ended = alive & task.terminated(after, JAX)
        # A finished episode stays where it ended: physics run on could overflow, and 0 · ∞ is not 0.
        after = jax.tree.map(lambda new, old: jnp.where(alive, new, old), after, state)
        return (after, remembered, alive & ~ended), reward

    def one(start: Any) -> Array:
        first = (task.start(start, JAX), begin(policy, theta), jnp.bool_(True))
        return jnp.sum(jax.lax.scan(step, first, None, length=horizon)[1])

    return jax.vmap(one)(starts)


def _unwrap(env: gym.Env) -> tuple[gym.Env, float]:
    """Return what is inside the wrappers that change nothing, and the shortest time limit among them."""
    limit = float("inf")
    while type(env) in _TRANSPARENT:
        if type(env) is TimeLimit:
            limit = min(limit, env._max_episode_steps)
        env = env.env  # type: ignore[attr-defined]
    return env, limit
