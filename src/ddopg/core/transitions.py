"""Every step of every trajectory, as rows of arrays: what the critic learns from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import is_
from typing import NamedTuple

import jax
import numpy as np

from ddopg.core.memory import Memory
from ddopg.core.types import HostOrDevice, Trajectory

LARGEST = 10.0  # standardised observation: one far from all others shall not rule the networks
CAPACITY = 2**18  # steps that are held; beyond it the oldest trajectories are forgotten
ROOMS = (2**15, CAPACITY)  # steps that arrays have room for: few sizes, each of which is compiled once
VALUES_SPAN = 30.0  # root mean square of the discounted returns to come, in the unit of the critic's networks


class Transitions(NamedTuple):
    """M steps, trajectory after trajectory, in arrays that have room for C of them.

    The step after row i is row i + 1 of the same trajectory. A step whose successor nobody has seen, the last one
    before a time limit, is not among the rows to learn from.
    """

    observations: HostOrDevice  # (C, O) as the policy saw them
    actions: HostOrDevice  # (C, A) as they were answered
    rewards: HostOrDevice  # (C,) in scales
    ends: HostOrDevice  # (C,) bool: the task ended the episode with this step, nothing follows
    known: HostOrDevice  # (C,) the rows whose successor is known, or that have none; the first `number` of them count
    number: HostOrDevice  # () how many these are
    steps: HostOrDevice  # () M
    mean: HostOrDevice  # (O,) of the observations
    deviation: HostOrDevice  # (O,) of the observations; 1 where there is none
    log_scale: HostOrDevice  # () logarithm of the return that counts as one
    zero: HostOrDevice  # () the return that counts as zero, in scales


def collect_transitions(memory: Memory, discount: float, capacity: int = CAPACITY) -> Transitions:
    """All of it anew: see `TransitionCache.collect`."""
    return TransitionCache(capacity).collect(memory, discount)


class TransitionCache:
    """The steps of the latest trajectories, in arrays that the next ones are appended to.

    It stands beside the state and is no part of it: everything in it can be computed again to the same bit, and is
    after a resume. A trajectory is known by its identity, so states that share a cache never mislead each other.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity  # the most steps that are held
        self._clear(math.nan)

    def _clear(self, discount: float) -> None:
        self._discount = discount
        self._paths: tuple[Trajectory, ...] = ()
        self._steps, self._moments = Rows(), Rows()

    def collect(self, memory: Memory, discount: float) -> Transitions:
        """The steps of the latest trajectories that fit, in the order they came.

        Args:
            memory: every trajectory.
            discount: γ of the returns to come, which say what counts as one and as zero.

        Returns:
            Arrays of few sizes, so that little is compiled.
        """
        self._hold(_choose_latest(memory, self.capacity), discount)
        observations, actions, rewards, ends, known, to_come = self._steps.held
        steps, starts = len(rewards), np.flatnonzero(known)
        room = next((room for room in ROOMS if steps <= room), steps)
        scale = _root_mean_square(to_come) / VALUES_SPAN
        mean, deviation = _combine_moments(*self._moments.held)
        return Transitions(
            observations=_pad(observations, room),
            actions=_pad(actions, room),
            rewards=_pad((rewards / scale).astype(np.float32), room),
            ends=_pad(ends, room),
            known=_pad(starts.astype(np.int32), room),
            number=np.int32(len(starts)),
            steps=np.int32(steps),
            mean=mean,
            deviation=deviation,
            log_scale=np.asarray(np.log(scale), np.float32),
            zero=np.asarray(np.mean(to_come / scale), np.float32),
        )

    def _hold(self, chosen: tuple[Trajectory, ...], discount: float) -> None:
        """Forget what is not among the chosen trajectories, and append those that are new."""
        forgotten = next((i for i, path in enumerate(self._paths) if path is chosen[0]), len(self._paths))
        kept = self._paths[forgotten:]
        if discount != self._discount or len(kept) > len(chosen) or not all(map(is_, kept, chosen)):
            self._clear(discount)
            forgotten, kept = 0, ()
        try:
            self._forget(forgotten)
            self._append(chosen[len(kept) :])
        except BaseException:  # the arrays may not be as long as each other
            self._clear(math.nan)
            raise

    def _forget(self, number: int) -> None:
        self._steps.forget(sum(path.length for path in self._paths[:number]))
        self._moments.forget(number)
        self._paths = self._paths[number:]

    def _append(self, new: tuple[Trajectory, ...]) -> None:
        if new:
            self._steps.append(*_join([_rows_of(path, self._discount) for path in new]))
            self._moments.append(*_join([_moments_of(path) for path in new]))
            self._paths += new


