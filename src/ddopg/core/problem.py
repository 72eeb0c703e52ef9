"""A learning problem (sizes, action range, horizon), and the policy class that a configuration asks for on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddopg.config import Config
from ddopg.errors import ArtefactError, require
from ddopg.policies import Policy, make_policy


class Problem(NamedTuple):
    """What a learner must know about a task before the first rollout."""

    observation_size: int
    low: tuple[float, ...]  # (A,) of the action range
    high: tuple[float, ...]
    horizon: int

    @property
    def action_size(self) -> int:
        """A."""
        return len(self.low)


def build_policy(problem: Problem, config: Config, network: Policy | None = None) -> Policy:
    """The policy class of a configuration on a problem, or a network of the user's own in its place."""
    low, high = np.asarray(problem.low), np.asarray(problem.high)
    return make_policy(config.policy, problem.observation_size, low, high, network)


def problem_from_dict(values: dict[str, Any]) -> Problem:
    """A problem from plain values, every one of them checked."""
    problem = Problem(
        observation_size=values["observation_size"],
        low=tuple(map(float, values["low"])),
        high=tuple(map(float, values["high"])),
        horizon=values["horizon"],
    )
    for size in (problem.observation_size, problem.horizon, problem.action_size):
        require(
            type(size) is int and 0 < size < 2**31,
            f"a size must be a positive number, got {size!r}",
            ArtefactError,
        )
    require(
        len(problem.low) == len(problem.high)
        and all(a <= b for a, b in zip(problem.low, problem.high, strict=True)),
        f"the action range must have low ≤ high, got {problem.low} and {problem.high}",
        ArtefactError,
    )
    return problem
