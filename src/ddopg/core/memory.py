"""The memory: every trajectory ever seen. Host arrays only: it grows, and compiled programs want fixed shapes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddopg.core.types import Trajectory, compute_return
from ddopg.errors import TrajectoryError, require


class Memory(NamedTuple):
    """All trajectories in the order they came, and their returns."""

    trajectories: tuple[Trajectory, ...] = ()
    returns: np.ndarray = np.empty(0)  # (N,)
    longest: int = 0  # steps of the longest of them
    purposes: tuple[str, ...] = ()  # why each was rolled out; see `state.Proposal`

    @property
    def size(self) -> int:
        """The number of trajectories."""
        return len(self.trajectories)


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
    return memory._replace(
        trajectories=(*memory.trajectories, trajectory),
        returns=np.append(memory.returns, value),
        longest=max(memory.longest, trajectory.length),
        purposes=(*memory.purposes, purpose),
    )


def find_rows(memory: Memory, *purposes: str) -> np.ndarray:
    """The rows of all rollouts of some purposes, oldest first.

    Args:
        memory: every rollout.
        purposes: such as `check`.
    """
    return np.flatnonzero([purpose in purposes for purpose in memory.purposes])
