"""The memory: every trajectory ever seen, which of them the surrogate is built from, and what was computed for them.

Nothing here knows a policy. Host arrays only: the memory grows, and compiled programs want fixed shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ddopg.config import SelectionConfig
from ddopg.data import Trajectory, returns_of
from ddopg.errors import ArtefactError, TrajectoryError, require

UNKNOWN = np.float32(np.nan)
MOST_NUMBERS = 2**20  # kept in the table, 4 MB; beyond it the pairs used longest ago are forgotten


class Pairs(NamedTuple):
    """log-likelihoods of (policy, trajectory) pairs, each computed once and kept while its seat is kept."""

    owner: np.ndarray = np.empty(0, np.int64)  # (W,) index of the trajectory on each seat, −1: free
    used: np.ndarray = np.empty(0, np.int64)  # (W,) when it was last selected
    values: np.ndarray = np.empty(
        (0, 0, 1), np.float32
    )  # (W, W, K) policy, trajectory; NaN: not computed yet
    stride: int = 1  # every how many steps the policies were compared


class Memory(NamedTuple):
    """All trajectories in the order they came, their returns, and the pairs computed so far."""

    trajectories: tuple[Trajectory, ...] = ()
    returns: tuple[float, ...] = ()
    longest: int = 0  # steps of the longest of them
    pairs: Pairs = Pairs()

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
        returns=(*memory.returns, value),
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


def seat(
    pairs: Pairs, indices: np.ndarray, now: int, times: int = 1, most: int = MOST_NUMBERS
) -> tuple[Pairs, np.ndarray]:
    """Give each trajectory index a seat; the newcomers take free seats, then those used longest ago.

    `times` is K, the numbers kept per pair; `most` bounds the size of the table.
    """
    pairs = _with_room(pairs, len(indices), times, math.isqrt(most // times))
    owner, used, values = pairs.owner.copy(), pairs.used.copy(), pairs.values.copy()
    newcomers = indices[~np.isin(indices, owner)]
    free_first = np.argsort(np.where(np.isin(owner, indices), np.inf, used), kind="stable")
    taken = free_first[: len(newcomers)]
    owner[taken] = newcomers
    values[taken, :] = UNKNOWN
    values[:, taken] = UNKNOWN
    order = np.argsort(owner, kind="stable")
    seats = order[np.searchsorted(owner, indices, sorter=order)]
    used[seats] = now
    return pairs._replace(owner=owner, used=used, values=values), seats


def check_pairs(memory: Memory, times: int) -> None:
    """Refuse a table, read from a file, whose parts do not belong together; `times` is K."""
    owner, used, values, stride = memory.pairs
    seats = len(owner)
    taken = owner[owner >= 0]
    require(
        owner.shape == used.shape == (seats,)
        and owner.dtype == used.dtype == np.int64
        and values.ndim == 3
        and (values.shape == (seats, seats, times) or seats == 0)
        and values.dtype == np.float32
        and len(np.unique(taken)) == len(taken)
        and bool(np.all(taken < memory.size))
        and stride >= 1
        and memory.longest == max((t.length for t in memory.trajectories), default=0),
        "the table of pairs does not fit the trajectories",
        ArtefactError,
    )


def _with_room(pairs: Pairs, needed: int, times: int, most: int) -> Pairs:
    """Double the seats while they are all taken and the limit is not reached."""
    size = len(pairs.owner)
    full = not np.any(pairs.owner < 0)
    wanted = max(2 * size if full else size, 2 * needed)
    wanted = min(wanted, max(most, needed))
    if wanted <= size:
        return pairs
    owner, used = np.full(wanted, -1, np.int64), np.full(wanted, -1, np.int64)
    values = np.full((wanted, wanted, times), UNKNOWN, np.float32)
    owner[:size], used[:size], values[:size, :size] = pairs.owner, pairs.used, pairs.values
    return pairs._replace(owner=owner, used=used, values=values)


def _once(indices: np.ndarray) -> Selection:
    return Selection(indices, np.ones(len(indices), np.int64))
