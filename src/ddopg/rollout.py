"""Rollouts: a deterministic policy in an environment, from a seed to a `Trajectory`.

`rollout` plays one episode through Gymnasium at NumPy's price. `simulate` plays many at once as one compiled
program, for tasks whose physics is pure. `evaluate` takes whichever fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.data import Trajectory, make_trajectory
from ddopg.envs.base import Task, initial_observation
from ddopg.envs.gym_adapter import Problem, problem_of, takes_unclipped_actions
from ddopg.envs.isolated import Isolated
from ddopg.errors import RolloutError, SpaceError, TrajectoryError, require
from ddopg.interrupts import TimeUp, deadline
from ddopg.policies import Policy

FIRST_EVALUATION_SEED = 2**31  # learning draws its seeds below it, so evaluation episodes are always fresh
STEP = ("observation", "reward", "terminated", "truncated", "info")


def rollout(
    env: gym.Env,
    policy: Policy,
    theta: Any,
    seed: int,
    horizon: int | None = None,
    time_limit: float | None = None,
) -> Trajectory:
    """Play one episode of the deterministic policy; the same arguments give the same trajectory.

    Whatever the environment does wrong, within `time_limit` seconds or by not being done by then, is a `RolloutError`
    that knows how many steps had happened.
    """
    problem = problem_of(env, horizon)
    theta = np.asarray(theta, np.float32)
    episode: list[tuple[np.ndarray, np.ndarray, float, bool, bool]] = []
    try:
        # What overflows is found by looking at the numbers, so NumPy need not say it as well.
        with _clock(env, time_limit), np.errstate(over="ignore", invalid="ignore"):
            for step in steps(env, lambda observation: policy.act(theta, observation), seed, problem.horizon):
                episode.append(step)
        require_same(problem, env, horizon)
        return _packed(theta, episode, problem.horizon, seed)
    except TimeUp:
        failure = RolloutError(
            f"the rollout with seed {seed} took longer than the time limit of {time_limit:g} s; "
            "repair the environment, or allow it more time"
        )
        failure.steps = len(episode)
        raise failure from None
    except RolloutError as error:
        error.steps = len(episode)
        raise


def simulate(task: Task, policy: Policy, theta: Any, starts: Any, horizon: int | None = None) -> Array:
    """Returns (B,) of B episodes from the initial observations `starts` (B, O), as one compiled program."""
    return _simulate(task, policy, jnp.asarray(theta), jnp.asarray(starts), horizon or task.horizon)


def evaluate(
    env: gym.Env | gym.vector.VectorEnv,
    policy: Policy,
    theta: Any,
    seeds: Sequence[int],
    horizon: int | None = None,
    time_limit: float | None = None,
) -> np.ndarray:
    """Undiscounted returns of one episode per seed, for reporting: nothing is learnt from them.

    A vector of environments plays as many at a time as it has copies.
    """
    if isinstance(env, gym.vector.VectorEnv):
        return _evaluate_in_parallel(env, policy, np.asarray(theta, np.float32), list(seeds), horizon)
    task = getattr(env.unwrapped, "task", None)
    if task is not None:
        starts = np.stack([initial_observation(task, seed) for seed in seeds])
        horizon = problem_of(env, horizon).horizon
        return np.asarray(simulate(task, policy, theta, starts, horizon), np.float64)
    return np.array([rollout(env, policy, theta, seed, horizon, time_limit).rewards.sum() for seed in seeds])


def _evaluate_in_parallel(
    envs: gym.vector.VectorEnv, policy: Policy, theta: np.ndarray, seeds: list[int], horizon: int | None
) -> np.ndarray:
    problem, copies = problem_of(envs, horizon), envs.num_envs
    found: list[np.ndarray] = []
    for first in range(0, len(seeds), copies):
        chosen = seeds[first : first + copies]
        spare = [chosen[-1]] * (copies - len(chosen))
        found.append(_play_together(envs, policy, theta, [*chosen, *spare], problem)[: len(chosen)])
    return np.concatenate(found)


def _play_together(
    envs: gym.vector.VectorEnv, policy: Policy, theta: np.ndarray, seeds: list[int], problem: Problem
) -> np.ndarray:
    """Returns of one episode in each copy; one that is over waits for the others, whatever it does meanwhile."""
    space, clip = envs.single_action_space, not takes_unclipped_actions(envs)
    assert isinstance(space, gym.spaces.Box)
    waits = envs.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.DISABLED
    alive, returns = np.ones(len(seeds), bool), np.zeros(len(seeds))
    reset: Any = envs.reset  # its hints allow one seed only
    observations, _ = _called(partial(reset, seed=seeds), ("observation", "info"), "reset", 0, seeds[0])
    for step in range(problem.horizon):
        seen = np.asarray(observations, np.float32).reshape(len(seeds), -1)
        actions = np.asarray(policy.act(theta, seen)).reshape(-1, *space.shape)
        sent = np.clip(actions, space.low, space.high) if clip else actions
        observations, rewards, ended, cut, _ = _called(partial(envs.step, sent), STEP, "step", step, seeds[0])
        returns += np.where(alive, rewards, 0.0)
        over = np.asarray(ended) | np.asarray(cut)
        alive &= ~over
        if not alive.any():
            break
        if waits and over.any():  # this one must be told to begin anew
            observations, _ = envs.reset(options={"reset_mask": over})
    return returns


def steps(
    env: gym.Env, act: Callable[[np.ndarray], Any], seed: int, horizon: int
) -> Iterator[tuple[np.ndarray, np.ndarray, float, bool, bool]]:
    """The imperative part: (observation, action, reward, terminated, truncated) until the episode is over."""
    space, expected = env.action_space, env.observation_space.shape
    assert isinstance(space, gym.spaces.Box)
    clip = not takes_unclipped_actions(env)
    observation, _ = _called(partial(env.reset, seed=seed), ("observation", "info"), "reset", 0, seed)
    for step in range(horizon):
        seen = _seen(observation, expected, step, seed)
        action = _answer(act, seen, step, seed)
        sent = np.clip(action.reshape(space.shape), space.low, space.high) if clip else action
        observation, reward, terminated, truncated, _ = _called(
            partial(env.step, sent), STEP, "step", step, seed
        )
        ended, cut = _flag(terminated, step, seed), _flag(truncated, step, seed)
        yield seen, action, _real(reward, step, seed), ended, cut
        if ended or cut:
            return


def _clock(env: gym.Env, time_limit: float | None) -> AbstractContextManager[None]:
    """An isolated environment is timed from outside, others by an alarm."""
    if isinstance(env, Isolated):
        env.time_limit = time_limit
        return nullcontext()
    return deadline(time_limit)


def require_same(problem: Problem, env: gym.Env, horizon: int | None) -> None:
    """Refuse an environment that does not pose the problem any more that it posed at first."""
    try:
        after = problem_of(env, horizon)
    except SpaceError as error:
        raise RolloutError(f"the environment changed its spaces: {error}") from error
    require(
        after == problem,
        f"the environment changed its spaces, from {problem} to {after}; they must stay the same",
        RolloutError,
    )


def _packed(theta: np.ndarray, episode: list, horizon: int, seed: int) -> Trajectory:
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


def _called(call: Callable[[], Any], parts: tuple[str, ...], what: str, step: int, seed: int) -> Any:
    """What the environment returns, if it is as many things as it should be; what it raises is a `RolloutError`."""
    try:
        returned = call()
    except RolloutError as error:
        raise RolloutError(f"{error} in {what}() at step {step} (seed {seed})") from error
    except (Exception, SystemExit) as error:
        raise RolloutError(
            f"the environment raised {type(error).__name__}: {error} in {what}() at step {step} (seed {seed}); "
            "repair the environment"
        ) from error
    if type(returned) is tuple and len(returned) == len(parts):
        return returned
    came = len(returned) if isinstance(returned, tuple) else type(returned).__name__
    raise RolloutError(
        f"{what}() of the environment returned {came} at step {step} (seed {seed}), expected the {len(parts)} things "
        f"({', '.join(parts)}); repair the environment"
    )


def _seen(observation: Any, expected: tuple[int, ...] | None, step: int, seed: int) -> np.ndarray:
    """The observation as the policy sees it: a flat vector."""
    try:
        array = np.asarray(observation)
    except ValueError:
        array = np.asarray(None)
    if array.shape != expected or array.dtype.kind not in "fiub":
        raise RolloutError(
            f"the environment returned an observation of {array.dtype} {array.shape} at step {step} (seed {seed}), "
            f"expected numbers of shape {expected}; repair the environment, or the space it declares"
        )
    return array.astype(np.float32).ravel()


def _real(reward: Any, step: int, seed: int) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError) as error:
        raise RolloutError(
            f"the environment returned the reward {reward!r} at step {step} (seed {seed}), expected a number"
        ) from error


def _flag(value: Any, step: int, seed: int) -> bool:
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_ | int) or (isinstance(value, np.ndarray) and value.size == 1):
        return bool(value)
    raise RolloutError(
        f"the environment said {value!r} for terminated or truncated at step {step} (seed {seed}), expected a bool"
    )


def _answer(act: Callable[[np.ndarray], Any], seen: np.ndarray, step: int, seed: int) -> np.ndarray:
    """The policy's action, which must be finite, as must be what it saw."""
    if not np.isfinite(seen).all():
        raise RolloutError(
            f"the environment returned the observation {seen} at step {step} (seed {seed}), expected finite "
            "numbers; repair the environment or end the episode before that happens"
        )
    action = np.asarray(act(seen), np.float32)
    if not np.isfinite(action).all():
        raise RolloutError(
            f"the policy answered {action} at step {step} (seed {seed}) to the finite observation {seen}; "
            "its parameters have grown too large: use a smaller design.spread or learning rate"
        )
    return action


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
