"""Rollouts: a deterministic policy in an environment, from a seed to a `Trajectory`.

`rollout` plays one episode through Gymnasium at NumPy's price, or, where the physics is pure and nothing is around
it, as one compiled program. `evaluate` plays many: of such tasks all at once, of others one by one or in a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.core.problem import Problem
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.envs.adapter import problem_of, takes_unclipped_actions
from ddopg.envs.base import initial_observation
from ddopg.envs.isolation import Isolated
from ddopg.errors import RolloutError, SpaceError, TrajectoryError
from ddopg.policies import Policy
from ddopg.rollouts.compiled import play, simulate, task_of
from ddopg.rollouts.stepping import RESET, STEP, Step, called, steps
from ddopg.support.signals import TimeUp, deadline


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
    that knows how many steps had happened. Cartpole and swimmer as `gym.make` gives them are not stepped, but played
    in one program, which leaves the environment as it is; with any wrapper around them they are stepped.
    """
    problem = problem_of(env, horizon)
    theta = np.asarray(theta, np.float32)
    trajectory = play(env, policy, theta, seed, problem.horizon)
    if trajectory is not None:
        return trajectory
    episode: list[Step] = []
    try:
        # What overflows is found by looking at the numbers, so NumPy need not say it as well.
        with _clock(env, time_limit), np.errstate(over="ignore", invalid="ignore"):
            for step in steps(env, policy.at(theta), seed, problem.horizon):
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
    task = task_of(env)
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
    observations, _ = called(partial(reset, seed=seeds), RESET, "reset", 0, seeds[0])
    for step in range(problem.horizon):
        seen = np.asarray(observations, np.float32).reshape(len(seeds), -1)
        actions = np.asarray(policy.act(theta, seen)).reshape(-1, *space.shape)
        sent = np.clip(actions, space.low, space.high) if clip else actions
        observations, rewards, ended, cut, _ = called(partial(envs.step, sent), STEP, "step", step, seeds[0])
        returns += np.where(alive, rewards, 0.0)
        over = np.asarray(ended) | np.asarray(cut)
        alive &= ~over
        if not alive.any():
            break
        if waits and over.any():  # this one must be told to begin anew
            observations, _ = envs.reset(options={"reset_mask": over})
    return returns


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
    if after != problem:
        raise RolloutError(
            f"the environment changed its spaces, from {problem} to {after}; they must stay the same"
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
