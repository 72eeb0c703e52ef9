"""What a logger is, and what several of them share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ddopg.errors import MissingPackageError
from ddopg.support.files import write_atomically

Values = Mapping[str, Any]
"""Name → number, or text such as `ddopg/outcome`."""

ROLLOUT = "ddopg/rollout"  # the number of the rollout is among the values of every row


class Logger(Protocol):
    """A view of a run for people and other programs. The run does not depend on it and never reads it."""

    def begin(self, about: Mapping[str, Any]) -> int:
        """Open the log of the run that `about` describes; the number of the last rollout that is already in it."""

    def write(self, values: Values, step: int) -> None:
        """What is known after a rollout, at this number of environment steps; safe for readers when it returns."""

    def close(self) -> None:
        """The end of a call of `learn`; `begin` may come again."""


def scalars(values: Values) -> dict[str, float]:
    """Those values that can be drawn: finite numbers."""
    numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def flat(about: Mapping[str, Any], prefix: str = "") -> dict[str, bool | int | float | str]:
    """Nested settings by the names of the command line's options, such as `search.steps`; lists as text."""
    found: dict[str, bool | int | float | str] = {}
    for name, value in about.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[prefix + name] = value if isinstance(value, (bool, int, float, str)) else str(value)
    return found


def is_installed(module: str) -> bool:
    """Whether it can be imported; it is not."""
    return find_spec(module) is not None


def require_installed(module: str, what: str, extra: str) -> None:
    """Say what is missing, and how to get it."""
    if not is_installed(module):
        raise MissingPackageError(what, extra)


class Mark:
    """A small file beside the run, by which a logger finds its own run again; without a place, it is forgotten."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.values = path, {}  # type: tuple[Path | None, dict[str, Any]]

    def read(self) -> dict[str, Any]:
        """What was kept; nothing, if it is damaged."""
        if self.path is not None and self.path.exists():
            try:
                found = json.loads(self.path.read_text())
                self.values = found if isinstance(found, dict) else {}
            except ValueError:
                self.values = {}
        return self.values

    def keep(self, **values: Any) -> None:
        """Change some of it."""
        self.values = self.values | values
        if self.path is not None:
            write_atomically(self.path, json.dumps(self.values).encode())
