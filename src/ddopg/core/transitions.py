"""Every step of every trajectory, as rows of arrays: what the critic learns from."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.core.memory import Memory
from ddopg.core.types import HostOrDevice, Trajectory

LARGEST = 10.0  # standardised observation: one far from all others shall not rule the networks
CAPACITY = 2**18  # steps that are held; beyond it the oldest trajectories are forgotten
FEWEST = 2**10  # steps that arrays have room for at first; then twice as many, and so on


class Transitions(NamedTuple):
    """M steps, trajectory after trajectory, in arrays that have room for C of them.

    The step after row i is row i + 1 of the same trajectory. A step whose successor nobody has seen, the last one
    before a time limit, is not among the rows to learn from.
    """

    observations: HostOrDevice  # (C, O) as the policy saw them
    features: HostOrDevice  # (C, O) the same, of mean 0 and deviation 1
    actions: HostOrDevice  # (C, A) as they were answered
    rewards: HostOrDevice  # (C,) of deviation 1
    ends: HostOrDevice  # (C,) bool: the task ended the episode with this step, nothing follows
    known: HostOrDevice  # (C,) the rows whose successor is known, or that have none; the first `number` of them count
    number: HostOrDevice  # () how many these are
    steps: HostOrDevice  # () M


def collect_transitions(memory: Memory, capacity: int = CAPACITY) -> Transitions:
    """The steps of the latest trajectories that fit, in the order they came.

    Args:
        memory: every trajectory.
        capacity: the most steps that are held.

    Returns:
        Arrays whose room is a power of two, so that compiled programs meet few sizes.
    """
    chosen = _choose_latest(memory, capacity)
    lengths = [t.length for t in chosen]
    room = max(FEWEST, 1 << (max(sum(lengths), 1) - 1).bit_length())
    rows = zip(*(_rows_of(t) for t in chosen), strict=True)
    observations, actions, rewards, ends, known = (np.concatenate(parts) for parts in rows)
    starts = np.flatnonzero(known)
    return Transitions(
        observations=_pad(observations, room),
        features=_pad(standardise(observations), room),
        actions=_pad(actions, room),
        rewards=_pad((rewards / deviation_of(rewards)).astype(np.float32), room),
        ends=_pad(ends, room),
        known=_pad(starts.astype(np.int32), room),
        number=np.int32(len(starts)),
        steps=np.int32(sum(lengths)),
    )


def standardise(observations: np.ndarray) -> np.ndarray:
    """(o − mean) / deviation of each observation, (M, O), at most `LARGEST`; in float64, for readings of any size."""
    wide = observations.astype(np.float64)
    features = (wide - wide.mean(axis=0)) / deviation_of(wide)
    return np.clip(features, -LARGEST, LARGEST).astype(np.float32)


def deviation_of(values: np.ndarray) -> np.ndarray:
    """The standard deviation of each column, for numbers of any size; 1 where there is none."""
    size = np.max(np.abs(values), axis=0)
    size = np.where(size > 0, size, 1.0)
    deviation = size * np.std(values / size, axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _choose_latest(memory: Memory, capacity: int) -> list[Trajectory]:
    chosen: list[Trajectory] = []
    steps = 0
    for trajectory in reversed(memory.trajectories):
        steps += trajectory.length
        if steps > capacity and chosen:
            break
        chosen.append(trajectory)
    return chosen[::-1]


def _rows_of(trajectory: Trajectory) -> tuple[np.ndarray, ...]:
    """Observations, actions, rewards, whether the task ended, and whether the successor is known, of each step."""
    steps = trajectory.length
    ends, known = np.zeros(steps, bool), np.ones(steps, bool)
    ends[-1] = known[-1] = trajectory.terminated
    return (
        trajectory.observations[:steps],
        trajectory.actions[:steps],
        trajectory.rewards[:steps],
        ends,
        known,
    )


def _pad(rows: np.ndarray, room: int) -> jax.Array:
    padded = np.zeros((room, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return jnp.asarray(padded)
