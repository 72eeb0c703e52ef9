"""Every step of every trajectory, as rows of arrays: what the critic learns from."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
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
    """The steps of the latest trajectories that fit, in the order they came.

    Args:
        memory: every trajectory.
        discount: γ of the returns to come, which say what counts as one and as zero.
        capacity: the most steps that are held.

    Returns:
        Arrays of few sizes, so that little is compiled.
    """
    chosen = _choose_latest(memory, capacity)
    steps = sum(t.length for t in chosen)
    room = next((room for room in ROOMS if steps <= room), steps)
    rows = zip(*(_rows_of(t) for t in chosen), strict=True)
    observations, actions, rewards, ends, known = (np.concatenate(parts) for parts in rows)
    starts = np.flatnonzero(known)
    to_come = np.concatenate([returns_to_come(t.rewards[: t.length], discount) for t in chosen])
    scale = _root_mean_square(to_come) / VALUES_SPAN
    mean, deviation = _moments(observations)
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
        log_scale=jnp.asarray(np.log(scale), np.float32),
        zero=jnp.asarray(np.mean(to_come / scale), np.float32),
    )


def observation_moments(memory: Memory, capacity: int = CAPACITY) -> tuple[jax.Array, jax.Array]:
    """Mean and deviation (O,) of the observations that the critic learns from.

    Args:
        memory: every trajectory.
        capacity: the most steps that are held.
    """
    return _moments(np.concatenate([t.observations[: t.length] for t in _choose_latest(memory, capacity)]))


def returns_to_come(rewards: np.ndarray, discount: float) -> np.ndarray:
    """Gₜ = rₜ + γ Gₜ₊₁ of each step of an episode, (T,), as far as it was seen."""
    backwards = accumulate(reversed(rewards.tolist()), lambda after, reward: reward + discount * after)
    return np.fromiter(backwards, np.float64, len(rewards))[::-1]


def deviation_of(values: np.ndarray) -> np.ndarray:
    """The standard deviation of each column, for numbers of any size; 1 where there is none."""
    size = np.max(np.abs(values), axis=0)
    size = np.where(size > 0, size, 1.0)
    deviation = size * np.std(values / size, axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _root_mean_square(values: np.ndarray) -> float:
    """Of numbers of any size; `VALUES_SPAN` where all are 0, so that the scale is 1."""
    size = float(np.max(np.abs(values)))
    return size * float(np.sqrt(np.mean(np.square(values / size)))) if size > 0 else VALUES_SPAN


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


def _moments(observations: np.ndarray) -> tuple[jax.Array, jax.Array]:
    mean = jnp.asarray(observations.mean(axis=0, dtype=np.float64), np.float32)
    return mean, jnp.asarray(deviation_of(observations.astype(np.float64)), np.float32)


def _pad(rows: np.ndarray, room: int) -> jax.Array:
    padded = np.zeros((room, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return jnp.asarray(padded)
