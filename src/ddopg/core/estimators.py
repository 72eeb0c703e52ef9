"""The importance-sampling mathematics of the paper: no policy, no environment, all in log space.

One numbered equation is one function; `docs/equations.md` is the table. Axes: N trajectories, M policies,
D parameters. `R` are returns (N,), `log_w` log importance weights (N,), `scores` are
Σₜ ∇_θ log π(aₜ|sₜ; θ) per trajectory (N, D).

`counts` (N,) says how often each row stands in the sample: draws with replacement are merged into counts, and
rows of padding have count 0. None means once each.

`epsilon` is no part of the paper: the released code adds it to its denominators, so that its estimate falls to
0 far from the data. 0 leaves the formula as printed.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp


def expected_return(log_p: Array, R: Array) -> Array:
    """J(θ) = ∫ p(τ|θ) R(τ) dτ.  Eq. (1), eq:ExpectedCostDefinition.

    On a trajectory space that can be enumerated the integral is a sum over its N members.

    Args:
        log_p: log p(τᵢ|θ) of every trajectory of the space, (N,).
        R: returns, (N,).
    """
    return jnp.sum(jnp.exp(log_p) * R)


def log_trajectory_likelihood(log_pi: Array, step_counts: Array, log_dynamics: Array | float = 0.0) -> Array:
    """log p(τ|θ) = log p(s₀) + Σₜ log p(sₜ₊₁|sₜ,aₜ) + log π(aₜ|sₜ; θ).  Eq. (2), eq:TrajectoryLikelihood.

    `log_dynamics` holds the terms without θ; they are unknown and cancel in every ratio, hence 0.

    Args:
        log_pi: log π(aₜ|sₜ; θ), (…, T).
        step_counts: steps of the episode that each entry stands for, (…, T); 0 after the end.
        log_dynamics: the terms without θ.

    Returns:
        log p(τ|θ), (…).
    """
    # A step that did not happen has log-density 0, not −∞: a short episode must not look unlikely.
    return log_dynamics + jnp.sum(jnp.where(step_counts > 0, step_counts * log_pi, 0.0), axis=-1)


def log_prefix_likelihoods(log_pi: Array, step_counts: Array) -> Array:
    """log p(τ₀…ₜ|θ) = Σᵤ≤ₜ log π(aᵤ|sᵤ; θ) for every t: Eq. (2) of each beginning of the trajectory.

    Args:
        log_pi: log π(aₜ|sₜ; θ), (…, T).
        step_counts: steps of the episode that each entry stands for, (…, T); 0 after the end.

    Returns:
        The log-likelihood up to each time, (…, T).
    """
    return jnp.cumsum(jnp.where(step_counts > 0, step_counts * log_pi, 0.0), axis=-1)


def likelihood_ratio_gradient(log_p: Array, scores: Array, R: Array) -> Array:
    """∇J(θ) = ∫ p(τ|θ) ∇log p(τ|θ) R(τ) dτ.  Eq. (3), eq:LikelihoodRatioPolicyGradient.

    Enumerated as in `expected_return`.

    Args:
        log_p: log p(τᵢ|θ) of every trajectory of the space, (N,).
        scores: ∇_θ log p(τᵢ|θ), (N, D).
        R: returns, (N,).

    Returns:
        The gradient, (D,).
    """
    return jnp.einsum("n,nd,n->d", jnp.exp(log_p), scores, R)


def monte_carlo_return(R: Array) -> Array:
    """Ĵ_MC = 1/N Σᵢ R(τᵢ), τᵢ ~ p(τ|θ).  Eq. (4), eq:J_MC.

    Args:
        R: returns, (N,).
    """
    return jnp.mean(R)


def monte_carlo_gradient(scores: Array, R: Array) -> Array:
    """∇Ĵ_MC = 1/N Σᵢ [Σₜ ∇log π(aₜ|sₜ; θ)] R(τᵢ).  Eq. (5), eq:J_grad_MC.

    Args:
        scores: Σₜ ∇_θ log π(aₜ|sₜ; θ) of each trajectory, (N, D).
        R: returns, (N,).

    Returns:
        The gradient, (D,).
    """
    return jnp.mean(scores * R[:, None], axis=0)


def reweighted_expectation(log_p: Array, log_q: Array, R: Array) -> Array:
    """J(θ) = ∫ p(τ|θ') p(τ|θ)/p(τ|θ') R(τ) dτ.  Eq. (6), eq:ImportanceSamplingGeneral.

    Enumerated as in `expected_return`; q = p(·|θ') must cover p.

    Args:
        log_p: log p(τᵢ|θ) of every trajectory of the space, (N,).
        log_q: log p(τᵢ|θ'), (N,).
        R: returns, (N,).
    """
    return jnp.sum(jnp.exp(log_q) * jnp.exp(log_p - log_q) * R)


def importance_sampling_return(log_w: Array, R: Array, counts: Array | None = None) -> Array:
    """Ĵ_IS(θ) = 1/N Σᵢ w(τᵢ, θ) R(τᵢ).  Eqs. (7) and (8), eq:MCISCostEstimator.

    Args:
        log_w: log importance weights, (N,).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
    """
    number = R.shape[0] if counts is None else jnp.sum(counts)
    return _sum(counts, jnp.exp(_drop_padding(log_w, counts)) * R) / number


def log_importance_weights(log_p: Array, log_p_behaviour: Array) -> Array:
    """log w(τ, θ) = Σₜ log π(aₜ|sₜ; θ) − Σₜ log π(aₜ|sₜ; θ').  Eq. (9), eq:ImportanceWeights.

    Args:
        log_p: log-likelihoods under the policy θ, (N,).
        log_p_behaviour: under the policy θ' that acted, (N,).

    Returns:
        log w, (N,).
    """
    return log_p - log_p_behaviour


def log_mixture(log_p: Array, counts: Array | None = None, epsilon: float = 0.0) -> Array:
    """log q(τⱼ) = log 1/N Σᵢ p(τⱼ|θᵢ), the denominator of Eq. (10).  Row i: policy; column j: trajectory.

    Args:
        log_p: log p(τⱼ|θᵢ), policy i, trajectory j, (M, N).
        counts: how often each policy stands in the mixture, (M,); None means once each.
        epsilon: added to the mixture, relative to the largest likelihood of that trajectory; 0 adds nothing.

    Returns:
        log q, (N,).
    """
    weights = None if counts is None else counts[:, None]
    number = log_p.shape[0] if counts is None else jnp.sum(counts)
    log_q = logsumexp(log_p, axis=0, b=weights) - jnp.log(number)
    if not epsilon:
        return log_q
    largest = jnp.max(log_p, axis=0, where=None if weights is None else weights > 0, initial=-jnp.inf)
    return jnp.logaddexp(log_q, jnp.log(epsilon) + largest)


def log_mixture_weights(log_p: Array, log_p_policies: Array, counts: Array | None = None) -> Array:
    """log w(τ, θ) = Σₜ log π(aₜ|sₜ; θ) − log 1/N Σⱼ Πₜ π(aₜ|sₜ; θⱼ).  Eq. (10), eq:MixtureImportanceWeights.

    Args:
        log_p: log-likelihoods of the trajectories under the policy θ, (N,).
        log_p_policies: under each of the policies that acted, (M, N).
        counts: how often each policy stands in the mixture, (M,); None means once each.

    Returns:
        log w, (N,).
    """
    return log_p - log_mixture(log_p_policies, counts)


def truncate_weights(log_w: Array, cap: float) -> Array:
    """log min(w, c): truncated importance weights (Wawrzyński, 2007), which have a bias and less variance.

    A trajectory at the cap has no slope: it does not pull the policy any further, as in PPO. With Z = Σw, c → 0 gives
    every trajectory the same weight, as Σ → ∞ does.

    Args:
        log_w: log importance weights, of any shape.
        cap: c > 0; 0 leaves all weights as they are.
    """
    return jnp.minimum(log_w, jnp.log(cap)) if cap else log_w


def weighted_importance_sampling_return(
    log_w: Array, R: Array, counts: Array | None = None, epsilon: float = 0.0
) -> Array:
    """Ĵ_WIS(θ) = 1/Z Σᵢ w(τᵢ, θ) R(τᵢ), Z = Σᵢ w(τᵢ, θ).  Eqs. (11) and (22), eq:WeightedImportanceSampling.

    With Z = N it is `importance_sampling_return`.

    Args:
        log_w: log importance weights, (N,).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
        epsilon: added to the denominator, as the released code does; 0 leaves the formula as printed.
    """
    return jnp.sum(normalised_weights(log_w, counts, epsilon) * R)


def per_decision_return(
    log_w: Array, rewards: Array, counts: Array | None = None, epsilon: float = 0.0
) -> Array:
    """Ĵ(θ) = Σₜ Σᵢ w̄ᵢₜ rᵢₜ, w̄ᵢₜ = wᵢₜ / Σⱼ wⱼₜ: Eq. (11) for the reward of each time, weighted by its past only.

    Consistent weighted per-decision importance sampling; `log_w` and `rewards` are (N, K). What happens after a
    reward cannot have caused it, so the later steps' mismatch need not count against it. K = 1 is Eq. (11).

    Args:
        log_w: log importance weights of each trajectory up to each time, (N, K).
        rewards: what was earned from each time to the next, (N, K).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
        epsilon: added to the denominator, as the released code does; 0 leaves the formula as printed.
    """
    shares = jax.vmap(normalised_weights, in_axes=(1, None, None), out_axes=1)(log_w, counts, epsilon)
    return jnp.sum(shares * rewards)


def doubly_robust_return(
    log_w: Array,
    rewards: Array,
    values: Array,
    advantages: Array,
    counts: Array | None = None,
    epsilon: float = 0.0,
    normalised: bool = True,
) -> Array:
    """Ĵ(θ) = 1/N Σᵢ V̂(sᵢ₀) + Σₜ 1/Zₜ Σᵢ w̃ᵢₜ (rᵢₜ + V̂(sᵢₜ₊₁) − Q̂(sᵢₜ, aᵢₜ)), V̂(s) = E[Q̂(s, a)], a ~ π_θ(·|s).

    Per-decision importance sampling with Q̂ as control variate (Jiang and Li, 2016). Q̂ may be any function, of the
    time and of θ too. Without it this is the estimate by weights alone. With Zₜ = N there is no bias whatever Q̂ is:
    the past weights V̂(sₜ) and Q̂(sₜ, aₜ) alike, and the policy's own action is V̂(sₜ) on average. With the true Q̂ of a
    world without noise every bracket is 0, and no weight matters. Zₜ = Σᵢ w̃ᵢₜ has a bias that falls as 1/N.

    With one weight for a stretch of steps the bracket is the sum of theirs, R + V̂(s′) − V̂(s) − Σ (Q̂ − V̂): s is where
    the stretch begins, s′ where the next one does. Nothing follows the end of an episode, V̂(s′) = 0, and a time limit
    is an end here: the return goes no further. Where only some steps of a stretch are looked at, any fixed multiple
    of their Q̂ − V̂ leaves the estimate without bias; a multiple that depends on when the episode ends does not.

    Args:
        log_w: log importance weights of each trajectory up to the end of each stretch, (N, K).
        rewards: of each stretch, (N, K).
        values: V̂ of the state in which each stretch begins, (N, K); 0 after the end.
        advantages: Σ (Q̂(s, a) − V̂(s)) over the steps of each stretch, (N, K); 0 after the end.
        counts: how often each trajectory stands in the sample, (N,); None means once each.
        epsilon: added to the denominator, as the released code does; 0 leaves the formula as printed.
        normalised: Zₜ = Σᵢ w̃ᵢₜ, else Zₜ = N.
    """
    unexplained = subtract_control_variate(rewards, values, advantages)
    number = rewards.shape[0] if counts is None else jnp.sum(counts)
    start = _sum(counts, values[:, 0]) / number
    if normalised:
        return start + per_decision_return(log_w, unexplained, counts, epsilon)
    return start + jnp.sum(jax.vmap(importance_sampling_return, (1, 1, None))(log_w, unexplained, counts))


def subtract_control_variate(rewards: Array, values: Array, advantages: Array) -> Array:
    """R + V̂(s′) − V̂(s) − Σ (Q̂ − V̂) of each stretch (N, K): what a critic did not foresee.

    Args:
        rewards: of each stretch, (N, K).
        values: V̂ of the state in which each stretch begins, (N, K); 0 after the end.
        advantages: Σ (Q̂(s, a) − V̂(s)) over the steps of each stretch, (N, K).
    """
    following = jnp.pad(values[:, 1:], ((0, 0), (0, 1)))
    return rewards + following - values - advantages


def weighted_gradient(log_w: Array, scores: Array, R: Array, counts: Array | None = None) -> Array:
    """∇Ĵ_WIS = 1/Z Σᵢ w(τᵢ,θ) [Σₜ ∇log π(aₜ|sₜ; θ)] [R(τᵢ) − Ĵ_WIS(θ)].  Proposition 1.

    Eq. (12), eq:NormalizedPolicyGradient, derived in Eqs. (23) to (28),
    eq:WeightedImportanceSamplingPolicyGradient: normalising the weights acts as a baseline.

    Args:
        log_w: log importance weights, (N,).
        scores: Σₜ ∇_θ log π(aₜ|sₜ; θ) of each trajectory, (N, D).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.

    Returns:
        The gradient, (D,).
    """
    baseline = weighted_importance_sampling_return(log_w, R, counts)
    return jnp.einsum("n,nd,n->d", normalised_weights(log_w, counts), scores, R - baseline)


def optimal_baseline(log_w: Array, R: Array, counts: Array | None = None) -> Array:
    """b* = Cov(wR, w) / Var(w): the constant b at which b + 1/N Σᵢ wᵢ (R(τᵢ) − b) has the least variance.

    Since E[w] = 1, any constant b can be subtracted and added back without bias; b* of the same sample is no
    constant, see `baselined_return`. 0 where all weights are equal. A factor on all weights cancels: the largest is
    set to 1, for squares of large ones would overflow.

    Args:
        log_w: log importance weights, (N,).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
    """
    kept = _drop_padding(log_w, counts)
    w = jnp.exp(kept - jax.lax.stop_gradient(jnp.max(kept)))
    number = R.shape[0] if counts is None else jnp.sum(counts)
    centred = w - _sum(counts, w) / number
    spread = _sum(counts, jnp.square(centred))
    return jnp.where(spread > 0, _sum(counts, centred * w * R) / jnp.where(spread > 0, spread, 1.0), 0.0)


def baselined_return(log_w: Array, R: Array, counts: Array | None = None) -> Array:
    """Ĵ = 1/N Σᵢ [w(τᵢ, θ) (R(τᵢ) − b₋ᵢ) + b₋ᵢ], b₋ᵢ = `optimal_baseline` of all trajectories but τᵢ.

    Eq. (8) with its optimal baseline, leave-one-out: b₋ᵢ does not know τᵢ, so E[wᵢ b₋ᵢ] = E[b₋ᵢ], and neither the
    estimate nor its derivative in θ has a bias. That is exact for independent draws from one behavioural policy, or
    from the mixture of Eq. (10). With one rollout of each policy of the mixture, E[wᵢ] = 1 holds only on average over
    i, and a bias of order 1/N is left. All copies of a trajectory are left out together.

    Args:
        log_w: log importance weights, (N,).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
    """
    baselines = _leave_one_out(optimal_baseline, log_w, R, counts)
    number = R.shape[0] if counts is None else jnp.sum(counts)
    return importance_sampling_return(log_w, R - baselines, counts) + _sum(counts, baselines) / number


def gradient_baselines(log_w: Array, score_norms: Array, R: Array, counts: Array | None = None) -> Array:
    """g₋ᵢ = Σⱼ≠ᵢ wⱼ² ‖sⱼ‖² R(τⱼ) / Σⱼ≠ᵢ wⱼ² ‖sⱼ‖²: the optimal baselines of the gradient, leave-one-out.

    The gradient of Eq. (8) is the mean of w s R, s = Σₜ ∇log π. As E[w s] = 0, one scalar g can be subtracted from
    every R without bias. The trace of the covariance of w s (R − g) is E[w² ‖s‖² (R − g)²] and a constant, hence
    g* = E[w² ‖s‖² R] / E[w² ‖s‖²]. The paper points to Jie and Abbeel (2010), whose baselines are more general.

    Args:
        log_w: log importance weights, (N,).
        score_norms: ‖Σₜ ∇_θ log π(aₜ|sₜ; θ)‖² of each trajectory, (N,), in the scale of the search.
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.

    Returns:
        g₋ᵢ, (N,).
    """
    # At the very policy that acted every score is 0: all rows then count by w² alone.
    log_norms = jnp.log(jnp.maximum(score_norms, jnp.finfo(score_norms.dtype).tiny))
    return _leave_one_out(weighted_importance_sampling_return, 2 * log_w + log_norms, R, counts)


def baselined_gradient(log_w: Array, scores: Array, R: Array, counts: Array | None = None) -> Array:
    """∇Ĵ = 1/N Σᵢ w(τᵢ, θ) [Σₜ ∇log π(aₜ|sₜ; θ)] [R(τᵢ) − g₋ᵢ], g₋ᵢ of `gradient_baselines`.

    No bias where `baselined_return` has none.

    Args:
        log_w: log importance weights, (N,).
        scores: Σₜ ∇_θ log π(aₜ|sₜ; θ) of each trajectory, (N, D).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.

    Returns:
        The gradient, (D,).
    """
    baselines = gradient_baselines(log_w, jnp.sum(jnp.square(scores), axis=1), R, counts)
    each = jax.vmap(importance_sampling_return, in_axes=(None, 1, None))
    return each(log_w, scores * (R - baselines)[:, None], counts)


def normalised_weights(log_w: Array, counts: Array | None = None, epsilon: float = 0.0) -> Array:
    """w̄ᵢ = wᵢ / Σⱼ wⱼ, counts included: the share of row i in the estimate.

    Args:
        log_w: log importance weights, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
        epsilon: added to the denominator, as the released code does; 0 leaves the formula as printed.

    Returns:
        w̄, (N,); they sum to one, unless epsilon takes some of it.
    """
    shares = jnp.exp(_log_shares(log_w, counts, epsilon))
    return shares if counts is None else counts * shares


def return_variance(log_w: Array, R: Array, counts: Array | None = None) -> Array:
    """Σᵢ w̄ᵢ (R(τᵢ) − Ĵ_WIS)²: the variance of the return under θ, the shaded band of Fig. 1.

    Args:
        log_w: log importance weights, (N,).
        R: returns, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
    """
    w = normalised_weights(log_w, counts)
    return jnp.sum(w * jnp.square(R - jnp.sum(w * R)))


def standard_error(variance: Array, ess: Array, spread: Array) -> Array:
    """√((V + V₀/ESS) / ESS): the standard error of Ĵ; V is the weighted variance of the returns, V₀ the plain one.

    Weights that know nothing of the returns have E[V] = (1 − 1/ESS) σ²: V misses the share 1/ESS of the variance, and
    all of it where one trajectory dominates. V₀ stands in for the missing share. Far from the data ESS → 1, and the
    error tends to √V₀ instead of 0; with many effective trajectories it is √(V/ESS).

    Args:
        variance: V, of `return_variance`.
        ess: the effective sample size.
        spread: V₀, the variance of the returns of all selected trajectories, whatever their weights.
    """
    squared = (variance + spread / ess) / ess
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)  # √ has no slope at 0


def renyi_lower_bound(mean: Array, d2: Array, count: Array | int, return_bound: Array, delta: float) -> Array:
    """E[R] ≥ Ĵ − ‖R‖∞ √((1−δ) d₂(p‖q) / (δ N)) with probability 1−δ.  Eq. (16), eq:LowerBound.

    d₂ is the exponentiated 2-Rényi divergence. The print has Ĵ = 1/N Σᵢ w̃ᵢ Rᵢ, Z = N, for which the bound is proved.
    The surrogate uses its own estimate instead, which has Z = Σw̃ in every preset.

    Args:
        mean: Ĵ, with Z = N for the bound as printed.
        d2: d₂(p‖q).
        count: N, the number of trajectories.
        return_bound: ‖R‖∞, the largest possible |R(τ)|.
        delta: δ, the probability that the bound does not hold.
    """
    return mean - return_bound * jnp.sqrt((1 - delta) * d2 / (delta * count))


def paper_effective_sample_size(log_w: Array, counts: Array | None = None) -> Array:
    """ESS = 1 / Σᵢ w̃(τᵢ, θ)².  Eq. (17), as printed: it is a sample size only for weights that sum to one.

    Args:
        log_w: log importance weights, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
    """
    return jnp.exp(-logsumexp(2 * log_w, b=counts))


def effective_sample_size(log_w: Array, counts: Array | None = None, epsilon: float = 0.0) -> Array:
    """ESS = (Σᵢ w̄ᵢ)² / Σᵢ w̄ᵢ², w̄ᵢ = wᵢ / Σⱼ wⱼ.  Eq. (17) on self-normalised weights: 1 ≤ ESS ≤ N.

    Args:
        log_w: log importance weights, (N,).
        counts: how often each trajectory stands in the sample, (N,); None means once each.
        epsilon: added to the denominator, as the released code does; 0 leaves the formula as printed.
    """
    # Normalise first: the difference of two large logarithms would lose every digit in float32.
    shares = jnp.exp(_log_shares(log_w, counts, epsilon))
    return jnp.square(_sum(counts, shares)) / (_sum(counts, jnp.square(shares)) + epsilon)


def lower_bound(mean: Array, ess: Array, return_bound: Array | float, delta: float) -> Array:
    """L = Ĵ − ‖R‖∞ √((1−δ)/δ · 1/ESS).  Eqs. (18) and (19), eq:ESSLowerBound: Eq. (16) with N/d₂ = ESS.

    The print has Z = N. The surrogate hands in its own estimate, which is the weighted one (Z = Σw̃) in every preset,
    and an ESS of the same sample: the bound is then a rule for caution, not a theorem.

    Args:
        mean: Ĵ, with Z = N for the bound as printed.
        ess: the effective sample size.
        return_bound: ‖R‖∞, the largest possible |R(τ)|.
        delta: δ, the probability that the bound does not hold.
    """
    return mean - return_bound * jnp.sqrt((1 - delta) / (delta * ess))


def penalty(ess: Array, return_bound: Array | float, factor: float) -> Array:
    """penalty(θ) = −‖R‖∞ γ √(1/ESS).  Eq. (20).  Negative: it is *added* to Ĵ.

    Args:
        ess: the effective sample size.
        return_bound: ‖R‖∞, the largest possible |R(τ)|.
        factor: γ of the paper's Table 1.
    """
    return -return_bound * factor * jnp.sqrt(1 / ess)


def _log_shares(log_w: Array, counts: Array | None, epsilon: float = 0.0) -> Array:
    """log wᵢ − log Σⱼ wⱼ: the share of a single draw of row i."""
    log_w = _drop_padding(log_w, counts)
    # Shift before summing: log Σw of weights near exp(−10⁶) has no float32 digits left after the point.
    largest = jax.lax.stop_gradient(jnp.max(log_w))
    log_z = logsumexp(log_w - largest, b=counts)
    log_z = jnp.logaddexp(log_z, jnp.log(epsilon) - largest) if epsilon else log_z
    return log_w - largest - log_z


def _drop_padding(log_w: Array, counts: Array | None) -> Array:
    # Padding may carry any finite log-weight; ∞ · 0 must not appear when it is the largest.
    return log_w if counts is None else jnp.where(counts > 0, log_w, -jnp.inf)


def _sum(counts: Array | None, values: Array) -> Array:
    return jnp.sum(values if counts is None else counts * values)


def _leave_one_out(
    estimate: Callable[[Array, Array, Array], Array], log_w: Array, R: Array, counts: Array | None
) -> Array:
    """The estimate from all rows but one, for each row (N,); 0 where no other row is left."""
    present = jnp.ones_like(R) if counts is None else counts
    kept = present[None, :] * (1 - jnp.eye(R.shape[0], dtype=R.dtype))
    some = jnp.sum(kept, axis=1) > 0
    each = jax.vmap(estimate, in_axes=(None, None, 0))
    return jnp.where(some, each(log_w, R, jnp.where(some[:, None], kept, 1.0)), 0.0)
