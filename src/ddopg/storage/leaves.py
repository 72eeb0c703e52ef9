"""A tree of records as named leaves, and back: how the learner's state becomes rows of a table.

`flatten` walks whatever it is given, so a record may gain a field without a change here. `build` takes every type
from the code and only values from outside: leaves of an unknown name, kind or place are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from ddopg.errors import ArtefactError, require

Scalar = bool | int | float | str | None
Given = Mapping[str, Any]
ARRAYS = frozenset({"bool", "int32", "int64", "uint32", "float32", "float64"})  # dtypes that can be stored


class Length(NamedTuple):
    """Stands for a tuple; its members are the leaves `name.0`, `name.1`, …"""

    members: int


Leaf = Scalar | Length | np.ndarray


def flatten(tree: Any, skip: Given | frozenset[str] = frozenset(), name: str = "") -> dict[str, Leaf]:
    """Every leaf by its dotted name, such as `incumbent.theta`; what is below a name in `skip` is left out."""
    if name in skip:
        return {}
    if isinstance(tree, tuple):
        fields = getattr(tree, "_fields", None)
        found: dict[str, Leaf] = {} if fields is not None else {name: Length(len(tree))}
        for key, member in zip(fields or map(str, range(len(tree))), tree, strict=True):
            found |= flatten(member, skip, _join(name, key))
        return found
    if tree is None or type(tree) in (bool, int, float, str):
        return {name: tree}
    return {name: _array(name, tree)}


def build(kind: Any, leaves: Mapping[str, Leaf], given: Given) -> Any:
    """The record of type `kind` from its leaves; `given` holds ready-made parts by name.

    A part whose type says nothing (`Any`) is built like the example in `given` under the name `like:NAME`, unless its
    leaf is None.
    """
    used: set[str] = set()
    tree = _build(kind, "", leaves, given, used)
    extra = sorted(set(leaves) - used)
    require(not extra, f"unknown fields {extra[:5]}", ArtefactError)
    return tree


def _build(kind: Any, name: str, leaves: Mapping[str, Leaf], given: Given, used: set[str]) -> Any:
    if name in given:
        return given[name]
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    if NoneType in options or kind is Any:
        if name in leaves and leaves[name] is None:
            return _take(name, leaves, used)
        if kind is Any:
            return _like(given[f"like:{name}"], name, leaves, used)
        kind = next(option for option in options if option is not NoneType)
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(*(_build(hints[f], _join(name, f), leaves, given, used) for f in kind._fields))
    leaf = _take(name, leaves, used)
    if get_origin(kind) is tuple:
        members = _of_kind(Length, name, leaf).members
        member = get_args(kind)[0]
        return tuple(_build(member, _join(name, i), leaves, given, used) for i in range(members))
    if isinstance(leaf, np.ndarray) and leaf.ndim == 0 and kind in (bool, int, float):
        return leaf[()]
    return _of_kind(kind, name, leaf)


def _like(example: Any, name: str, leaves: Mapping[str, Leaf], used: set[str]) -> Any:
    """A tree of the example's structure, shapes and types with the values of the leaves."""
    if isinstance(example, tuple):
        fields = getattr(example, "_fields", None)
        if fields is None:
            came = _of_kind(Length, name, _take(name, leaves, used)).members
            require(
                came == len(example), f"{name} has {came} members, expected {len(example)}", ArtefactError
            )
        keys = fields or map(str, range(len(example)))
        members = [_like(e, _join(name, k), leaves, used) for k, e in zip(keys, example, strict=True)]
        return type(example)(*members) if fields is not None else tuple(members)
    expected, leaf = _array(name, example), _of_kind(np.ndarray, name, _take(name, leaves, used))
    require(
        (leaf.dtype, leaf.shape) == (expected.dtype, expected.shape),
        f"{name} is {leaf.dtype} {leaf.shape}, expected {expected.dtype} {expected.shape}",
        ArtefactError,
    )
    return jax.random.wrap_key_data(leaf) if _is_key(example) else leaf


def _array(name: str, value: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(value) if _is_key(value) else value)
    if array.dtype.name not in ARRAYS:
        raise TypeError(f"{name} is {type(value).__name__} ({array.dtype}), which a run store cannot hold")
    return array


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _take(name: str, leaves: Mapping[str, Leaf], used: set[str]) -> Leaf:
    require(name in leaves, f"the field {name} is missing", ArtefactError)
    used.add(name)
    return leaves[name]


def _of_kind(kind: Any, name: str, leaf: Leaf) -> Any:
    require(type(leaf) is kind, f"{name} is {type(leaf).__name__}, expected {kind.__name__}", ArtefactError)
    return leaf


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)
