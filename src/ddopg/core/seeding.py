"""Random numbers by name: every purpose has a stream of its own, made from (seed, count, purpose).

No generator is carried along, and no stream is used twice, so a resumed run draws what an uninterrupted one draws.
"""

from __future__ import annotations

import zlib

import numpy as np

FIRST_EVALUATION_SEED = 2**31  # learning draws its seeds below it, so evaluation episodes are always fresh


def make_rng(seed: int, count: int, purpose: str) -> np.random.Generator:
    """The random numbers for one purpose at one count: no generator is carried along, none is used twice."""
    return np.random.default_rng([seed, count, zlib.crc32(purpose.encode())])


def draw_seed(seed: int, count: int, purpose: str) -> int:
    """A seed for that purpose, below those of evaluation."""
    return int(make_rng(seed, count, purpose).integers(FIRST_EVALUATION_SEED))
