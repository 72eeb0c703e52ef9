"""Arrays and one text as the bytes of a safetensors file, and back.

Every `tell` writes such bytes, so they are put together here: the library takes four times as long. Any reader of
safetensors understands them. What comes from a file is compared with what is expected before an array is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ddopg.errors import ArtefactError, require
from ddopg.support.arrays import array_from_bytes, array_to_bytes

KEY = "ddopg"  # of the one entry of the metadata; several would have no fixed order in other writers
CODES = {"float64": "F64", "int64": "I64", "float32": "F32", "int32": "I32", "uint32": "U32", "bool": "BOOL"}
"""dtype → its name in a safetensors header."""
ALIGNMENT = 8  # bytes; the numbers begin at a multiple of it


class Spec(NamedTuple):
    """What a tensor must be."""

    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What a file says about itself; nothing of it is checked yet."""

    text: str  # the metadata
    tensors: dict[str, Any]  # name → dtype, shape and place of a tensor
    end: int  # bytes before the first number


def write_tensors(text: str, tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file, the same for the same input.

    Args:
        text: the metadata.
        tensors: name → array, in the order in which they are to stand in the file.

    Raises:
        TypeError: for an array of a kind that cannot be stored.
    """
    header: dict[str, Any] = {"__metadata__": {KEY: text}}
    parts, end = [], 0
    for name, array in tensors.items():
        if array.dtype.name not in CODES:
            raise TypeError(f"{name} is an array of {array.dtype}, which a run store cannot hold")
        parts.append(array_to_bytes(array))
        start, end = end, end + len(parts[-1])
        header[name] = {"dtype": CODES[array.dtype.name], "shape": array.shape, "data_offsets": (start, end)}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % ALIGNMENT)
    return b"".join((len(head).to_bytes(8, "little"), head, *parts))


def read_header(data: Any) -> Header:
    """The header of a safetensors file; no array is made.

    Raises:
        ArtefactError: for bytes that are no such file, or one without our metadata.
    """
    require(type(data) is bytes, f"the tensors are {type(data).__name__}, expected bytes", ArtefactError)
    end = 8 + int.from_bytes(data[:8], "little")
    require(8 < end <= len(data), f"{len(data)} bytes cannot hold a header that ends at {end}", ArtefactError)
    try:
        tensors = json.loads(data[8:end])
        text = tensors.pop("__metadata__")[KEY]
        require(type(tensors) is dict and type(text) is str, "the header is no table", ArtefactError)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"the header of the tensors is damaged: {error!r}") from error
    return Header(text, tensors, end)


def read_tensors(data: bytes, header: Header, expected: Mapping[str, Spec]) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, where they are exactly the expected ones and nothing else is there.

    Args:
        data: the whole file.
        header: what `read_header` says about it.
        expected: name → what that tensor must be.

    Raises:
        ArtefactError: for a missing, surplus or misshaped tensor, and for bytes that belong to none.
    """
    missing, surplus = expected.keys() - header.tensors.keys(), header.tensors.keys() - expected.keys()
    require(not missing, f"the tensors {sorted(missing)[:5]} are missing", ArtefactError)
    require(not surplus, f"the tensors {sorted(surplus)[:5]} are unknown", ArtefactError)
    arrays, at = {}, header.end
    for name, entry in header.tensors.items():
        dtype, shape = expected[name]
        size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        here = {
            "dtype": CODES[dtype],
            "shape": list(shape),
            "data_offsets": [at - header.end, at - header.end + size],
        }
        require(entry == here, f"the tensor {name} is {entry!s:.120}, expected {here}", ArtefactError)
        arrays[name] = array_from_bytes(data[at : at + size], dtype, shape)
        at += size
    require(at == len(data), f"the tensors end at byte {at} of {len(data)}", ArtefactError)
    return arrays
