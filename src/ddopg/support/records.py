"""Frozen dataclasses of settings as plain values, and back: what is saved as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ddopg.errors import ConfigError, require, unknown


def to_dict(config: Any) -> dict[str, Any]:
    """The configuration as plain numbers, strings and lists, ready for JSON."""
    return {
        f.name: to_dict(value) if dataclasses.is_dataclass(value) else _plain(value)
        for f in dataclasses.fields(config)
        for value in [getattr(config, f.name)]
    }


def from_dict(values: dict[str, Any], kind: type) -> Any:
    """The inverse of `to_dict`: unknown keys and wrong types are refused by name."""
    require(
        isinstance(values, dict), f"{kind.__name__} must be a table of names, got {type(values).__name__}"
    )
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise unknown(f"field of {kind.__name__}", name, hints)
    return kind(**{name: _typed(name, value, hints[name]) for name, value in values.items()})


def changed(settings: Any, changes: Mapping[str, Any]) -> Any:
    """The settings with some fields replaced, each named `field` or `part.field`; all at once, because they may be
    sound only together."""
    values = to_dict(settings)
    known = flattened(values)
    for name, value in changes.items():
        if name not in known:
            raise unknown("setting", name, known)
        part, _, field = name.rpartition(".")
        (values[part] if part else values)[field] = value
    return from_dict(values, type(settings))


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables within a table as one, with names `part.field`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{field}": inner for field, inner in flattened(value).items()}
        else:
            flat[name] = value
    return flat


def _typed(name: str, value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_dict(value, hint)  # type: ignore[arg-type]
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            require(NoneType in get_args(hint), f"{name} must be given")
            return None
        return _typed(name, value, next(kind for kind in get_args(hint) if kind is not NoneType))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise unknown(f"value of {name}", str(value), get_args(hint))
        return value
    if get_origin(hint) is tuple:
        require(isinstance(value, (list, tuple)), f"{name} must be a list, got {value!r}")
        return tuple(_typed(name, v, get_args(hint)[0]) for v in value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise ConfigError(f"{name} must be of type {hint.__name__}, got {value!r}")
    return value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
