"""The parameters of a controller, declared in real units: name, start, bounds or scale, fixed or free.

The search does not see these numbers, but search coordinates: 0 is the start, 1 is one scale away from it, and what
is positive over decades is measured by its logarithm. Only free parameters have a coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ddopg.errors import ConfigError, require

UNITS_PER_RANGE = 4  # scales between two bounds, where no scale is given
DECADE = 10.0  # positive bounds that are so many times apart are searched by the logarithm
DEFAULT_FACTOR = 2.0  # one scale of a logarithmic parameter that has no bounds


class Parameter(NamedTuple):
    """One number of a controller that can be tuned, in its own unit.

    Example:
        >>> Parameter("kp", 2.0, bounds=(0.1, 50.0), unit="N m/rad").is_log
        True
        >>> Parameter("offset", 0.0, scale=0.5).limits
        (-inf, inf)
    """

    name: str
    start: float  # what the first rollout has: your own, safe value
    bounds: tuple[float, float] | None = None  # the search never leaves them; an end may be infinite
    scale: float | None = (
        None  # a change that matters; a factor where `log`. By default a quarter of the range
    )
    log: bool | None = (
        None  # search the logarithm; by default where both bounds are positive and a decade apart
    )
    fixed: bool = False  # keep the start
    unit: str = ""  # text that is shown behind the value

    @property
    def is_log(self) -> bool:
        """Whether the logarithm is searched."""
        if self.log is not None:
            return self.log
        low, high = self.bounds or (-math.inf, math.inf)
        return low > 0 and high < math.inf and high >= DECADE * low

    @property
    def step(self) -> float:
        """One unit of the search: a difference, or that of the logarithm."""
        low, high = self.bounds or (-math.inf, math.inf)
        if self.scale is not None:
            return math.log(self.scale) if self.is_log else self.scale
        if self.is_log:
            known = low > 0 and high < math.inf
            return math.log(high / low) / UNITS_PER_RANGE if known else math.log(DEFAULT_FACTOR)
        return (high - low) / UNITS_PER_RANGE

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds in search coordinates."""
        low, high = self.bounds or (-math.inf, math.inf)
        return _coordinate(self, low), _coordinate(self, high)


