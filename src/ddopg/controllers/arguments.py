"""What users give to the ready-made controllers, checked: numbers, ranges, places of observations, parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddopg.errors import ConfigError, require
from ddopg.parameters import Parameter
from ddopg.policies import Policy


def read_numbers(name: str, values: Any) -> np.ndarray:
    """A row of numbers as float32.

    Args:
        name: what they are, for the message.
        values: a sequence of numbers.

    Returns:
        The numbers, (N,).

    Raises:
        ConfigError: if it is no row, or something in it is no number.

    Example:
        >>> read_numbers("low", [-1, -2.5]).tolist()
        [-1.0, -2.5]
    """
    try:
        numbers = np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be a list of numbers, got {values!r:.80}: {error}") from error
    require(
        numbers.ndim == 1,
        f"{name} must be a list of numbers, one for each, got {values!r:.80}; write [{values!r:.20}] for one alone",
    )
    return numbers


def read_range(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest actions, as float32.

    Args:
        low: the smallest, (A,).
        high: the largest, (A,).

    Returns:
        Both, (A,) each.

    Raises:
        ConfigError: if they are no rows of as many numbers, or a low is not below its high.

    Example:
        >>> read_range([-1], [1])[1].tolist()
        [1.0]
    """
    low_, high_ = read_numbers("low", low), read_numbers("high", high)
    require(
        low_.shape == high_.shape and bool((low_ < high_).all()),
        f"low and high must have one number per action, low < high, got {low} and {high}",
    )
    return low_, high_


def read_places(name: str, places: Any) -> np.ndarray:
    """Which observations are meant; whether they are there is seen when the controller is tried.

    Args:
        name: what they are, for the message.
        places: a sequence of whole numbers.

    Returns:
        The places, (N,).

    Raises:
        ConfigError: if they are no whole numbers.

    Example:
        >>> read_places("positions", (1, 2)).tolist()
        [1, 2]
    """
    found = np.asarray(places)
    require(
        found.ndim == 1 and np.issubdtype(found.dtype, np.integer),
        f"{name} must be a list of places of observations, such as (0, 1), got {places!r:.80}",
    )
    return found


def require_parameter(name: str, given: object) -> None:
    """Refuse what is no `Parameter`, such as a bare number."""
    require(
        isinstance(given, Parameter),
        f"{name} must be a Parameter, such as Parameter({name!r}, 2.0, bounds=(0.0, 10.0)), got {given!r:.80}",
    )


def require_policy(given: object) -> None:
    """Refuse what is no policy class, where one is wrapped."""
    require(
        isinstance(given, Policy),
        f"the first argument must be a policy class, such as a controller or ddopg.policies.limited(...) gives, got "
        f"{type(given).__name__}",
    )
