"""A learning problem: sizes, action range and horizon; all that a learner must know before the first rollout."""

from __future__ import annotations

from typing import Any, NamedTuple

from ddopg.errors import ArtefactError, require


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
