"""The memory: every trajectory ever seen, and which of them the surrogate is built from.

Nothing here knows a policy. Host arrays only: the memory grows, and compiled programs want fixed shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ddopg.config import SelectionConfig
from ddopg.data import Trajectory, returns_of
from ddopg.errors import TrajectoryError, require


class Memory(NamedTuple):
    """All trajectories in the order they came, and their returns."""

    trajectories: tuple[Trajectory, ...] = ()
    returns: np.ndarray = np.empty(0)  # (N,)
    longest: int = 0  # steps of the longest of them
    pairs: Any = None  # a memo of what was computed for them, `pairs.Pairs`

    @property
    def size(self) -> int:
        """The number of trajectories."""
        return len(self.trajectories)


class Selection(NamedTuple):
    """Distinct trajectory indices and how often each was drawn."""

    indices: np.ndarray  # (n,)
    counts: np.ndarray  # (n,)


def add(memory: Memory, trajectory: Trajectory, discount: float = 1.0) -> Memory:
    """D ← D ∪ (τ, R). The trajectory must have the shape of those already there, and a return."""
    value = returns_of(trajectory.rewards, discount)
    require(
        math.isfinite(value),
        f"the return of the trajectory is {value}, expected a finite number; give the rewards in a larger unit",
        TrajectoryError,
    )
    if memory.trajectories:
        first = memory.trajectories[0]
        for name in ("theta", "observations", "actions", "rewards"):
            came, held = getattr(trajectory, name).shape, getattr(first, name).shape
            require(
                came == held,
                f"the trajectory's {name} have shape {came}, the memory holds {held}; "
                "build it with make_trajectory(..., horizon=...) for the same policy, or start a new memory",
                TrajectoryError,
            )
    return memory._replace(
        trajectories=(*memory.trajectories, trajectory),
        returns=np.append(memory.returns, value),
        longest=max(memory.longest, trajectory.length),
    )


def softmax_probabilities(returns: np.ndarray, temperature: float) -> np.ndarray:
    """p(I | τ₁ … τ_N) = exp(R̃_I / λ) / Σⱼ exp(R̃ⱼ / λ).  Eq. (21).

    R̃ are the returns scaled to [0, 1] (the paper says only "normalised"); a shift of all R̃ cancels, so the largest
    is taken as 0. Equal returns have equal chances.
    """
    span = np.ptp(returns) or 1.0
    unnormalised = np.exp((returns - np.max(returns)) / span / temperature)
    return unnormalised / np.sum(unnormalised)


def select(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The trajectories of the next surrogate: the latest `keep_last`, the others by the rule."""
    number = len(returns)
    if config.rule == "latest":
        return _once(np.arange(max(0, number - config.size), number))
    if config.rule == "best":
        return _once(np.sort(np.argsort(-returns, kind="stable")[: config.size]))
    returns = MERITS[config.rule](returns)
    last = np.arange(number - min(config.keep_last, number), number)
    if config.replacement:
        drawn = draw_with_replacement(rng, returns, config.size - len(last), config.temperature)
        return Selection(*np.unique(np.concatenate([last, drawn]), return_counts=True))
    earlier = np.arange(number - len(last))
    drawn = draw_without_replacement(
        rng, returns[: len(earlier)], config.size - len(last), config.temperature
    )
    return _once(np.concatenate([earlier[drawn], last]))


MERITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softmax": lambda returns: returns,
    "rank": lambda returns: np.argsort(np.argsort(returns, kind="stable"), kind="stable").astype(float),
    "uniform": np.zeros_like,
}
"""What the softmax is taken of, by the name of the rule."""


def draw_with_replacement(
    rng: np.random.Generator, returns: np.ndarray, number: int, temperature: float
) -> np.ndarray:
    """i₁ … i_N ~ p(I | τ₁ … τ_N), independently: the memory selection of Algorithm 1."""
    return rng.choice(len(returns), size=number, p=softmax_probabilities(returns, temperature))


def draw_without_replacement(
    rng: np.random.Generator, returns: np.ndarray, number: int, temperature: float
) -> np.ndarray:
    """Each index at most once; all of them if there are no more than `number`.

    Where fewer have a probability above zero, the rest is drawn uniformly from the others.
    """
    if len(returns) <= number:
        return np.arange(len(returns))
    p = softmax_probabilities(returns, temperature)
    possible = np.flatnonzero(p)
    if len(possible) <= number:
        others = np.flatnonzero(p == 0)
        filled = rng.choice(others, size=number - len(possible), replace=False)
        return np.sort(np.concatenate([possible, filled]))
    return np.sort(rng.choice(len(returns), size=number, replace=False, p=p))


def _once(indices: np.ndarray) -> Selection:
    return Selection(indices, np.ones(len(indices), np.int64))
