"""A cache of what was computed for trajectories: their subsampled form, and the log-likelihoods of pairs of them.

It stands beside the state and is no part of it: everything in it can be computed again to the same bit, and is after
a resume. Entries belong to a trajectory by its identity, not by its number, so states that share a cache never
mislead each other.
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
from ddopg.core.time_grid import SubsampledTrajectory, TimeGrid, stack, subsample
from ddopg.core.types import Trajectory
from ddopg.policies import Policy

MAX_NUMBERS = 2**20  # kept in the table, 4 MB; beyond it the trajectories used longest ago are forgotten
MAX_PAIRS = 128  # (policy, trajectory) pairs that one call of the program computes
IN_USE = np.iinfo(np.int64).max


class CacheKey(NamedTuple):
    """What the numbers of a cache depend on beside the trajectories."""

    policy: Policy
    config: SurrogateConfig
    grid: TimeGrid
    rows: int  # N, trajectories in use at a time

    @property
    def pairs_per_call(self) -> int:
        """Pairs per call of the program: the row and the column of a new trajectory.

        Always as many, because a program for another number rounds in another way.
        """
        return min(2 * self.rows, MAX_PAIRS)


class Pairs(NamedTuple):
    """(policy, trajectory) pairs: their rows in the stacked arrays and their slots in the table, (P,) each."""

    policies: np.ndarray
    trajectories: np.ndarray
    policy_slots: np.ndarray
    trajectory_slots: np.ndarray


class LogLikelihoodCache:
    """A bounded number of slots for trajectories; every pair of those held is computed at most once."""

    def __init__(self, key: CacheKey) -> None:
        self.key = key
        self._clear()

    def _clear(self) -> None:
        times = self.key.grid.times
        slots = max(self.key.rows, math.isqrt(MAX_NUMBERS // times))
        self.values = jnp.zeros((slots, slots, times), jnp.float32)  # (W, W, K) policy, trajectory
        self._known = np.zeros((slots, slots), bool)
        self._used = np.full(slots, -1, np.int64)  # when it was last in use
        self._held: list[tuple[Trajectory, SubsampledTrajectory] | None] = [None] * slots
        self._slot_of: dict[int, int] = {}  # by the identity of a trajectory that is held

    def assign_slots(self, trajectories: Sequence[Trajectory], now: int) -> np.ndarray:
        """The slot of each trajectory; new ones take free slots, then those used longest ago."""
        new = {id(t): t for t in trajectories if id(t) not in self._slot_of}
        if new:
            used = self._used.copy()
            used[[self._slot_of[id(t)] for t in trajectories if id(t) in self._slot_of]] = IN_USE
            for slot, trajectory in zip(np.argsort(used, kind="stable").tolist(), new.values(), strict=False):
                self._hold(slot, trajectory)
        slots = np.array([self._slot_of[id(t)] for t in trajectories])
        self._used[slots] = now
        return slots

    def stack(self, slots: np.ndarray, reward_scale: float = 1.0) -> SubsampledTrajectory:
        """The trajectories in these slots as rows of arrays, N of them; rewards divided by the scale."""
        held = [held for slot in slots.tolist() if (held := self._held[slot])]
        if reward_scale != 1:
            grid = self.key.grid
            return stack([subsample(trajectory, grid, reward_scale) for trajectory, _ in held], self.key.rows)
        return stack([row for _, row in held], self.key.rows)

    def complete(self, slots: np.ndarray, stacked: SubsampledTrajectory) -> None:
        """Compute what is not known yet of the pairs of these slots: usually one new row and one new column."""
        policies, trajectories = np.nonzero(~self._known[np.ix_(slots, slots)])
        number = self.key.pairs_per_call
        for start in range(0, len(policies), number):
            i, j = (_fill(some[start : start + number], number) for some in (policies, trajectories))
            pairs = Pairs(i, j, slots[i], slots[j])
            try:
                self.values = _with_pairs(self.values, pairs, stacked, self.key.policy, self.key.config)
            except BaseException:  # the old table was donated to the program and is gone
                self._clear()
                raise
        self._known[np.ix_(slots, slots)] = True

    def _hold(self, slot: int, trajectory: Trajectory) -> None:
        if (before := self._held[slot]) is not None:
            del self._slot_of[id(before[0])]
        self._held[slot] = (trajectory, subsample(trajectory, self.key.grid))
        self._slot_of[id(trajectory)] = slot
        self._known[slot, :] = self._known[:, slot] = False


def _fill(indices: np.ndarray, number: int) -> np.ndarray:
    """To the size of the program; the first is computed again where there is nothing to do."""
    filled = np.full(number, indices[0])
    filled[: len(indices)] = indices
    return filled


@partial(jax.jit, static_argnames=("policy", "config"), donate_argnames="values")
def _with_pairs(
    values: Array, pairs: Pairs, stacked: SubsampledTrajectory, policy: Policy, config: SurrogateConfig
) -> Array:
    """The table (W, W, K) with the log-likelihoods of these pairs."""
    each = jax.vmap(partial(log_likelihoods, policy, config=config))
    paths = jax.tree.map(lambda array: array[pairs.trajectories], stacked)
    found = each(stacked.thetas[pairs.policies], paths)
    return values.at[pairs.policy_slots, pairs.trajectory_slots].set(found.astype(values.dtype))
