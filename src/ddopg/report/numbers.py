"""Numbers for a page: what JSON can hold, and no more digits than anybody reads."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

DIGITS = 7  # significant ones: those of float32


def round_number(value: Any) -> float | None:
    """Rounded to what float32 would hold; None for what is not finite."""
    value = float(value)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def round_numbers(values: Iterable[Any]) -> list[float | None]:
    """Each of them by `number`."""
    return [round_number(value) for value in values]


def encode_array(array: np.ndarray) -> str:
    """Many numbers as text: float32, little-endian, row-major, in base 64; what is too large for it is infinite."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, "<f4")
    return base64.b64encode(numbers.tobytes()).decode()


def thin_indices(count: int, most: int) -> list[int]:
    """At most `most` of the indices 0 … count − 1, evenly spread, the first and the last among them."""
    return [round(i) for i in np.linspace(0, count - 1, min(count, most))] if count else []
