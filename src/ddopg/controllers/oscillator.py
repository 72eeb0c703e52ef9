"""An oscillator that moves joints: sine waves of one period, followed by PD control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import jax.numpy as jnp

from ddopg.controllers.arguments import read_places, read_range, require_parameter
from ddopg.controllers.declared import from_vector
from ddopg.errors import require
from ddopg.parameters import Parameter
from ddopg.policies import Policy

PERIOD = Parameter("period", 40.0, bounds=(8.0, 400.0), unit="steps")
AMPLITUDE = Parameter("amplitude", 0.5, bounds=(0.0, 2.0), unit="rad")
PHASE = Parameter("phase", 0.0, bounds=(-math.pi, math.pi), unit="rad")
OFFSET = Parameter("offset", 0.0, bounds=(-1.0, 1.0), unit="rad")


def oscillator(
    observation_size: int,
    positions: Sequence[int],
    velocities: Sequence[int],
    *,
    low: Sequence[float],
    high: Sequence[float],
    period: Parameter = PERIOD,
    amplitude: Parameter = AMPLITUDE,
    lag: float = 0.0,
) -> Policy:
    """Every joint follows offset + amplitude · sin(2π t / period + phase) by a PD controller.

    A central pattern generator of the simplest kind: for swimming, crawling, walking. Its memory is the phase.
    More than seven parameters: each is one thing that such a generator has.

    Args:
        observation_size: numbers per observation, O.
        positions: which observations are the angles of the joints, one per action.
        velocities: which are their velocities.
        low: the smallest action, (A,).
        high: the largest action, (A,).
        period: of all joints, in steps.
        amplitude: of every joint; each has its own.
        lag: how far each joint starts behind the one before it, in rad; 0 lets all start together, and more makes a
            wave that travels from the first joint to the last.

    Returns:
        The policy class, with a memory; its parameters are the period, the stiffness and the damping of all joints,
        and amplitude, phase and offset of each. The phase of the first joint is fixed: only differences matter.

    Raises:
        ConfigError: if the numbers of joints and actions differ, or the lag is no finite number.

    Example:
        >>> policy = oscillator(8, positions=(1, 2), velocities=(6, 7), low=(-1, -1), high=(1, 1))
        >>> policy.size
        8
    """
    seen, moving = read_places("positions", positions), read_places("velocities", velocities)
    low_, high_ = read_range(low, high)
    number = len(seen)
    require(
        number == len(moving) == len(low_),
        f"a position, a velocity, a low and a high for every action, got {number}, {len(moving)}, {len(low_)} and "
        f"{len(high_)}",
    )
    require_parameter("period", period)
    require_parameter("amplitude", amplitude)
    require(isinstance(lag, Real) and math.isfinite(lag), f"the lag must be a finite number, got {lag!r}")
    half, mid = (high_ - low_) / 2, (high_ + low_) / 2
    declared = [
        period,
        Parameter("stiffness", 2.0, bounds=(0.1, 20.0), unit="half ranges/rad"),
        Parameter("damping", 0.1, bounds=(0.01, 2.0), unit="half ranges s/rad"),
    ]
    declared += [amplitude._replace(name=f"{amplitude.name}[{joint}]") for joint in range(number)]
    declared += [
        PHASE._replace(name=f"phase[{joint}]", start=math.remainder(-lag * joint, math.tau) + 0.0)
        for joint in range(number)
    ]
    declared += [OFFSET._replace(name=f"offset[{joint}]") for joint in range(number)]
    declared[3 + number] = declared[3 + number]._replace(fixed=True)

    def step(p: Any, turn: Any, observation: Any) -> tuple[Any, Any]:
        amplitudes, phases, offsets = p[3:].reshape(3, number)
        target = offsets + amplitudes * jnp.sin(2 * jnp.pi * turn + phases)
        force = p[1] * (target - observation[seen]) - p[2] * observation[moving]
        after = turn + 1 / p[0]
        return after - jnp.floor(after), mid + half * force  # a remainder cannot be written as ONNX

    return from_vector(declared, step, (observation_size, number), initial=lambda p: jnp.zeros(()))


def for_planar_robot(observation_size: int, low: Sequence[float], high: Sequence[float]) -> Policy:
    """An `oscillator` where observations are positions and then velocities, the driven joints the last of each.

    So it is with the planar robots of MuJoCo in Gymnasium: Swimmer, HalfCheetah, Hopper, Walker2d. The first half of
    the observations, (O − 1) / 2 of them rounded down, are positions. The joints start with half a wave along the
    body, from the first joint to the last: a body swims against the direction in which its waves travel.

    Args:
        observation_size: numbers per observation, O.
        low: the smallest action, (A,).
        high: the largest action, (A,).

    Returns:
        The policy class.

    Raises:
        ConfigError: if there are fewer positions than actions.

    Example:
        >>> for_planar_robot(8, (-1.0, -1.0), (1.0, 1.0)).size
        8
    """
    number, first = len(low), (observation_size - 1) // 2
    require(
        first >= number,
        f"an oscillator needs a position and a velocity of every joint, got {observation_size} observations for "
        f"{number} actions; say which they are with ddopg.controllers.oscillator",
    )
    positions = range(first - number, first)
    velocities = range(observation_size - number, observation_size)
    places = tuple(positions), tuple(velocities)
    return oscillator(observation_size, *places, low=low, high=high, lag=math.pi / (number + 1))
