"""Arrays as bytes and back: little-endian, row-major, without padding. The one form in which they travel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ddopg.errors import ArtefactError, require


def array_to_bytes(array: np.ndarray) -> bytes:
    """Little-endian, row-major."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def array_from_bytes(data: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of `array_to_bytes`; the length must fit exactly."""
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    require(
        type(data) is bytes and len(data) == expected,
        f"an array {dtype} {shape} has {expected} bytes, got {len(data) if type(data) is bytes else type(data)}",
        ArtefactError,
    )
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
