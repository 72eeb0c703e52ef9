"""What the surrogate looks at in a trajectory: the times at which actions are compared, the rewards between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ddopg.core.types import Trajectory


class View(NamedTuple):
    """Which of the H steps are compared: whole paths where `decisions` is 0, else `comparison_times`."""

    horizon: int
    decisions: int
    stride: int
    discount: float

    @property
    def times(self) -> int:
        """K, the numbers per path: one per compared time, or one for the whole."""
        return min(self.decisions, self.horizon) or 1


class Compared(NamedTuple):
    """A trajectory as it is compared; stacked, each array has N rows, those of padding dead from the start."""

    thetas: np.ndarray  # (D,)
    observations: np.ndarray  # (T, O)
    actions: np.ndarray  # (T, A)
    lived: np.ndarray  # (T,) steps that each compared action stands for
    rewards: np.ndarray  # (K,)


def compared(trajectory: Trajectory, view: View, worth: float = 1.0) -> Compared:
    """The whole path (T = H, K = 1), or its actions at the `comparison_times` only (T = K); rewards in units of
    `worth`."""
    times = comparison_times(view.horizon, view.decisions, view.stride)
    edges = np.append(times, view.horizon)
    spans = edges if view.decisions else np.array([0, view.horizon])
    rewards = view.discount ** np.arange(view.horizon) * (trajectory.rewards / worth)

    def between(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
        sums = np.zeros(len(values) + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # too large for their unit: infinite
            np.cumsum(values, out=sums[1:])
            at_edges = sums[edges]
            return (at_edges[1:] - at_edges[:-1]).astype(np.float32)

    def at_times(values: np.ndarray) -> np.ndarray:
        return values[np.minimum(times, view.horizon - 1)] if view.decisions else values

    return Compared(
        thetas=trajectory.theta,
        observations=at_times(trajectory.observations),
        actions=at_times(trajectory.actions),
        lived=between(trajectory.alive, edges),
        rewards=between(rewards, spans),
    )


def stack(rows: Sequence[Compared], number: int) -> Compared:
    """One array of `number` rows for each part."""

    def padded(parts: tuple[np.ndarray, ...]) -> np.ndarray:
        out = np.zeros((number, *parts[0].shape), parts[0].dtype)
        out[: len(parts)] = np.concatenate(parts).reshape(-1, *parts[0].shape)
        return out

    return Compared(*(padded(parts) for parts in zip(*rows, strict=True)))


def comparison_times(horizon: int, decisions: int, stride: int) -> np.ndarray:
    """When actions are compared: at every one of the first `decisions`/2 steps, then at every `stride`-th.

    A failure of a few steps must not be judged by its first action alone, nor a long episode cost more than a
    short one. Times beyond the horizon are cut to it: nothing is alive there.
    """
    if not decisions:
        return np.arange(horizon)
    number, dense = min(decisions, horizon), decisions // 2
    late = dense + stride * np.arange(max(0, number - dense))
    return np.minimum(np.concatenate([np.arange(min(dense, number)), late]), horizon)


def stride_for(longest: int, decisions: int) -> int:
    """The stride of the later comparisons at which the longest episode so far has at most `decisions` of them."""
    late = decisions - decisions // 2
    return max(1, math.ceil((longest - decisions // 2) / late)) if decisions else 1
