"""The memory: every trajectory ever seen. Host arrays only: it grows, and compiled programs want fixed shapes.

Many rules ask in every turn how long each rollout was, and which ones have a purpose. `add` carries these columns
along as it carries the returns, so that nobody walks over all rollouts again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ddopg.core.types import Trajectory, compute_return
from ddopg.errors import TrajectoryError, require

_NO_ROWS = np.empty(0, np.int64)


class Columns(NamedTuple):
    """What follows from trajectories and purposes; computed anew where a memory was made without it."""

    lengths: np.ndarray  # (N,) steps of each rollout
    rows: Mapping[str, np.ndarray]  # purpose → its rollouts, oldest first


class Memory(NamedTuple):
    """All trajectories in the order they came, and their returns."""

    trajectories: tuple[Trajectory, ...] = ()
    returns: np.ndarray = np.empty(0)  # (N,)
    longest: int = 0  # steps of the longest of them
    purposes: tuple[str, ...] = ()  # why each was rolled out; see `state.Proposal`
    columns: Columns | None = None  # of just these trajectories and purposes; see `with_columns`

    @property
    def size(self) -> int:
        """The number of trajectories."""
        return len(self.trajectories)

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each, (N,)."""
        return _columns_of(self).lengths


def add(memory: Memory, trajectory: Trajectory, discount: float = 1.0, purpose: str = "") -> Memory:
    """D ← D ∪ (τ, R). The trajectory must have the shape of those already there, and a return.

    Args:
        memory: the trajectories so far.
        trajectory: one more.
        discount: γ of its return.
        purpose: why it was rolled out.
    """
    value = compute_return(trajectory.rewards, discount)
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
        came, held = trajectory.context.size, first.context.size
        require(
            came == held,
            f"the context of the trajectory has {came} numbers, that of the rollouts before has {held}; tell the "
            "same ones, as context=[...], for every rollout or for none",
            TrajectoryError,
        )
    length, columns = trajectory.length, _columns_of(memory)
    rows = np.append(columns.rows.get(purpose, _NO_ROWS), memory.size)
    return Memory(
        trajectories=(*memory.trajectories, trajectory),
        returns=np.append(memory.returns, value),
        longest=max(memory.longest, length),
        purposes=(*memory.purposes, purpose),
        columns=Columns(np.append(columns.lengths, length), {**columns.rows, purpose: rows}),
    )


def with_columns(memory: Memory) -> Memory:
    """The same memory with its columns, as `add` would have made them.

    Args:
        memory: one that was put together from its parts.
    """
    return memory._replace(columns=_columns_of(memory))


def find_rows(memory: Memory, *purposes: str) -> np.ndarray:
    """The rows of all rollouts of some purposes, oldest first.

    Args:
        memory: every rollout.
        purposes: such as `check`.
    """
    rows = _columns_of(memory).rows
    found = [rows[purpose] for purpose in purposes if purpose in rows]
    return np.sort(np.concatenate(found)) if len(found) > 1 else found[0] if found else _NO_ROWS


def count_rows(memory: Memory, *purposes: str) -> int:
    """How many rollouts have one of some purposes."""
    rows = _columns_of(memory).rows
    return sum(len(rows.get(purpose, ())) for purpose in purposes)


def _columns_of(memory: Memory) -> Columns:
    if memory.columns is not None:
        return memory.columns
    lengths = np.array([trajectory.length for trajectory in memory.trajectories], np.int64)
    return Columns(lengths, _group_rows(memory.purposes))


def _group_rows(purposes: Sequence[str]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, purpose in enumerate(purposes):
        rows.setdefault(purpose, []).append(row)
    return {purpose: np.array(some, np.int64) for purpose, some in rows.items()}
