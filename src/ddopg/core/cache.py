"""What stands beside the state from turn to turn: it can be computed again to the same bit, but that takes long."""

from __future__ import annotations

from ddopg.core.log_likelihood_cache import LogLikelihoodCache
from ddopg.core.transitions import TransitionCache


class Cache:
    """Empty at first; a turn hands on the one that it was given.

    Attributes:
        likelihoods: of pairs of trajectories.
        transitions: the steps that the critic learns from.
    """

    def __init__(self) -> None:
        self.likelihoods: LogLikelihoodCache | None = None
        self.transitions = TransitionCache()
