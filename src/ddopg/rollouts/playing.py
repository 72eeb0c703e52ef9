"""Rollouts: a deterministic policy in an environment, from a seed to a `Trajectory`.

`rollout` plays one episode through Gymnasium at NumPy's price, or, where the physics is pure and nothing is around
it, as one compiled program. `evaluate` plays many of one policy: of such tasks all at once, of others one by one or
in a vector. Several policies at once are in `together.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.core.action_noise import act_with_noise, draw_noise
from ddopg.core.problem import Problem
from ddopg.core.replay import respond_to_batch
from ddopg.core.state import Proposal
from ddopg.core.types import Trajectory, compute_return, make_trajectory
from ddopg.envs.adapter import problem_from_env, takes_unclipped_actions
from ddopg.envs.isolation import Isolated
from ddopg.errors import RolloutError, SpaceError, TrajectoryError
from ddopg.policies import Policy
from ddopg.rollouts.compiled import Episode, find_functions, play_compiled, simulate
from ddopg.rollouts.spec import RolloutSpec
from ddopg.rollouts.stepping import RESET, STEP, Step, call_env, iterate_steps
from ddopg.support.signals import TimeUp, deadline


def rollout(
    env: gym.Env,
    policy: Policy,
    theta: Any,
    seed: int,
    horizon: int | None = None,
    time_limit: float | None = None,
) -> Trajectory:
    """Play one episode of a deterministic policy. The same arguments give the same trajectory, bit for bit.

    Cartpole and swimmer as `gymnasium.make` gives them are not stepped, but played as one compiled program, which
    leaves the environment as it is; with any wrapper around them they are stepped.

    Args:
        env: a Gymnasium environment whose spaces are boxes.
        policy: the policy class.
        theta: its parameters, (D,).
        seed: what the environment is reset with.
        horizon: the longest episode in steps; the environment's own time limit, if not given.
        time_limit: in seconds; None waits for ever.

    Returns:
        What happened, padded to the horizon.

    Raises:
        RolloutError: the environment did something wrong, or was not done within the time limit; `steps` of the error
            says how many steps had happened.
        SpaceError: the method cannot work with the spaces of the environment.

    Example:
        >>> import gymnasium as gym, ddopg
        >>> from ddopg.policies import linear
        >>> from ddopg.rollouts import rollout
        >>> env, balance = gym.make("ddopg/Cartpole-v0"), [1.0, 2.0, -60.0, -12.0, 0.0]
        >>> trajectory = rollout(env, linear(4, 1), balance, seed=0)
        >>> trajectory.length, trajectory.observations.shape, trajectory.actions.shape
        (100, (100, 4), (100, 1))
    """
    asked = Episode(np.asarray(theta, np.float32), seed)
    return play_episode(env, policy, asked, problem_from_env(env, horizon), time_limit)


def play_proposal(spec: RolloutSpec, proposal: Proposal) -> Trajectory:
    """Play one rollout of a run in this process; raises `RolloutError` like `rollout`."""
    require_same_problem(spec.env, spec.problem)
    asked = make_episode(proposal, spec.problem.horizon)
    trajectory = play_episode(spec.env, spec.policy, asked, spec.problem, spec.time_limit)
    return require_return(trajectory, spec.config.discount)


def make_episode(proposal: Proposal, horizon: int) -> Episode:
    """Say what is to be played for a proposal, its noise drawn."""
    noise = draw_noise(proposal.seed, proposal.noise, horizon) if proposal.noise else None
    return Episode(np.asarray(proposal.theta, np.float32), proposal.seed, noise)


def evaluate(
    env: gym.Env | gym.vector.VectorEnv,
    policy: Policy,
    theta: Any,
    seeds: Sequence[int],
    horizon: int | None = None,
    time_limit: float | None = None,
) -> np.ndarray:
    """Measure a policy: the returns of one episode per seed. Nothing is learnt from them.

    Args:
        env: a Gymnasium environment; a vector of environments plays as many episodes at a time as it has copies.
        policy: the policy class.
        theta: its parameters, (D,).
        seeds: what the environment is reset with, one after the other.
        horizon: the longest episode in steps; the environment's own time limit, if not given.
        time_limit: in seconds, for each episode that is stepped on its own; None waits for ever.

    Returns:
        Undiscounted returns, float64, one per seed.

    Raises:
        RolloutError: the environment did something wrong, or was not done within the time limit.
        SpaceError: the method cannot work with the spaces of the environment.

    Example:
        >>> import gymnasium as gym, ddopg
        >>> from ddopg.policies import linear
        >>> from ddopg.rollouts import evaluate
        >>> env, balance = gym.make("ddopg/Cartpole-v0"), [1.0, 2.0, -60.0, -12.0, 0.0]
        >>> returns = evaluate(env, linear(4, 1), balance, seeds=range(5))
        >>> returns.shape, bool(returns.min() > 990)
        ((5,), True)
    """
    problem = problem_from_env(env, horizon)
    if isinstance(env, gym.vector.VectorEnv):
        return _evaluate_in_parallel(env, policy, np.asarray(theta, np.float32), list(seeds), problem)
    pure = find_functions(env)
    if pure is not None and policy.black_box is None:
        starts = pure.draw(seeds)
        returns = np.asarray(simulate(pure, policy, theta, starts, problem.horizon), np.float64)
        if np.isfinite(returns).all():
            return returns  # else stepping says what went wrong, and where
    theta = np.asarray(theta, np.float32)
    episodes = (play_episode(env, policy, Episode(theta, seed), problem, time_limit) for seed in seeds)
    return np.array([require_return(episode).rewards.sum() for episode in episodes])


def require_same_problem(env: gym.Env, problem: Problem) -> None:
    """Refuse an environment that does not pose the problem any more that it posed at first.

    Asked before and after every rollout, so the spaces are compared with the problem, and no second one is made.
    """
    seen, acts = env.observation_space, env.action_space
    if (
        type(seen) is type(acts) is gym.spaces.Box
        and math.prod(seen.shape) == problem.observation_size
        and seen.dtype != np.uint8  # which may mean images
        and acts.dtype.kind == "f"
        and acts.low.ravel().tolist() == [*problem.low]
        and acts.high.ravel().tolist() == [*problem.high]
    ):
        return
    try:
        after = problem_from_env(env, problem.horizon)
    except SpaceError as error:
        raise RolloutError(f"the environment changed its spaces: {error}") from error
    if after != problem:
        raise RolloutError(
            f"the environment changed its spaces, from {problem} to {after}; they must stay the same"
        )


def play_episode(
    env: gym.Env, policy: Policy, asked: Episode, problem: Problem, time_limit: float | None
) -> Trajectory:
    """Play one episode as one program where that can be, else step by step; raises `RolloutError` like `rollout`."""
    trajectory = play_compiled(env, policy, asked.theta, asked.seed, problem.horizon, asked.noise)
    return trajectory or play_steps(env, policy, asked, problem, time_limit)


def play_steps(
    env: gym.Env, policy: Policy, asked: Episode, problem: Problem, time_limit: float | None
) -> Trajectory:
    """Play one episode step by step; raises `RolloutError` like `rollout`."""
    (theta, seed, noise), episode = asked, list[Step]()
    try:
        # What overflows is found by looking at the numbers, so NumPy need not say it as well.
        with _limit_time(env, time_limit), np.errstate(over="ignore", invalid="ignore"):
            act = policy.at(theta) if noise is None else act_with_noise(policy, theta, noise)
            for step in iterate_steps(env, act, seed, problem.horizon):
                episode.append(step)
        require_same_problem(env, problem)
        return _to_trajectory(theta, episode, problem.horizon, seed)
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


def require_return(trajectory: Trajectory, discount: float = 1.0) -> Trajectory:
    """Refuse an episode whose rewards are finite, but not their sum; a learner could not take it in."""
    try:
        _require_finite(compute_return(trajectory.rewards, discount), trajectory.seed)
    except RolloutError as error:
        error.steps = trajectory.length
        raise
    return trajectory


def _require_finite(value: float, seed: int) -> None:
    if not math.isfinite(value):
        raise RolloutError(
            f"the return of the episode with seed {seed} is {value}, expected a finite number; "
            "give the rewards in a larger unit"
        )


def _evaluate_in_parallel(
    envs: gym.vector.VectorEnv, policy: Policy, theta: np.ndarray, seeds: list[int], problem: Problem
) -> np.ndarray:
    copies, found = envs.num_envs, list[np.ndarray]()
    for first in range(0, len(seeds), copies):
        chosen = seeds[first : first + copies]
        spare = [chosen[-1]] * (copies - len(chosen))
        found.append(_play_together(envs, policy, theta, [*chosen, *spare], problem)[: len(chosen)])
    return np.concatenate(found)


def _play_together(
    envs: gym.vector.VectorEnv, policy: Policy, theta: np.ndarray, seeds: list[int], problem: Problem
) -> np.ndarray:
    """Play one episode in each copy and return their returns; a copy that is done waits for the others."""
    space, clip = envs.single_action_space, not takes_unclipped_actions(envs)
    assert isinstance(space, gym.spaces.Box)
    waits = envs.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.DISABLED
    alive, returns = np.ones(len(seeds), bool), np.zeros(len(seeds))
    reset: Any = envs.reset  # its hints allow one seed only
    observations, _ = call_env(partial(reset, seed=seeds), RESET, "reset", 0, seeds[0])
    remembered: Any = None
    for step in range(problem.horizon):
        seen = np.asarray(observations, np.float32).reshape(len(seeds), -1)
        remembered, actions = respond_to_batch(policy, theta, remembered, seen)
        actions = actions.reshape(-1, *space.shape)
        sent = np.clip(actions, space.low, space.high) if clip else actions.copy()  # which they may change
        observations, rewards, ended, cut, _ = call_env(
            partial(envs.step, sent), STEP, "step", step, seeds[0]
        )
        with np.errstate(over="ignore", invalid="ignore"):
            returns += np.where(alive, rewards, 0.0)
        over = np.asarray(ended) | np.asarray(cut)
        alive &= ~over
        if not alive.any():
            break
        if waits and over.any():  # this one must be told to begin anew
            observations, _ = envs.reset(options={"reset_mask": over})
    for seed, value in zip(seeds, returns.tolist(), strict=True):
        _require_finite(value, seed)
    return returns


def _limit_time(env: gym.Env, time_limit: float | None) -> AbstractContextManager[None]:
    """Time an isolated environment from outside, any other by an alarm."""
    if isinstance(env, Isolated):
        env.time_limit = time_limit
        return nullcontext()
    return deadline(time_limit)


def _to_trajectory(theta: np.ndarray, episode: list[Step], horizon: int, seed: int) -> Trajectory:
    observations, actions, rewards, terminated, truncated = zip(*episode, strict=True)
    try:
        return make_trajectory(
            theta,
            _stack(observations),
            _stack(actions),
            rewards,
            horizon=horizon,
            terminated=terminated[-1],
            truncated=truncated[-1] or not terminated[-1],
            seed=seed,
        )
    except TrajectoryError as error:
        raise RolloutError(f"the episode with seed {seed} cannot be used: {error}") from error


def _stack(rows: Sequence[np.ndarray]) -> Any:
    """Rows of one size below each other; NumPy takes long to find out by itself that they fit."""
    shapes = {row.shape for row in rows}
    return np.concatenate(rows).reshape(len(rows), -1) if len(shapes) == rows[0].ndim == 1 else rows
