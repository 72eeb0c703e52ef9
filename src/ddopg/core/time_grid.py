"""What the surrogate looks at in a trajectory: the times at which actions are compared, the rewards between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.core.types import HostOrDevice, Trajectory


class TimeGrid(NamedTuple):
    """Which of the H steps are compared: all of them where `decisions` is 0, else those of `choose_times`."""

    horizon: int
    decisions: int
    stride: int
    discount: float
    replayed: bool = False  # the policy has a memory: every observation is kept, whatever is compared

    @property
    def times(self) -> int:
        """K, the numbers per path: one per compared time, or one for the whole."""
        return min(self.decisions, self.horizon) or 1


class SubsampledTrajectory(NamedTuple):
    """A trajectory at the times of a grid; stacked, each array has N rows, and those of padding have no steps."""

    thetas: HostOrDevice  # (D,)
    observations: HostOrDevice  # (T, O)
    actions: HostOrDevice  # (T, A)
    step_counts: (
        HostOrDevice  # (T,) steps of the episode that each compared action stands for; 0 after the end
    )
    rewards: HostOrDevice  # (K,)
    times: HostOrDevice | None = None  # (T,) the steps compared, where a policy with a memory sees all (H, O)


def subsample(trajectory: Trajectory, grid: TimeGrid, reward_scale: float = 1.0) -> SubsampledTrajectory:
    """What the surrogate sees of a trajectory.

    Args:
        trajectory: a whole rollout, padded to the horizon H.
        grid: the times at which actions are compared.
        reward_scale: what counts as one reward; 1 unless rewards are of an extraordinary size.

    Returns:
        The whole path (T = H, K = 1), or its actions at the chosen times only (T = K). For a policy with a memory the
        observations are whole all the same: it must see every step up to the last that is compared.
    """
    times = choose_times(grid.horizon, grid.decisions, grid.stride)
    edges = np.append(times, grid.horizon)
    spans = edges if grid.decisions else np.array([0, grid.horizon])
    rewards = grid.discount ** np.arange(grid.horizon) * (trajectory.rewards / reward_scale)

    def between(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
        sums = np.zeros(len(values) + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # too large for their unit: infinite
            np.cumsum(values, out=sums[1:])
            at_edges = sums[edges]
            return (at_edges[1:] - at_edges[:-1]).astype(np.float32)

    def at_times(values: np.ndarray) -> np.ndarray:
        return values[np.minimum(times, grid.horizon - 1)] if grid.decisions else values

    whole = grid.replayed and grid.decisions > 0
    return SubsampledTrajectory(
        thetas=trajectory.theta,
        observations=trajectory.observations if whole else at_times(trajectory.observations),
        actions=at_times(trajectory.actions),
        step_counts=between(trajectory.alive, edges),
        rewards=between(rewards, spans),
        times=np.minimum(times, grid.horizon - 1).astype(np.int32) if whole else None,
    )


def stack(rows: Sequence[SubsampledTrajectory], number: int) -> SubsampledTrajectory:
    """One array of `number` rows for each part; missing rows are zero."""

    def padded(parts: tuple[Any, ...]) -> np.ndarray | None:
        if parts[0] is None:
            return None
        out = np.zeros((number, *parts[0].shape), parts[0].dtype)
        out[: len(parts)] = np.concatenate(parts).reshape(-1, *parts[0].shape)
        return out

    return SubsampledTrajectory(*(padded(parts) for parts in zip(*rows, strict=True)))


def find_real_steps(stacked: SubsampledTrajectory, grid: TimeGrid) -> np.ndarray | None:
    """Find the steps of whole paths that count, as places in the flattened arrays (N·T): only they cost time.

    Args:
        stacked: trajectories as rows of NumPy arrays, those of padding without steps.
        grid: the times of these rows.

    Returns:
        The places, (M,), filled up with N·T to an eighth, a quarter, a half or three quarters of N·T, so that few
        sizes are compiled. None where more than that is real, and for paths at chosen times, which are short.
    """
    if grid.decisions:
        return None
    counts = stacked.step_counts.reshape(-1)
    real = np.flatnonzero(counts)
    room = next(
        (size for share in (8, 4, 2, 4 / 3) if len(real) <= (size := math.ceil(counts.size / share))), None
    )
    if room is None:
        return None
    places = np.full(room, counts.size, np.int32)
    places[: len(real)] = real
    return places


def cut_replayed(stacked: SubsampledTrajectory, grid: TimeGrid) -> SubsampledTrajectory:
    """What a policy with a memory replays, cut to a quarter of the horizon where nothing later is compared.

    Short episodes then cost a quarter, and no more than two sizes are compiled.

    Args:
        stacked: trajectories as rows of NumPy arrays.
        grid: the times of these rows.
    """
    quarter = -(-grid.horizon // 4)
    if stacked.times is not None:
        return _cut_replay(stacked, stacked.times, quarter)
    longest = int(np.count_nonzero(stacked.step_counts, axis=1).max())
    if grid.decisions or longest > quarter:
        return stacked
    return stacked._replace(
        observations=stacked.observations[:, :quarter],
        actions=stacked.actions[:, :quarter],
        step_counts=stacked.step_counts[:, :quarter],
    )


def _cut_replay(stacked: SubsampledTrajectory, times: np.ndarray, quarter: int) -> SubsampledTrajectory:
    """The observations up to the last step that is compared, where that is in the first quarter."""
    if int(np.max(times, where=stacked.step_counts > 0, initial=0)) >= quarter:
        return stacked
    return stacked._replace(
        observations=stacked.observations[:, :quarter], times=np.minimum(times, quarter - 1)
    )


def choose_times(horizon: int, decisions: int, stride: int) -> np.ndarray:
    """The steps at which actions are compared: each of the first `decisions`/2, then every `stride`-th, (T,).

    A failure of a few steps must not be judged by its first action alone, nor a long episode cost more than a
    short one. Times beyond the horizon are cut to it: nothing is alive there.
    """
    if not decisions:
        return np.arange(horizon)
    number, dense = min(decisions, horizon), decisions // 2
    late = dense + stride * np.arange(max(0, number - dense))
    return np.minimum(np.concatenate([np.arange(min(dense, number)), late]), horizon)


def stretch_lengths(grid: TimeGrid) -> np.ndarray:
    """The steps that each compared one stands for (T,), if the episode goes on: at most the stride."""
    times = choose_times(grid.horizon, grid.decisions, grid.stride)
    return np.minimum(np.diff(np.append(times, grid.horizon)), grid.stride)


def choose_stride(longest: int, decisions: int) -> int:
    """The stride of the later comparisons at which the longest episode so far has at most `decisions` of them."""
    late = decisions - decisions // 2
    return max(1, math.ceil((longest - decisions // 2) / late)) if decisions else 1
