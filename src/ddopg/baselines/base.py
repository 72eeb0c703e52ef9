"""What all methods share: a learner is an endless generator of checkpoints, each what it knows after so many steps.

    def learn(env, seed, settings) -> Iterator[Checkpoint]

The first checkpoint has no steps. Whoever consumes them owns the budget and the evaluation, the same for everyone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
import numpy as np

from ddopg.core.seeding import draw_seed
from ddopg.policies import Policy


class Checkpoint(NamedTuple):
    """The deterministic policy that a learner would hand over now, and what it has cost.

    Example:
        >>> import numpy as np
        >>> from ddopg.baselines.base import Checkpoint
        >>> from ddopg.policies import linear
        >>> policy = linear(4, 1)
        >>> Checkpoint(0, policy, np.zeros(policy.size)).steps
        0
    """

    steps: int  # environment steps so far, all of them
    policy: Policy
    theta: np.ndarray  # (D,)


def rollout_seeds(seed: int) -> Iterator[int]:
    """Yield seeds for the episodes that are learnt from: all below those of evaluation."""
    count = 0
    while True:
        yield draw_seed(seed, count, "rollout")
        count += 1


@contextmanager
def expect_as_libraries_do() -> Iterator[None]:
    """Whatever the caller has set: shapes of different rank may meet, and old names are no error."""
    with jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
