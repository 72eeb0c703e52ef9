"""Frozen dataclasses of settings as plain values, and back: what is saved as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ddopg.errors import ConfigError, require, unknown
from ddopg.support.renamed import RENAMED


def to_dict(config: Any) -> dict[str, Any]:
    """Turn a dataclass into plain numbers, strings, lists and dictionaries, ready for JSON.

    Args:
        config: The dataclass; its fields may be dataclasses.

    Returns:
        Field name → value. Tuples have become lists.

    Example:
        >>> from dataclasses import dataclass
        >>> from ddopg.support.records import to_dict
        >>> @dataclass(frozen=True)
        ... class Settings:
        ...     hidden: tuple[int, ...] = (16, 16)
        >>> to_dict(Settings())
        {'hidden': [16, 16]}
    """
    return {
        f.name: to_dict(value) if dataclasses.is_dataclass(value) else _plain(value)
        for f in dataclasses.fields(config)
        for value in [getattr(config, f.name)]
    }


def from_dict(values: dict[str, Any], kind: type) -> Any:
    """Turn plain values into a dataclass: the inverse of `to_dict`.

    Args:
        values: Field name → value. Fields that are left out have their defaults.
        kind: The dataclass.

    Returns:
        An instance of `kind`.

    Raises:
        ConfigError: A name that is no field, or a value of the wrong type. An old name is told its new one.
    """
    return _from_dict(values, kind, "")


def _from_dict(values: dict[str, Any], kind: type, prefix: str) -> Any:
    require(
        isinstance(values, dict), f"{kind.__name__} must be a table of names, got {type(values).__name__}"
    )
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            _refuse_renamed(prefix + name)
            raise unknown(f"field of {kind.__name__}", name, hints)
    return kind(**{name: _typed(prefix + name, value, hints[name]) for name, value in values.items()})


def _refuse_renamed(name: str) -> None:
    """Say the new name of a setting that had another one in an earlier version."""
    require(name not in RENAMED, f"{name} is now called {RENAMED.get(name)}")


def change(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Replace some fields of a dataclass, all at once, because they may be sound only together.

    Args:
        settings: The dataclass.
        changes: Name → new value; a field of a field is called `part.field`.

    Returns:
        A new record of the same type.

    Raises:
        ConfigError: A name that is no setting, or a value that is refused.

    Example:
        >>> import ddopg
        >>> from ddopg.support.records import change
        >>> change(ddopg.preset("default"), {"discount": 0.9, "selection.size": 8}).selection.size
        8
    """
    values = to_dict(settings)
    known = flatten(values)
    for name, value in changes.items():
        if name not in known:
            _refuse_renamed(name)
            raise unknown("setting", name, known)
        *parts, field = name.split(".")
        reduce(getitem, parts, values)[field] = value
    return from_dict(values, type(settings))


def flatten(settings: Any) -> dict[str, Any]:
    """Name every value of nested settings by its dotted path, as the command line does.

    Args:
        settings: A dataclass or a mapping; its values may be dataclasses and mappings.

    Returns:
        Dotted name, such as `search.steps`, → value. The values are not changed.

    Example:
        >>> from ddopg.support.records import flatten
        >>> flatten({"seed": 3, "search": {"steps": 5, "radius": None}})
        {'seed': 3, 'search.steps': 5, 'search.radius': None}
    """
    flat: dict[str, Any] = {}
    for name, value in _fields_of(settings).items():
        if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
            flat |= {f"{name}.{field}": inner for field, inner in flatten(value).items()}
        else:
            flat[name] = value
    return flat


def _fields_of(settings: Any) -> Mapping[str, Any]:
    if isinstance(settings, Mapping):
        return settings
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def _typed(name: str, value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _from_dict(value, hint, f"{name}.")  # type: ignore[arg-type]
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
