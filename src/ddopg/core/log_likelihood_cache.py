"""A memo of what was computed for trajectories: how each is compared, and the log-likelihoods of pairs of them.

It is not knowledge: everything in it can be computed again to the same bit, and is after a resume. Entries belong to
a trajectory by its identity and not by its number, so states that share a memo never mislead each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import SurrogateConfig
from ddopg.core.surrogate import log_likelihoods
from ddopg.core.time_grid import Compared, View, compared, stack
from ddopg.core.types import Trajectory
from ddopg.policies import Policy

MOST_NUMBERS = 2**20  # kept in the table, 4 MB; beyond it the trajectories used longest ago are forgotten
MOST_AT_ONCE = 128  # (policy, trajectory) pairs that a program computes
IN_USE = np.iinfo(np.int64).max


class Kind(NamedTuple):
    """What the numbers of a memo depend on beside the trajectories."""

    policy: Policy
    config: SurrogateConfig
    view: View
    rows: int  # N, trajectories in use at a time

    @property
    def at_once(self) -> int:
        """Pairs per call of the program: a newcomer's row and column. Always as many, because a program for another
        number rounds in another way."""
        return min(2 * self.rows, MOST_AT_ONCE)


class Pairs:
    """A bounded number of seats for trajectories; every pair of those seated is computed at most once."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._forget()

    def _forget(self) -> None:
        times = self.kind.view.times
        seats = max(self.kind.rows, math.isqrt(MOST_NUMBERS // times))
        self.values = jnp.zeros((seats, seats, times), jnp.float32)  # (W, W, K) policy, trajectory
        self._known = np.zeros((seats, seats), bool)
        self._used = np.full(seats, -1, np.int64)  # when it was last in use
        self._held: list[tuple[Trajectory, Compared] | None] = [None] * seats
        self._seat_of: dict[int, int] = {}  # by the identity of a trajectory that is held

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of a state has no memo yet: it would not know the copied trajectories by their identity."""
        return type(None), ()

    def seat(self, trajectories: Sequence[Trajectory], now: int) -> np.ndarray:
        """The seat of each trajectory; newcomers take free seats, then those used longest ago."""
        new = {id(t): t for t in trajectories if id(t) not in self._seat_of}
        if new:
            used = self._used.copy()
            used[[self._seat_of[id(t)] for t in trajectories if id(t) in self._seat_of]] = IN_USE
            for place, newcomer in zip(np.argsort(used, kind="stable").tolist(), new.values(), strict=False):
                self._give(place, newcomer)
        seats = np.array([self._seat_of[id(t)] for t in trajectories])
        self._used[seats] = now
        return seats

    def stacked(self, seats: np.ndarray, worth: float = 1.0) -> Compared:
        """The trajectories on these seats as rows of arrays, N of them; rewards in units of `worth`."""
        held = [held for place in seats.tolist() if (held := self._held[place])]
        if worth != 1:
            return stack(
                [compared(trajectory, self.kind.view, worth) for trajectory, _ in held], self.kind.rows
            )
        return stack([row for _, row in held], self.kind.rows)

    def complete(self, seats: np.ndarray, stacked: Compared) -> None:
        """Compute what is not known yet of the pairs of these seats: usually one new row and one new column."""
        policies, trajectories = np.nonzero(~self._known[np.ix_(seats, seats)])
        number = self.kind.at_once
        for start in range(0, len(policies), number):
            i, j = (_fill(some[start : start + number], number) for some in (policies, trajectories))
            try:
                self.values = _with_pairs(self.values, *self.kind[:2], i, j, seats[i], seats[j], *stacked[:4])
            except BaseException:  # the old table is spent by then
                self._forget()
                raise
        self._known[np.ix_(seats, seats)] = True

    def _give(self, place: int, newcomer: Trajectory) -> None:
        if (before := self._held[place]) is not None:
            del self._seat_of[id(before[0])]
        self._held[place] = (newcomer, compared(newcomer, self.kind.view))
        self._seat_of[id(newcomer)] = place
        self._known[place, :] = self._known[:, place] = False


def _fill(indices: np.ndarray, number: int) -> np.ndarray:
    """To the size of the program; the first is computed again where there is nothing to do."""
    filled = np.full(number, indices[0])
    filled[: len(indices)] = indices
    return filled


@partial(jax.jit, static_argnames=("policy", "config"), donate_argnames="values")
def _with_pairs(
    values: Array,
    policy: Policy,
    config: SurrogateConfig,
    i: Array,
    j: Array,
    seats_i: Array,
    seats_j: Array,
    thetas: Array,
    observations: Array,
    actions: Array,
    lived: Array,
) -> Array:
    each = jax.vmap(partial(log_likelihoods, policy, config=config))
    found = each(thetas[i], observations[j], actions[j], lived[j])
    return values.at[seats_i, seats_j].set(found.astype(values.dtype))
