"""What can go wrong, by name: every message says what was expected, what came and what to do."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

Given = TypeVar("Given")


class DDOPGError(Exception):
    """The root of all errors that ddopg raises on purpose."""


class ConfigError(DDOPGError):
    """A configuration value outside its range, or a name that does not exist."""


class SpaceError(DDOPGError, ValueError):
    """An environment whose spaces or horizon the method cannot work with."""


class TrajectoryError(DDOPGError, ValueError):
    """A trajectory of the wrong shape or length, or with numbers that are not finite."""


class ObservationError(DDOPGError, ValueError):
    """An observation that a policy cannot answer: of another size, or with numbers that are not finite."""


class RolloutError(DDOPGError, RuntimeError):
    """An environment that broke its contract while a policy was rolled out; `steps` of it had happened."""

    steps = 0


class ArtefactError(DDOPGError, ValueError):
    """A policy file that cannot be written, or cannot be read as one of ours."""


class StoreError(DDOPGError, OSError):
    """A run that cannot be written now: the disk is full, the place read-only, or another process has it."""


class DisplayError(DDOPGError, RuntimeError):
    """A picture that cannot be drawn or shown here: there is no display, or the environment cannot draw itself."""


class MissingPackageError(DDOPGError, ImportError):
    """A package that is not installed, of an optional extra or without a build for this machine; the message says
    how to get it, or where."""

    def __init__(self, what: str, extra: str = "", remedy: str = "") -> None:
        remedy = remedy or f'get it with pip install "ddopg[{extra}]"'
        super().__init__(f"{what}, which is not installed; {remedy}")


class UnknownNameError(ConfigError):
    """A name that is not in its table; the message carries the nearest ones that are."""


def require(condition: bool, message: str, error: type[DDOPGError] = ConfigError) -> None:
    """Raise `error` with `message` unless the condition holds."""
    if not condition:
        raise error(message)


def require_given(value: Given | None, message: str, error: type[DDOPGError] = ConfigError) -> Given:
    """The value, which a type checker then knows to be there.

    Args:
        value: what may be missing.
        message: what was expected, what came, and what to do.
        error: the kind of error to raise.

    Returns:
        The same value.

    Raises:
        DDOPGError: of the kind `error`, where the value is None.

    Example:
        >>> require_given(3, "give a number")
        3
    """
    if value is None:
        raise error(message)
    return value


def require_whole(name: str, value: object) -> int:
    """The value as a whole number; 1e4 is one, 0.5 and "100" are not.

    Args:
        name: what the number is, for the message.
        value: what was given.

    Raises:
        ConfigError: if it is no whole number.

    Example:
        >>> require_whole("the budget", 1e4)
        10000
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)  # however large: a float would round it
    if isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer():
        return int(float(value))
    raise ConfigError(f"{name} must be a whole number, got {value!r}")


def require_size(name: str, value: object) -> int:
    """The value as a whole number of at least 1, such as the number of observations.

    Args:
        name: what the number is, for the message.
        value: what was given.

    Raises:
        ConfigError: if it is no whole number, or below 1.

    Example:
        >>> require_size("observation_size", 4)
        4
    """
    size = require_whole(name, value)
    require(size >= 1, f"{name} must be at least 1, got {size}")
    return size


def require_function(name: str, function: object, arguments: tuple[str, ...], advice: str = "") -> None:
    """Refuse what cannot be called with so many arguments; what does not tell its arguments is let through.

    Args:
        name: what the function is called in the message.
        function: what was given.
        arguments: what it is called with.
        advice: what else may be wrong.

    Raises:
        ConfigError: if it is no function, or one of other arguments.

    Example:
        >>> require_function("init", lambda key: [0.0], ("key",))
    """
    expected = f"{name} must be a function of ({', '.join(arguments)})"
    advice = f"; {advice}" if advice else ""
    require(callable(function), f"{expected}, got {type(function).__name__}{advice}")
    assert callable(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigError(f"{expected}, got one of {signature}: {error}{advice}") from None


def require_positive(name: str, value: float) -> None:
    """Raise a `ConfigError` unless 0 < value < ∞."""
    require(
        isinstance(value, Real) and 0 < value < math.inf,
        f"{name} must be finite and greater than 0, got {value!r}",
    )


def require_not_negative(name: str, value: float) -> None:
    """Raise a `ConfigError` unless 0 ≤ value < ∞."""
    require(
        isinstance(value, Real) and 0 <= value < math.inf,
        f"{name} must be finite and at least 0, got {value!r}",
    )


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not in its table, with the nearest valid names."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known[:20])}"
    return UnknownNameError(f"there is no {what} called {name!r}; {advice}")


def cannot_write_into(directory: Path, error: OSError, advice: str = "choose a writable directory") -> str:
    """The message for a directory in which nothing can be written.

    Args:
        directory: where the files were to go.
        error: what the operating system said.
        advice: what the user can do, such as "choose a writable directory with --out".

    Returns:
        One sentence for the error that the caller raises.

    Example:
        >>> cannot_write_into(Path("runs"), PermissionError(13, "Permission denied"))
        'cannot write into runs: Permission denied; choose a writable directory'
    """
    return f"cannot write into {directory}: {error.strerror or error}; {advice}"
