"""Rollouts: a deterministic policy in an environment, from a seed to a `Trajectory`.

`rollout` plays one episode through Gymnasium at NumPy's price. `simulate` plays many at once as one compiled
program, for tasks whose physics is pure. `evaluate` takes whichever fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.data import Trajectory, make_trajectory
from ddopg.envs.base import Task, initial_observation
from ddopg.envs.gym_adapter import problem_of, takes_unclipped_actions
from ddopg.errors import RolloutError, TrajectoryError
from ddopg.policies import Policy

FIRST_EVALUATION_SEED = 2**31  # learning draws its seeds below it, so evaluation episodes are always fresh


def rollout(env: gym.Env, policy: Policy, theta: Any, seed: int, horizon: int | None = None) -> Trajectory:
    """Play one episode of the deterministic policy; the same arguments give the same trajectory."""
    horizon = problem_of(env, horizon).horizon
    theta = np.asarray(theta, np.float32)
    episode = list(steps(env, lambda observation: policy.act(theta, observation), seed, horizon))
    observations, actions, rewards, terminated, truncated = zip(*episode, strict=True)
    try:
        return make_trajectory(
            theta,
            observations,
            actions,
            rewards,
            horizon=horizon,
            terminated=terminated[-1],
            truncated=truncated[-1] or not terminated[-1],
            seed=seed,
        )
    except TrajectoryError as error:
        raise RolloutError(f"the episode with seed {seed} cannot be used: {error}") from error


def simulate(task: Task, policy: Policy, theta: Any, starts: Any, horizon: int | None = None) -> Array:
    """Returns (B,) of B episodes from the initial observations `starts` (B, O), as one compiled program."""
    return _simulate(task, policy, jnp.asarray(theta), jnp.asarray(starts), horizon or task.horizon)


def evaluate(
    env: gym.Env, policy: Policy, theta: Any, seeds: Sequence[int], horizon: int | None = None
) -> np.ndarray:
    """Undiscounted returns of one episode per seed, for reporting: nothing is learnt from them."""
    task = getattr(env.unwrapped, "task", None)
    if task is not None:
        starts = np.stack([initial_observation(task, seed) for seed in seeds])
        horizon = problem_of(env, horizon).horizon
        return np.asarray(simulate(task, policy, theta, starts, horizon), np.float64)
    return np.array([rollout(env, policy, theta, seed, horizon).rewards.sum() for seed in seeds])


def steps(
    env: gym.Env, act: Callable[[np.ndarray], Any], seed: int, horizon: int
) -> Iterator[tuple[np.ndarray, np.ndarray, float, bool, bool]]:
    """The imperative part: (observation, action, reward, terminated, truncated) until the episode is over."""
    space = env.action_space
    assert isinstance(space, gym.spaces.Box)
    clip = not takes_unclipped_actions(env)
    terminated = truncated = False
    observation, _ = env.reset(seed=seed)
    for step in range(horizon):
        seen = np.asarray(observation, np.float32).ravel()
        action = np.asarray(act(seen), np.float32)
        if not (np.isfinite(action).all() and np.isfinite(seen).all()):
            raise _not_finite(seen, action, step, seed)
        sent = np.clip(action.reshape(space.shape), space.low, space.high) if clip else action
        observation, reward, terminated, truncated, _ = env.step(sent)
        yield seen, action, float(reward), terminated, truncated
        if terminated or truncated:
            return


def _not_finite(observation: np.ndarray, action: np.ndarray, step: int, seed: int) -> RolloutError:
    if np.isfinite(observation).all():
        return RolloutError(
            f"the policy answered {action} at step {step} (seed {seed}) to the finite observation {observation}; "
            "its parameters have grown too large: use a smaller design.spread or learning rate"
        )
    return RolloutError(
        f"the environment returned the observation {observation} at step {step} (seed {seed}), expected finite "
        "numbers; repair the environment or end the episode before that happens"
    )


@partial(jax.jit, static_argnames=("task", "policy", "horizon"))
def _simulate(task: Task, policy: Policy, theta: Array, starts: Array, horizon: int) -> Array:
    from ddopg.envs.jax_ops import JAX

    def step(carry: tuple, _: None) -> tuple[tuple, Array]:
        state, alive = carry
        action = policy.act(theta, task.observe(state, JAX))
        after = task.step(state, action, JAX)
        reward = jnp.where(alive, task.reward(after, action, JAX), 0.0)
        ended = alive & task.terminated(after, JAX)
        # A finished episode stays where it ended: physics run on could overflow, and 0 · ∞ is not 0.
        after = jax.tree.map(lambda new, old: jnp.where(alive, new, old), after, state)
        return (after, alive & ~ended), reward

    def one(start: Any) -> Array:
        first = (task.start(start, JAX), jnp.bool_(True))
        return jnp.sum(jax.lax.scan(step, first, None, length=horizon)[1])

    return jax.vmap(one)(starts)