class Rows:
    """Arrays with one row per thing, appended at the end and forgotten at the front; a copy of all is seldom made."""

    def __init__(self) -> None:
        self._arrays: tuple[np.ndarray, ...] = ()
        self._first = self._end = 0

    @property
    def held(self) -> tuple[np.ndarray, ...]:
        """What is held, oldest first; valid until rows are appended."""
        return tuple(array[self._first : self._end] for array in self._arrays)

    def forget(self, number: int) -> None:
        """The oldest so many rows."""
        self._first += number

    def append(self, *parts: np.ndarray) -> None:
        """As many rows of each array."""
        kept, more = self.held or [part[:0] for part in parts], len(parts[0])
        if not self._arrays or self._end + more > len(self._arrays[0]):
            number = self._end - self._first
            self._arrays = tuple(np.empty((2 * (number + more), *p.shape[1:]), p.dtype) for p in parts)
            self._first, self._end = 0, number
            for array, old in zip(self._arrays, kept, strict=True):
                array[:number] = old
        for array, part in zip(self._arrays, parts, strict=True):
            array[self._end : self._end + more] = part
        self._end += more


def observation_moments(memory: Memory, capacity: int = CAPACITY) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (O,) of the observations that the critic learns from.

    Args:
        memory: every trajectory.
        capacity: the most steps that are held.
    """
    return _combine_moments(*_join([_moments_of(path) for path in _choose_latest(memory, capacity)]))


def returns_to_come(rewards: np.ndarray, discount: float) -> np.ndarray:
    """Gₜ = rₜ + γ Gₜ₊₁ of each step of an episode, (T,), as far as it was seen."""
    backwards = accumulate(reversed(rewards.tolist()), lambda after, reward: reward + discount * after)
    return np.fromiter(backwards, np.float64, len(rewards))[::-1]


def _root_mean_square(values: np.ndarray) -> float:
    """Of numbers of any size; `VALUES_SPAN` where all are 0, so that the scale is 1."""
    size = float(np.max(np.abs(values)))
    return size * float(np.sqrt(np.mean(np.square(values / size)))) if size > 0 else VALUES_SPAN


def _choose_latest(memory: Memory, capacity: int) -> tuple[Trajectory, ...]:
    """As many as fit, whole; the newest always does."""
    steps = np.cumsum(memory.lengths[::-1])
    return memory.trajectories[-max(int(np.searchsorted(steps, capacity, side="right")), 1) :]


def _rows_of(trajectory: Trajectory, discount: float) -> tuple[np.ndarray, ...]:
    """Observations, actions, rewards, whether the task ended, whether the successor is known, and the return to come,
    of each step."""
    steps = trajectory.length
    ends, known = np.zeros(steps, bool), np.ones(steps, bool)
    ends[-1] = known[-1] = trajectory.terminated
    rewards = trajectory.rewards[:steps]
    to_come = returns_to_come(rewards, discount)
    return trajectory.observations[:steps], trajectory.actions[:steps], rewards, ends, known, to_come


def _moments_of(trajectory: Trajectory) -> tuple[np.ndarray, ...]:
    """Steps T, mean m and squares Σₜ (oₜ − m)² of the observations, a row of each. Float32 has no square that
    float64 cannot hold."""
    observations = trajectory.observations[: trajectory.length].astype(np.float64)
    mean = np.mean(observations, axis=0)
    squares = np.sum(np.square(observations - mean), axis=0)
    return np.array([float(len(observations))]), mean[None], squares[None]


def _combine_moments(
    steps: np.ndarray, means: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation over all trajectories: Σ T m / Σ T, and the root of Σ (squares + T (m − mean)²) / Σ T."""
    each, total = steps[:, None], np.sum(steps)
    mean = np.sum(each * means, axis=0) / total
    deviation = np.sqrt(np.sum(squares + each * np.square(means - mean), axis=0) / total)
    return mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)


def _join(rows: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return rows[0] if len(rows) == 1 else tuple(map(np.concatenate, zip(*rows, strict=True)))


def _pad(rows: np.ndarray, room: int) -> jax.Array:
    padded = np.zeros((room, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return jax.device_put(padded)  # no copy where it is on a processor, and nobody changes it any more
