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
from ddopg.support.records import flatten

Values = Mapping[str, Any]
"""Name → number, or text such as `ddopg/outcome`."""

ROLLOUT = "ddopg/rollout"  # the number of the rollout is among the values of every row


class Logger(Protocol):
    """A view of a run for people and other programs. The run does not depend on it and never reads it.

    Any class with these three methods is one; it need not inherit from this.

    Example:
        >>> import ddopg
        >>> from ddopg.loggers import Logging
        >>> class Lengths:
        ...     def begin(self, about):
        ...         self.lengths = []
        ...         return 0
        ...
        ...     def write(self, values, step):
        ...         self.lengths.append(values["ddopg/length"])
        ...
        ...     def close(self):
        ...         print(len(self.lengths), "rollouts")
        >>> agent = ddopg.DDOPG("cartpole", seed=16)
        >>> _ = agent.learn(total_episodes=3, callback=Logging(Lengths()))
        3 rollouts
    """

    def begin(self, about: Mapping[str, Any]) -> int:
        """Open the log of a run.

        Args:
            about: What the run is about: environment, horizon, seed, version, and the configuration.

        Returns:
            The number of the last rollout that is already in the log; 0 if there is none.
        """

    def write(self, values: Values, step: int) -> None:
        """Write what is known after a rollout; safe for readers when it returns.

        Args:
            values: Name → number or text; `docs/logging.md` lists the names.
            step: Environment steps so far.
        """

    def close(self) -> None:
        """End the log, with a call of `learn`. `begin` may come again."""


def scalars(values: Values) -> dict[str, float]:
    """Keep the values that can be drawn: finite numbers.

    Args:
        values: What a logger was given.

    Returns:
        Name → number.

    Example:
        >>> from ddopg.loggers import scalars
        >>> scalars({"ddopg/return": 3, "ddopg/ess": float("nan"), "ddopg/outcome": "improved"})
        {'ddopg/return': 3.0}
    """
    numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def list_hyperparameters(about: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Name the settings of a run as the options of the command line, such as `search.steps`.

    Args:
        about: What `Logger.begin` was given.

    Returns:
        Dotted name → value. Lists are text, and what is None is left out.
    """
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in flatten(about).items()
        if value is not None
    }


def is_installed(module: str) -> bool:
    """Say whether a module can be imported, without importing it."""
    return find_spec(module) is not None


def require_installed(module: str, what: str, extra: str) -> None:
    """Raise a `MissingPackageError` that says how to get the package, unless the module can be imported."""
    if not is_installed(module):
        raise MissingPackageError(what, extra)


class Mark:
    """A small file beside the run, by which a logger finds its own run again; without a place, it is forgotten."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.values = path, {}  # type: tuple[Path | None, dict[str, Any]]

    def read(self) -> dict[str, Any]:
        """Read what was kept; nothing, if the file is damaged."""
        if self.path is not None and self.path.exists():
            try:
                found = json.loads(self.path.read_text())
                self.values = found if isinstance(found, dict) else {}
            except ValueError:
                self.values = {}
        return self.values

    def keep(self, **values: Any) -> None:
        """Keep these values too."""
        self.values = self.values | values
        if self.path is not None:
            write_atomically(self.path, json.dumps(self.values).encode())
