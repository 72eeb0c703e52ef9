"""PID control with anti-windup and a filtered derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import jax.numpy as jnp

from ddopg.controllers.arguments import read_places, read_range
from ddopg.controllers.declared import from_vector
from ddopg.errors import require, require_not_negative, require_positive
from ddopg.parameters import Parameter
from ddopg.policies import Policy

Gains = Parameter | Sequence[Parameter]


class Loop(NamedTuple):
    """One control loop: which observation follows which set-point.

    Example:
        >>> Loop(measured=0, target=2).setpoint
        0.0
    """

    measured: int  # the observation that is controlled
    target: int | None = None  # the observation that says where it should be; else the constant set-point
    setpoint: float = 0.0


def pid(
    observation_size: int,
    loops: Sequence[Loop],
    *,
    dt: float,
    low: Sequence[float],
    high: Sequence[float],
    kp: Gains,
    ki: Gains | None = None,
    kd: Gains | None = None,
    filter_steps: float = 2.0,
) -> Policy:
    """One PID controller per action: u = kp · e + ki · ∫e dt − kd · dy/dt, within the action range.

    The integral stands still while the output is beyond the range and the error would drive it further
    (anti-windup). The derivative is that of the measured value, so that a jump of the set-point gives no kick, and
    goes through a first-order filter. More than seven parameters: each is one thing that a PID controller has.

    Args:
        observation_size: numbers per observation, O.
        loops: one per action.
        dt: seconds per step.
        low: the smallest action, (A,).
        high: the largest action, (A,).
        kp: the gain as a `Parameter`, for all loops, or one per loop.
        ki: the gain of the integral; none if not given.
        kd: the gain of the derivative; none if not given.
        filter_steps: time constant of the derivative's filter, in steps.

    Returns:
        The policy class, with a memory; its parameters are called as those given, with the number of the loop behind
        where there are several.

    Raises:
        ConfigError: if the numbers of loops, bounds and parameters do not fit, or dt is not positive.
        SpaceError: if a loop has an observation that is not there.

    Example:
        >>> policy = pid(
        ...     2, [Loop(measured=0)], dt=0.02, low=[-10], high=[10],
        ...     kp=Parameter("kp", 5.0, bounds=(0.5, 50.0)), kd=Parameter("kd", 0.5, bounds=(0.0, 5.0)),
        ... )
        >>> policy.describe(policy.init(None))
        {'kp': 5.0, 'kd': 0.5}
    """
    number = _count_loops(loops)
    require_positive("dt", dt)
    require_not_negative("filter_steps", filter_steps)
    low_, high_ = read_range(low, high)
    require(
        number == len(low_),
        f"a loop, a low and a high for every action, got {number}, {len(low_)} and {len(high_)}",
    )
    named = {"kp": kp, "ki": ki, "kd": kd}
    declared = {name: _per_loop(name, given, number) for name, given in named.items() if given is not None}
    places = {name: slice(i * number, (i + 1) * number) for i, name in enumerate(declared)}
    weight = 1 / (1 + filter_steps)

    def initial(p: Any) -> dict[str, Any]:
        zeros = jnp.zeros(number)
        return {"integral": zeros, "rate": zeros, "before": zeros, "begun": jnp.zeros(number)}

    def step(p: Any, state: dict[str, Any], observation: Any) -> tuple[dict[str, Any], Any]:
        gains = {name: p[places[name]] if name in places else jnp.zeros(number) for name in named}
        measured, wanted = _read(loops, observation)
        error = wanted - measured
        change = state["begun"] * (measured - state["before"]) / dt
        rate = state["rate"] + weight * (change - state["rate"])
        grown = state["integral"] + dt * error
        output = gains["kp"] * error + gains["ki"] * grown - gains["kd"] * rate
        beyond = ((output > high_) & (gains["ki"] * error > 0)) | (
            (output < low_) & (gains["ki"] * error < 0)
        )
        integral = jnp.where(beyond, state["integral"], grown)
        action = gains["kp"] * error + gains["ki"] * integral - gains["kd"] * rate
        after = {"integral": integral, "rate": rate, "before": measured, "begun": jnp.ones(number)}
        return after, jnp.clip(action, low_, high_)

    parameters = [each for some in declared.values() for each in some]
    return from_vector(parameters, step, (observation_size, number), initial=initial)


def _count_loops(loops: Sequence[Loop]) -> int:
    require(
        isinstance(loops, Sequence) and all(isinstance(loop, Loop) for loop in loops),
        f"loops must be a list with one Loop per action, such as [Loop(measured=0)], got {loops!r:.80}",
    )
    for loop in loops:
        places = [loop.measured] if loop.target is None else [loop.measured, loop.target]
        read_places("measured and target", places)
        require(
            isinstance(loop.setpoint, Real) and math.isfinite(loop.setpoint),
            f"the set-point of a loop must be a finite number, got {loop.setpoint!r}",
        )
    return len(loops)


def _per_loop(name: str, given: Gains, number: int) -> list[Parameter]:
    together = [given] * number if isinstance(given, Parameter) else given
    several = list(together) if isinstance(together, Sequence) else []
    require(
        len(several) == number and all(isinstance(each, Parameter) for each in several),
        f"{name} must be one Parameter, such as Parameter({name!r}, 2.0, bounds=(0.0, 10.0)), or one per loop, "
        f"{number}; got {given!r}",
    )
    if not isinstance(given, Parameter) or number == 1:
        return several
    return [each._replace(name=f"{each.name}[{i}]") for i, each in enumerate(several)]


def _read(loops: Sequence[Loop], observation: Any) -> tuple[Any, Any]:
    measured = jnp.stack([observation[loop.measured] for loop in loops])
    wanted = [loop.setpoint if loop.target is None else observation[loop.target] for loop in loops]
    return measured, jnp.stack([jnp.asarray(value, measured.dtype) for value in wanted])
