"""The surrogate model of the return: importance weights of deterministic trajectories under a length-scale.

`estimate` says what the evidence tells about a policy; `OBJECTIVES` are what the search may maximise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import SurrogateConfig
from ddopg.core import acquisitions, estimators
from ddopg.core.types import Estimate, Evidence
from ddopg.errors import ConfigError, require
from ddopg.policies import Policy

AT_ONCE = 2**19  # activations (2 MB) of a layer that are computed in one piece
SMALLEST_DEVIATION = 1e-4  # units of the objective: a single dominating trajectory shows no variance at all


def evaluation_log_density(action: Array, mean: Array, length_scale: Array) -> Array:
    """log p̃(aₜ|sₜ; θ) = log N(aₜ | μ_θ(sₜ), Σ), Σ = diag(σ²).  Eq. (13), eq:EvaluationPolicy."""
    z = (action - mean) / length_scale
    return -0.5 * jnp.sum(jnp.square(z) + jnp.log(2 * jnp.pi * jnp.square(length_scale)), axis=-1)


def log_likelihoods(
    policy: Policy, theta: Array, observations: Array, actions: Array, lived: Array, config: SurrogateConfig
) -> Array:
    """log Πₜ N(aₜ | μ_θ(sₜ), Σ) of one trajectory, up to a constant of that trajectory: of the whole path (1,), or of
    each of its beginnings (K,).

    The constant −½ log|2πΣ| per step cancels in Eq. (15); adding it would only cost float32 digits.
    """
    return _log_likelihoods_of(
        -0.5 * _distances(policy, config, theta, observations.T, actions.T), lived, config
    )


def _distances(policy: Policy, config: SurrogateConfig, theta: Array, seen: Array, shown: Array) -> Array:
    """‖(a − μ_θ(s))/σ‖² of M steps (M,), their observations (O, M) and actions (A, M) as columns."""
    z = (shown - policy.on_columns(theta, seen)) / length_scales(policy, config)[:, None]
    return jnp.sum(jnp.square(z), axis=0)


def _log_likelihoods_of(log_pi: Array, lived: Array, config: SurrogateConfig) -> Array:
    """Of whole paths (…, 1), or of each of their beginnings (…, K), from the log-densities (…, T) of their steps."""
    if config.decisions:
        return estimators.log_prefix_likelihoods(log_pi, lived)
    return estimators.log_trajectory_likelihood(log_pi, lived)[..., None]


def log_surrogate_weights(log_p: Array, log_q: Array) -> Array:
    """log w̃(τᵢ, θ) = log Πₜ N(aₜ|μ_θ(sₜ), Σ) − log 1/N Σⱼ Πₜ N(aₜ|μ_θⱼ(sₜ), Σ).  Eq. (15), eq:SurrogateWeights."""
    return log_p - log_q


def surrogate_return(log_w: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    """Ĵ_surr(θ) = 1/Z Σᵢ w̃(τᵢ, θ) R(τᵢ), Z = N or Z = Σᵢ w̃.  Eq. (14), eq:SurrogateModel.

    With K > 1 weights per trajectory, the sum of this over the K stretches of reward.
    """
    if config.normalisation == "count":
        plain = estimators.baselined_return if config.baseline else estimators.importance_sampling_return
        return jnp.sum(jax.vmap(plain, in_axes=(1, 1, None))(log_w, evidence.rewards, evidence.counts))
    return estimators.per_decision_return(log_w, evidence.rewards, evidence.counts, config.epsilon)


def weigher(policy: Policy, evidence: Evidence, config: SurrogateConfig) -> Callable[[Array], Array]:
    """θ ↦ log w̃ of every trajectory and time (N, K): the hot loop of the search.

    Observations and actions are laid out feature by feature once, before any loop. Where the activations of all
    trajectories would not stay in the cache, they are computed trajectory by trajectory, and again for the gradient.
    """
    number, steps = evidence.lived.shape
    distances = partial(_distances, policy, config)
    arrays = (evidence.observations, evidence.actions)
    flat = tuple(array.reshape(-1, array.shape[-1]).T for array in arrays)  # (F, N·T)
    stacked = tuple(array.transpose(0, 2, 1) for array in arrays)  # (N, F, T)

    def at_once(theta: Array) -> Array:
        return distances(theta, *flat)

    def one_by_one(theta: Array) -> Array:
        return jax.lax.map(lambda one: jax.checkpoint(distances)(theta, *one), stacked)

    of_all = at_once if number * steps * policy.width <= AT_ONCE else one_by_one

    def log_w(theta: Array) -> Array:
        log_pi = -0.5 * of_all(theta).reshape(number, steps)
        log_p = evidence.sharpness * _log_likelihoods_of(log_pi, evidence.lived, config)
        return log_surrogate_weights(log_p, evidence.log_q)

    return log_w


def log_weights(policy: Policy, theta: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    """log w̃ of every trajectory and time (N, K) for the policy θ."""
    return weigher(policy, evidence, config)(theta)


def estimate(
    log_w: Array, evidence: Evidence, return_bound: Array | float, config: SurrogateConfig
) -> Estimate:
    """Everything the evidence says about the policy with these weights: mean, variance, ESS, lower bound, shares."""
    mean, whole = surrogate_return(log_w, evidence, config), log_w[:, -1]
    ess = estimators.effective_sample_size(whole, evidence.counts, config.epsilon)
    return Estimate(
        mean=mean,
        variance=estimators.return_variance(whole, evidence.returns, evidence.counts),
        ess=ess,
        lower_bound=estimators.lower_bound(mean, ess, return_bound, config.delta),
        weights=estimators.normalised_weights(whole, evidence.counts, config.epsilon),
    )


class Belief(NamedTuple):
    """What an objective may look at, returns in units of the objective."""

    mean: Array  # Ĵ(θ)
    deviation: Array  # its standard error, √(variance of the return / ESS)
    ess: Array
    best: Array  # the highest estimate of any stored policy


def objective(
    log_w: Array, evidence: Evidence, unit: Array | float, best: Array | float, config: SurrogateConfig
) -> Array:
    """What the search maximises, in units of `unit`: ‖R‖∞, or the spread of the returns around the centre."""
    whole = log_w[:, -1]
    ess = estimators.effective_sample_size(whole, evidence.counts, config.epsilon)
    variance = estimators.return_variance(whole, evidence.returns, evidence.counts) / jnp.square(unit)
    belief = Belief(
        mean=surrogate_return(log_w, evidence, config) / unit,
        deviation=jnp.sqrt(variance / ess + SMALLEST_DEVIATION**2),
        ess=ess,
        best=jnp.asarray(best) / unit,
    )
    return OBJECTIVES[config.objective](belief, evidence.counts.shape[0], config)


def stored_returns(evidence: Evidence, config: SurrogateConfig) -> Array:
    """Ĵ(θᵢ) of every stored policy (N,), from the table: nothing is computed twice. −∞ for rows of padding."""
    means = jax.vmap(lambda log_p: surrogate_return(log_p - evidence.log_q, evidence, config))(evidence.table)
    return jnp.where(evidence.counts > 0, means, -jnp.inf)


def penalised(belief: Belief, size: int, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ γ √(1/ESS): the objective of Algorithm 1, its penalty being Eq. (20)."""
    return belief.mean + estimators.penalty(belief.ess, 1.0, config.penalty)


