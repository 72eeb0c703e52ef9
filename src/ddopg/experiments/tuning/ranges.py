"""What may be tuned: one table of ranges, from which a command takes some, and to which a file may add.

The ranges span about one order of magnitude around what the presets have, on a logarithmic scale where a factor
matters rather than a difference. A value of 0 that turns a part off is in none of them: that is another method.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ddopg.config import Config
from ddopg.config import preset as preset_config
from ddopg.core.algorithm import check_names
from ddopg.errors import ConfigError, require, unknown
from ddopg.support.presets import read_table
from ddopg.support.records import change, flatten, to_dict

Plain = bool | int | float | str | list | None


class Range(NamedTuple):
    """Numbers between two, both included."""

    low: float
    high: float
    log: bool = True

    @property
    def whole(self) -> bool:
        """Whether only integers are meant."""
        return type(self.low) is int and type(self.high) is int


Space = dict[str, Range | tuple[Plain, ...]]  # part.field → its range, or the values to choose from

RANGES: Space = {
    "policy.hidden": ([], [8], [16], [16, 16]),
    "design.policies": Range(4, 20),
    "design.constants": Range(0, 4, log=False),
    "design.spread": Range(0.1, 3.0),
    "exploration.noise": Range(0.3, 4.0),
    "exploration.random": Range(0.3, 10.0),
    "exploration.gain": Range(0.7, 7.0),
    "selection.rule": ("latest", "softmax", "rank", "best"),
    "selection.size": Range(10, 100),
    "selection.temperature": Range(0.02, 1.0),
    "selection.keep_last": Range(0, 8, log=False),
    "surrogate.length_scale": Range(0.1, 30.0),
    "surrogate.ess_share": Range(0.03, 0.6),
    "surrogate.decisions": Range(10, 200),
    "surrogate.weight_cap": Range(0.3, 30.0),
    "surrogate.penalty": Range(0.01, 1.0),
    "surrogate.delta": Range(0.05, 0.8, log=False),
    "surrogate.width": Range(0.1, 3.0),
    "search.optimiser": ("adam", "sgd", "momentum", "sghmc"),
    "search.learning_rate": Range(0.003, 0.5),
    "search.momentum": Range(0.3, 0.95, log=False),
    "search.sghmc_temperature": Range(1e-5, 1e-2),
    "search.steps": Range(5, 1000),
    "search.radius": Range(0.1, 5.0),
    "restart.threshold": Range(0.2, 5.0),
    "incumbent.ema_rate": Range(0.05, 1.0),
    "incumbent.recheck_share": Range(0.05, 0.5),
    "annealing.episodes": Range(3.0, 100.0),
    "search.fisher_damping": Range(0.01, 1.0),
    "search.saturation_penalty": Range(0.05, 5.0),
    "critic.updates": Range(0.5, 8.0),
    "critic.learning_rate": Range(1e-4, 3e-3),
    "critic.discount": Range(0.9, 0.999, log=False),
    "discount": Range(0.9, 1.0, log=False),
}
"""`part.field` → where it is searched unless a file says otherwise."""

USUAL = {
    "default": (
        "exploration.noise",
        "exploration.random",
        "surrogate.penalty",
        "search.learning_rate",
        "critic.updates",
        "critic.learning_rate",
        "critic.discount",
    ),
    "trajectory": (
        "exploration.noise",
        "exploration.random",
        "surrogate.ess_share",
        "surrogate.penalty",
        "search.learning_rate",
        "search.radius",
        "annealing.episodes",
        "search.saturation_penalty",
    ),
    "paper": ("surrogate.length_scale", "surrogate.penalty", "selection.temperature", "search.learning_rate"),
    "released": (
        "surrogate.length_scale",
        "surrogate.penalty",
        "selection.temperature",
        "search.learning_rate",
        "search.momentum",
    ),
}
"""Preset → what is tuned unless told otherwise: the settings that it uses and that matter most."""


def choose_space(preset: str, params: Sequence[str] = (), file: Path | None = None) -> Space:
    """Choose what is searched, and check it at both ends of every range.

    Args:
        preset: where the search starts.
        params: the settings to tune; those of the file if none is named, else the usual ones.
        file: a table of ranges, which replace or add to `RANGES`.

    Returns:
        Setting → range, or the values to choose from.

    Raises:
        UnknownNameError: if there is no such setting.
        ConfigError: if a setting has no range, or a range holds a value that is not allowed.
    """
    given = {} if file is None else _read(file, preset_config(preset))
    ranges = RANGES | given
    names = tuple(params) or tuple(given) or USUAL[preset]
    for name in names:
        if name not in flatten(to_dict(preset_config(preset))):
            raise unknown("setting", name, flatten(to_dict(preset_config(preset))))
        require(
            name in ranges,
            f"{name} has no range of its own; give one with --ranges, in a file that says "
            f'"{name}" = {{low = ..., high = ...}} or a list of values',
        )
    space = {name: ranges[name] for name in dict.fromkeys(names)}
    ends = [{name: _take_end(spread, at) for name, spread in space.items()} for at in (0, -1)]
    choices = [{name: value} for name, s in space.items() if not isinstance(s, Range) for value in s]
    for values in (*ends, *choices):
        try:
            apply_values(preset, values)
        except ConfigError as error:
            raise ConfigError(f"the ranges hold settings that cannot be: {error}") from error
    return space


def apply_values(preset: str, values: Mapping[str, Plain]) -> Config:
    """Give a preset other values.

    Args:
        preset: its name.
        values: setting → value; a number stands for a list of one where the setting is a list.

    Returns:
        The configuration.

    Raises:
        ConfigError: if a value is not allowed, or names something that does not exist.
    """
    start = preset_config(preset)
    now = flatten(to_dict(start))
    wrapped = {
        name: [value] if isinstance(now[name], list) and not isinstance(value, list) else value
        for name, value in values.items()
    }
    config = change(start, wrapped)
    check_names(config)
    return config


def find_start(preset: str, space: Space) -> dict[str, Plain] | None:
    """Find the preset's own values; None if one of them lies outside what is searched."""
    now = flatten(to_dict(preset_config(preset)))
    values: dict[str, Plain] = {}
    for name, spread in space.items():
        value = now[name]
        if isinstance(spread, Range):
            value = value[0] if isinstance(value, list) and len(value) == 1 else value
            if isinstance(value, list) or not spread.low <= value <= spread.high:
                return None
        elif value not in spread:
            return None
        values[name] = value
    return values


