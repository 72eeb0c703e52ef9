"""Rollouts of several policies as one compiled program, where the environment is pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from ddopg.core.state import Proposal
from ddopg.core.types import Trajectory
from ddopg.envs.adapter import problem_from_env
from ddopg.errors import RolloutError
from ddopg.policies import Policy
from ddopg.rollouts.compiled import Episode, find_playable, play_places
from ddopg.rollouts.playing import (
    make_episode,
    play_steps,
    require_return,
    require_same_problem,
)
from ddopg.rollouts.spec import RolloutSpec

Outcome = Trajectory | RolloutError


def rollout_together(
    env: gym.Env,
    policy: Policy,
    proposals: Sequence[Any],
    horizon: int | None = None,
    time_limit: float | None = None,
) -> list[Trajectory]:
    """Play one episode of each proposal, all of them as one compiled program where the environment is pure functions.

    On others they are played one after the other. The last digits may differ from those of `rollout`, which is
    another program.

    Args:
        env: a Gymnasium environment whose spaces are boxes.
        policy: the policy class.
        proposals: what `DDOPG.ask` gives: each has a number, parameters `theta`, a seed, and noise or none.
        horizon: the longest episode in steps; the environment's own time limit, if not given.
        time_limit: in seconds, for each episode that is stepped; None waits for ever.

    Returns:
        What happened, one trajectory per proposal.

    Raises:
        RolloutError: the environment did something wrong, or was not done within the time limit.
        SpaceError: the method cannot work with the spaces of the environment.

    Example:
        >>> import ddopg
        >>> from ddopg.rollouts import rollout_together
        >>> agent = ddopg.DDOPG("cartpole", seed=0)
        >>> proposals = agent.ask(4)
        >>> trajectories = rollout_together(agent.env, agent.policy, proposals)
        >>> for proposal, trajectory in zip(proposals, trajectories, strict=True):
        ...     _ = agent.tell(proposal, trajectory)
        >>> agent.state.told
        4
    """
    problem, places = problem_from_env(env, horizon), choose_places(len(proposals))
    return [
        played or require_return(play_steps(env, policy, asked, problem, time_limit))
        for asked, played in _play_seated(env, policy, problem.horizon, proposals, places)
    ]


def play_proposals(spec: RolloutSpec, proposals: Sequence[Proposal], places: int) -> list[Outcome]:
    """Play rollouts of a run in this process, as one compiled program if the environment is pure functions.

    Args:
        spec: what they have in common.
        proposals: what to play.
        places: of the program. A proposal has the place that its number says, so that a run which is resumed computes
            what it would have computed, with whomever a rollout is played.

    Returns:
        What became of each.
    """
    try:
        require_same_problem(spec.env, spec.problem)
    except RolloutError as error:
        return [error] * len(proposals)
    seated = _play_seated(spec.env, spec.policy, spec.problem.horizon, proposals, places)
    return [played or _play_steps(spec, asked) for asked, played in seated]


def choose_places(number: int) -> int:
    """Return how many places a program for so many rollouts has, a power of two: few sizes are compiled.

    Example:
        >>> [choose_places(number) for number in (1, 3, 4, 20)]
        [1, 4, 4, 32]
    """
    return 1 << max(number - 1, 0).bit_length()


def arrange(numbers: Sequence[int], places: int) -> list[list[int | None]]:
    """Seat everybody where the number says, in as many rounds as the fullest place needs.

    Args:
        numbers: of the proposals.
        places: of a round; number k sits at k modulo them.

    Returns:
        Rounds: who sits at each place, as an index into the numbers, or None.

    Example:
        >>> arrange([4, 5, 8], places=4)
        [[0, 1, None, None], [2, None, None, None]]
    """
    rounds: list[list[int | None]] = []
    for index, number in enumerate(numbers):
        place = number % places
        if not any(seats[place] is None for seats in rounds):
            rounds.append([None] * places)
        next(seats for seats in rounds if seats[place] is None)[place] = index
    return rounds


def _play_seated(
    env: gym.Env, policy: Policy, horizon: int, proposals: Sequence[Any], places: int
) -> list[tuple[Episode, Trajectory | None]]:
    """What each proposal asks for, and what happened, where one program can play it and every number is finite."""
    episodes = [make_episode(proposal, horizon) for proposal in proposals]
    played: list[Trajectory | None] = [None] * len(episodes)
    pure = find_playable(env, policy, horizon)
    if pure is None:
        return [(asked, None) for asked in episodes]
    for seats in arrange([proposal.number for proposal in proposals], places):
        seated = [None if index is None else episodes[index] for index in seats]
        for index, trajectory in zip(seats, play_places(pure, policy, seated, horizon), strict=True):
            if index is not None:
                played[index] = trajectory
    return [*zip(episodes, played, strict=True)]


def _play_steps(spec: RolloutSpec, asked: Episode) -> Outcome:
    """Step by step, which says what goes wrong."""
    try:
        trajectory = play_steps(spec.env, spec.policy, asked, spec.problem, spec.time_limit)
        return require_return(trajectory, spec.config.discount)
    except RolloutError as error:
        return error
