"""Numbers for a page: as JSON can hold them, with no more digits than a reader needs."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

DIGITS = 7  # significant ones: those of float32


def round_number(value: Any) -> float | None:
    """Round to the digits of float32; None for what is not finite."""
    value = float(value)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def round_numbers(values: Iterable[Any]) -> list[float | None]:
    """Round each of them with `round_number`."""
    return [round_number(value) for value in values]


def encode_array(array: np.ndarray) -> str:
    """Many numbers as text: float32, little-endian, row-major, in base 64; what is too large for it is infinite."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, "<f4")
    return base64.b64encode(numbers.tobytes()).decode()


def thin_indices(count: int, most: int) -> list[int]:
    """Choose some of the indices 0 … count − 1, evenly spread.

    Args:
        count: how many there are.
        most: how many are wanted at most.

    Returns:
        The indices in order, the first and the last among them.
    """
    return [round(i) for i in np.linspace(0, count - 1, min(count, most))] if count else []