def to_plain(space: Space) -> dict[str, Any]:
    """Turn the space into what JSON can hold."""
    return {name: s._asdict() if isinstance(s, Range) else list(s) for name, s in space.items()}


def to_text(value: Plain) -> str:
    """Turn a value of a choice into text, which Optuna can keep; `from_text` is the inverse."""
    return json.dumps(value)


def from_text(text: str) -> Plain:
    """The inverse of `to_text`."""
    return json.loads(text)


def _take_end(spread: Range | tuple[Plain, ...], at: int) -> Plain:
    return spread[:2][at] if isinstance(spread, Range) else spread[at]


def _read(path: Path, config: Config) -> Space:
    """`part.field` → {low, high, log} or a list of values."""
    known = flatten(to_dict(config))
    flat = flatten(read_table(path))
    space: Space = {}
    for name in dict.fromkeys(_find_owner(name) for name in flat):
        if name not in known:
            raise unknown("setting", name, known)
        if name in flat:
            values = flat[name]
            require(
                isinstance(values, list) and len(values) > 1,
                f"{path}: {name} must be {{low = ..., high = ...}} or a list of at least two values, got {values!r}",
            )
            space[name] = tuple(values)
        else:
            limits = {k: flat[f"{name}.{k}"] for k in _LIMITS if f"{name}.{k}" in flat}
            space[name] = _make_range(f"{path}: {name}", limits, type(known[name]))
    return space


_LIMITS = ("low", "high", "log")


def _find_owner(name: str) -> str:
    """The setting that a flattened name belongs to."""
    head, _, tail = name.rpartition(".")
    return head if tail in _LIMITS else name


def _make_range(what: str, limits: dict[str, Any], kind: type) -> Range:
    low, high, log = limits.get("low"), limits.get("high"), limits.get("log", False)
    require(
        type(low) in (int, float)
        and type(high) in (int, float)
        and type(log) is bool
        and math.isfinite(low)  # type: ignore[arg-type]
        and low < high < math.inf  # type: ignore[operator]
        and (low > 0 or not log),  # type: ignore[operator]
        f"{what} needs finite low < high (and low > 0 where log = true), got {limits}",
    )
    if kind is int:
        require(type(low) is int and type(high) is int, f"{what} needs integers, got {limits}")
        return Range(low, high, log)  # type: ignore[arg-type]
    require(kind in (float, list), f"{what} is no number; give a list of values")
    return Range(float(low), float(high), log)  # type: ignore[arg-type]
