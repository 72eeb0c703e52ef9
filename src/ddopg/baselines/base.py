"""What all methods share: a learner is an endless generator of checkpoints, each what it knows after so many steps.

    def learn(env, seed, settings) -> Iterator[Checkpoint]

The first checkpoint has no steps. Whoever consumes them owns the budget and the evaluation, the same for everyone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from ddopg.policies import Policy
from ddopg.rollout import FIRST_EVALUATION_SEED


class Checkpoint(NamedTuple):
    """The deterministic policy that a learner would hand over now, and what it has cost."""

    steps: int  # environment steps so far, all of them
    policy: Policy
    theta: np.ndarray  # (D,)


def stream(seed: int, count: int, purpose: str) -> np.random.Generator:
    """The random numbers for one purpose at one count: no generator is carried along, none is used twice."""
    return np.random.default_rng([seed, count, zlib.crc32(purpose.encode())])


def rollout_seeds(seed: int) -> Iterator[int]:
    """Seeds for the episodes that are learnt from: all below those of evaluation."""
    count = 0
    while True:
        yield int(stream(seed, count, "rollout").integers(FIRST_EVALUATION_SEED))
        count += 1


def first_parameters(policy: Policy, seed: int) -> np.ndarray:
    """The policy class' own random start."""
    key = jax.random.key(int(stream(seed, 0, "initial policy").integers(FIRST_EVALUATION_SEED)))
    return np.asarray(policy.init(key), np.float32)
