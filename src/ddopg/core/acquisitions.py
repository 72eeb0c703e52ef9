"""Objectives: what the search maximises, from what the surrogate believes about a policy.

The penalised estimate of Algorithm 1, the lower bound itself, the released code's bonus, and acquisition functions of
Bayesian optimisation, which the paper names as open. Returns are in objective scales. An objective is a function
`(belief, config) → value`; adding one is that function and a line in `OBJECTIVES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm

from ddopg.config import SurrogateConfig
from ddopg.core import estimators


class Belief(NamedTuple):
    """What an objective may look at; returns in objective scales."""

    mean: Array  # Ĵ(θ)
    deviation: Array  # its standard error, `estimators.standard_error`
    ess: Array  # effective sample size, 1 ≤ ESS ≤ N
    best: Array  # the highest estimate of any stored policy
    max_count: int  # N_max, rows of the surrogate data


def penalty(belief: Belief, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ γ √(1/ESS): the objective of Algorithm 1, its penalty being Eq. (20)."""
    return belief.mean + estimators.penalty(belief.ess, 1.0, config.penalty)


def lower_bound(belief: Belief, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ √((1−δ)/(δ ESS)): the lower bound of Eq. (19) itself."""
    return estimators.lower_bound(belief.mean, belief.ess, 1.0, config.delta)


def ess_bonus(belief: Belief, config: SurrogateConfig) -> Array:
    """Ĵ/‖R‖∞ + γ ESS/N_max: the released code's objective, a linear bonus instead of a root penalty."""
    return belief.mean + config.penalty * belief.ess / belief.max_count


def lower_confidence(belief: Belief, config: SurrogateConfig) -> Array:
    """μ − κσ: what the policy is worth at least, up to κ standard errors."""
    return belief.mean - config.width * belief.deviation


def upper_confidence(belief: Belief, config: SurrogateConfig) -> Array:
    """μ + κσ: optimism in the face of uncertainty."""
    return belief.mean + config.width * belief.deviation


def probability_of_improvement(belief: Belief, config: SurrogateConfig) -> Array:
    """log Φ((μ − b)/σ): the log-probability of being better than b. The logarithm has a slope where Φ is flat."""
    return norm.logcdf((belief.mean - belief.best) / belief.deviation)


def expected_improvement(belief: Belief, config: SurrogateConfig) -> Array:
    """E max(0, J − b) = (μ − b) Φ(z) + σ φ(z), z = (μ − b)/σ, for J ~ N(μ, σ²)."""
    z = (belief.mean - belief.best) / belief.deviation
    return belief.deviation * (z * norm.cdf(z) + jnp.exp(norm.logpdf(z)))


OBJECTIVES: dict[str, Callable[[Belief, SurrogateConfig], Array]] = {
    "penalty": penalty,
    "lower_bound": lower_bound,
    "ess_bonus": ess_bonus,
    "lower_confidence": lower_confidence,
    "upper_confidence": upper_confidence,
    "probability_of_improvement": probability_of_improvement,
    "expected_improvement": expected_improvement,
}
"""Name in the configuration (`surrogate.objective`) → objective."""
