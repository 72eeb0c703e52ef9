"""Acquisition functions: what a search may maximise instead of the estimate, to trade exploring for exploiting.

From Bayesian optimisation, on the surrogate's mean and standard error. The paper names them as open.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm


def lower_confidence(mean: Array, deviation: Array, width: float) -> Array:
    """μ − κσ: what the policy is worth at least, up to κ standard errors."""
    return mean - width * deviation


def upper_confidence(mean: Array, deviation: Array, width: float) -> Array:
    """μ + κσ: optimism in the face of uncertainty."""
    return mean + width * deviation


def probability_of_improvement(mean: Array, deviation: Array, best: Array) -> Array:
    """log Φ((μ − b)/σ): the log-probability of being better than b. The logarithm has a slope where Φ is flat."""
    return norm.logcdf((mean - best) / deviation)


def expected_improvement(mean: Array, deviation: Array, best: Array) -> Array:
    """E max(0, J − b) = (μ − b) Φ(z) + σ φ(z), z = (μ − b)/σ, for J ~ N(μ, σ²)."""
    z = (mean - best) / deviation
    return deviation * (z * norm.cdf(z) + jnp.exp(norm.logpdf(z)))