def check_parameters(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Refuse a declaration that cannot be searched.

    Args:
        parameters: all of a controller's, free and fixed.

    Returns:
        The same as a tuple, their numbers as floats.

    Raises:
        ConfigError: if a name is missing or there twice, a start is not within its bounds, a scale is missing or not
            positive, a logarithm is asked of something not positive, or nothing is free.

    Example:
        >>> [each.name for each in check_parameters([Parameter("kp", 1, bounds=(0, 4))])]
        ['kp']
    """
    require(
        isinstance(parameters, Iterable) and not isinstance(parameters, Parameter | dict),
        f"parameters are declared as a list of Parameters, got {type(parameters).__name__}; write "
        "[Parameter('kp', 2.0, bounds=(0.0, 10.0))]",
    )
    several = tuple(parameters)
    for each in several:
        require(
            isinstance(each, Parameter),
            f"a controller is declared with Parameters, got {type(each).__name__}; write Parameter('kp', 2.0, "
            "bounds=(0.0, 10.0))",
        )
    known = tuple(_as_floats(each) for each in several)
    names = [each.name for each in known]
    require(
        all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names),
        f"every parameter needs a name of its own, got {names}",
    )
    for each in known:
        _check(each)
    require(
        any(not each.fixed for each in known),
        "there is nothing to tune: no parameter is declared, or all are fixed; leave at least one free",
    )
    return known


def free_parameters(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Those that are searched.

    Args:
        parameters: all of a controller's.

    Returns:
        The free ones, in the order of their coordinates.

    Example:
        >>> [p.name for p in free_parameters([Parameter("kp", 1.0, scale=1.0), Parameter("dt", 0.1, fixed=True)])]
        ['kp']
    """
    return tuple(each for each in parameters if not each.fixed)


def search_limits(parameters: Sequence[Parameter]) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of all free parameters in search coordinates.

    Args:
        parameters: all of a controller's.

    Returns:
        The smallest and the largest coordinates, (D,) each, float32.

    Example:
        >>> low, high = search_limits([Parameter("kp", 2.0, bounds=(0.0, 8.0))])
        >>> low.tolist(), high.tolist()
        ([-1.0], [3.0])
    """
    limits = np.array([each.limits for each in free_parameters(parameters)], np.float32).reshape(-1, 2)
    return limits[:, 0], limits[:, 1]


def reflect(theta: np.ndarray, limits: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """What lies beyond a limit, mirrored at it: random samples then do not pile up on the bounds.

    Args:
        theta: coordinates, (D,).
        limits: the smallest and the largest, (D,) each.

    Returns:
        Coordinates within the limits, (D,).

    Example:
        >>> import numpy as np
        >>> reflect(np.array([-1.5, 0.5]), (np.array([-1.0, -1.0]), np.array([3.0, 3.0]))).tolist()
        [-0.5, 0.5]
    """
    low, high = limits
    above = np.where(theta < low, 2 * np.where(np.isfinite(low), low, 0.0) - theta, theta)
    inside = np.where(above > high, 2 * np.where(np.isfinite(high), high, 0.0) - above, above)
    return np.clip(inside, low, high)


def decode_parameters(parameters: Sequence[Parameter], theta: Any, xp: Any = np) -> Any:
    """Search coordinates → all parameters in real units, never beyond their bounds.

    start + scale · θ, or start · exp(scale · θ) where the logarithm is searched.

    Args:
        parameters: all of a controller's, P of them.
        theta: the coordinates of the free ones, (D,).
        xp: the module that computes, `numpy` or `jax.numpy`.

    Returns:
        The values in the order of the declaration, fixed ones at their start, (P,).

    Example:
        >>> declared = [Parameter("kp", 2.0, bounds=(0.0, 8.0)), Parameter("dt", 0.1, fixed=True)]
        >>> decode_parameters(declared, [9.0]).tolist()
        [8.0, 0.1]
    """
    theta, free = xp.asarray(theta), free_parameters(parameters)
    kind = np.float64 if xp is np else theta.dtype
    start, step = (np.array([getattr(each, name) for each in free], kind) for name in ("start", "step"))
    low, high = np.array([each.bounds or (-np.inf, np.inf) for each in free], kind).T
    logs = np.array([each.is_log for each in free])
    factor = xp.exp(xp.where(logs, step * theta, 0.0))
    values = xp.clip(xp.where(logs, start * factor, start + step * theta), low, high)
    everything = np.array([each.start for each in parameters], kind)
    places = np.flatnonzero([not each.fixed for each in parameters])
    if xp is np:
        everything[places] = values
        return everything
    return xp.asarray(everything).at[places].set(values)


def encode_parameters(parameters: Sequence[Parameter], values: dict[str, float]) -> np.ndarray:
    """Real units → search coordinates: the inverse of `decode_parameters`.

    Args:
        parameters: all of a controller's.
        values: name → value; free parameters that are left out have their start.

    Returns:
        The coordinates of the free ones, (D,), float32.

    Raises:
        ConfigError: if a name is no parameter, or a value is out of its bounds, or a fixed one is to change.

    Example:
        >>> encode_parameters([Parameter("kp", 2.0, bounds=(0.0, 8.0))], {"kp": 4.0}).tolist()
        [1.0]
    """
    by_name = {each.name: each for each in parameters}
    require(
        isinstance(values, dict) and all(isinstance(value, Real) for value in values.values()),
        f"values are numbers by name, such as {{'kp': 2.0}}, got {values!r:.80}",
    )
    for name, value in values.items():
        require(
            name in by_name,
            f"there is no parameter {name!r}; there are {', '.join(by_name) or 'none declared'}",
        )
        each = by_name[name]
        low, high = each.bounds or (-math.inf, math.inf)
        require(
            low <= value <= high and math.isfinite(value) and (not each.is_log or value > 0),
            f"{name} must lie within its bounds {low} to {high}, got {value}",
        )
        require(
            not each.fixed or value == each.start,
            f"{name} is fixed at {each.start}, got {value}; declare it free to change it",
        )
    free = free_parameters(parameters)
    return np.array([_coordinate(each, values.get(each.name, each.start)) for each in free], np.float32)


def parameters_to_dict(parameters: Sequence[Parameter]) -> dict[str, dict[str, Any]]:
    """The declaration in plain values, ready for JSON.

    Args:
        parameters: all of a controller's.

    Returns:
        Name → everything else; an infinite bound is None.

    Example:
        >>> parameters_to_dict([Parameter("kp", 2.0, bounds=(0.0, 8.0))])["kp"]["bounds"]
        [0.0, 8.0]
    """

    def plain(each: Parameter) -> dict[str, Any]:
        ends = [end if math.isfinite(end) else None for end in each.bounds or ()]
        about = each._asdict() | {"bounds": ends or None}
        return {key: value for key, value in about.items() if key != "name"}

    return {each.name: plain(each) for each in parameters}


def parameters_from_dict(values: dict[str, dict[str, Any]]) -> tuple[Parameter, ...]:
    """The inverse of `parameters_to_dict`, every value checked.

    Args:
        values: name → everything else.

    Returns:
        The parameters, in the same order.

    Raises:
        ConfigError: if they could not have been declared.

    Example:
        >>> parameters_from_dict({"kp": {"start": 2.0, "bounds": [0.0, None], "scale": 1.0}})[0].bounds
        (0.0, inf)
    """

    def read(name: str, about: dict[str, Any]) -> Parameter:
        known = {key: value for key, value in about.items() if key in Parameter._fields and key != "name"}
        low, high = known.pop("bounds", None) or (None, None)
        ends = (-math.inf if low is None else low, math.inf if high is None else high)
        return Parameter(name=name, bounds=None if about.get("bounds") is None else ends, **known)

    return check_parameters([read(name, about) for name, about in values.items()]) if values else ()


def _coordinate(each: Parameter, value: float) -> float:
    if each.is_log:
        return -math.inf if value <= 0 else math.log(value / each.start) / each.step
    return (value - each.start) / each.step


def _as_floats(each: Parameter) -> Parameter:
    try:
        low, high = (-math.inf, math.inf) if each.bounds is None else each.bounds
        bounds = None if each.bounds is None else (float(low), float(high))
        scale = None if each.scale is None else float(each.scale)
        return each._replace(start=float(each.start), bounds=bounds, scale=scale)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"start, bounds and scale of {each.name!r} must be numbers (bounds two of them), got {each.start!r}, "
            f"{each.bounds!r} and {each.scale!r}: {error}"
        ) from error


def _check(each: Parameter) -> None:
    require(
        isinstance(each.fixed, bool) and isinstance(each.log, bool | None) and isinstance(each.unit, str),
        f"fixed of {each.name} must be True or False, log too (or None), and unit a text, got {each.fixed!r}, "
        f"{each.log!r} and {each.unit!r}",
    )
    low, high = each.bounds or (-math.inf, math.inf)
    require(
        low < high or (each.fixed and low == high),
        f"the bounds of {each.name} must have low < high, got {low} and {high}",
    )
    require(
        math.isfinite(each.start) and low <= each.start <= high,
        f"{each.name} must start at a finite number within its bounds {low} to {high}, got {each.start}",
    )
    if each.fixed:
        return
    if each.is_log:
        require(
            each.start > 0 and (each.bounds is None or low > 0 or (low == 0 and each.scale is not None)),
            f"{each.name} is searched by its logarithm, so start and bounds must be positive, got {each.start} and "
            f"{each.bounds}; set log=False, or a small positive lower bound",
        )
        require(
            each.scale is None or 1 < each.scale < math.inf,
            f"the scale of {each.name} is a factor, because its logarithm is searched: it must be above 1, got "
            f"{each.scale}",
        )
        return
    require(
        each.scale is None or 0 < each.scale < math.inf,
        f"the scale of {each.name} must be finite and above 0, got {each.scale}",
    )
    require(
        each.scale is not None or math.isfinite(high - low),
        f"{each.name} needs finite bounds, or a scale: a change of it that matters; got the bounds {each.bounds}",
    )