def confident(belief: Belief, size: int, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ √((1−δ)/(δ ESS)): the lower bound of Eq. (19) itself."""
    return estimators.lower_bound(belief.mean, belief.ess, 1.0, config.delta)


def rewarded_by_ess(belief: Belief, size: int, config: SurrogateConfig) -> Array:
    """Ĵ/‖R‖∞ + γ ESS/N_max: the released code's objective, a linear bonus instead of a root penalty."""
    return belief.mean + config.penalty * belief.ess / size


OBJECTIVES: dict[str, Callable[[Belief, int, SurrogateConfig], Array]] = {
    "penalty": penalised,
    "lower_bound": confident,
    "ess_bonus": rewarded_by_ess,
    "lower_confidence": lambda b, n, c: acquisitions.lower_confidence(b.mean, b.deviation, c.width),
    "upper_confidence": lambda b, n, c: acquisitions.upper_confidence(b.mean, b.deviation, c.width),
    "probability_of_improvement": lambda b, n, c: acquisitions.probability_of_improvement(
        b.mean, b.deviation, b.best
    ),
    "expected_improvement": lambda b, n, c: acquisitions.expected_improvement(b.mean, b.deviation, b.best),
}


def fisher(policy: Policy, theta: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    """F = mean over the stored states of Jᵀ Σ⁻¹ J, J = ∂μ_θ(s)/∂θ, (D, D): how far θ moves the evaluation policy."""
    scales = length_scales(policy, config)
    jacobian = jax.jacrev(lambda point, observation: policy.act(point, observation) / scales)
    observations = evidence.observations.reshape(-1, evidence.observations.shape[-1])
    lived = evidence.lived.reshape(-1).astype(theta.dtype)
    slopes = jax.vmap(jacobian, in_axes=(None, 0))(theta, observations)
    return jnp.einsum("t,tad,tae->de", lived, slopes, slopes) / jnp.sum(lived)


def length_scales(policy: Policy, config: SurrogateConfig) -> np.ndarray:
    """σ per action dimension (A,), in the units of the environment."""
    scales, unit = np.asarray(config.length_scale, float), np.asarray(policy.unit)
    require(
        len(scales) in (1, len(unit)),
        f"surrogate.length_scale must hold 1 value or {len(unit)} (one per action dimension), got {len(scales)}",
        ConfigError,
    )
    return scales * unit
