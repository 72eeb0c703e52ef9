"""What can go wrong, by name: every message says what was expected, what came and what to do."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable


class DDOPGError(Exception):
    """The root of all errors that ddopg raises on purpose."""


class ConfigError(DDOPGError):
    """A configuration value outside its range, or a name that does not exist."""


class SpaceError(DDOPGError, ValueError):
    """An environment whose spaces or horizon the method cannot work with."""


class TrajectoryError(DDOPGError, ValueError):
    """A trajectory of the wrong shape or length, or with numbers that are not finite."""


class RolloutError(DDOPGError, RuntimeError):
    """An environment that broke its contract while a policy was rolled out; `steps` of it had happened."""

    steps = 0


class ArtefactError(DDOPGError, ValueError):
    """A policy file that cannot be written, or cannot be read as one of ours."""


class StoreError(DDOPGError, OSError):
    """A run that cannot be written now: the disk is full, the place read-only, or another process has it."""


class MissingPackageError(DDOPGError, ImportError):
    """A package of an optional extra that is not installed; the message says how to get it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what}, which is not installed; get it with pip install "ddopg[{extra}]"')


class UnknownNameError(ConfigError):
    """A name that is not in its table; the message carries the nearest ones that are."""


def require(condition: bool, message: str, error: type[DDOPGError] = ConfigError) -> None:
    """Raise `error` with `message` unless the condition holds."""
    if not condition:
        raise error(message)


def require_positive(name: str, value: float) -> None:
    """Raise a `ConfigError` unless 0 < value < ∞."""
    require(0 < value < math.inf, f"{name} must be finite and greater than 0, got {value}")


def require_not_negative(name: str, value: float) -> None:
    """Raise a `ConfigError` unless 0 ≤ value < ∞."""
    require(0 <= value < math.inf, f"{name} must be finite and at least 0, got {value}")


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not in its table, with the nearest valid names."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known[:20])}"
    return UnknownNameError(f"there is no {what} called {name!r}; {advice}")
