"""The surrogate model of the return: importance weights of deterministic trajectories under a length-scale.

`estimate` says what the data tell about a policy, `objective_value` what the search maximises. An estimator is a
function `(log_w, data, config) → Ĵ`; adding one is that function and a line in `ESTIMATORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import SurrogateConfig
from ddopg.core import estimators
from ddopg.core.acquisitions import OBJECTIVES, Belief
from ddopg.core.control_variate import sum_over_stretches
from ddopg.core.replay import act_along
from ddopg.core.time_grid import SubsampledTrajectory
from ddopg.core.types import Estimate, SurrogateData
from ddopg.errors import ConfigError, require
from ddopg.policies import Policy

MAX_ACTIVATIONS = 2**20  # of a layer (4 MB) that are computed in one piece
MIN_DEVIATION = 1e-4  # objective scales: data whose returns are all the same show no variance at all


def evaluation_log_density(action: Array, mean: Array, length_scale: Array) -> Array:
    """log p̃(aₜ|sₜ; θ) = log N(aₜ | μ_θ(sₜ), Σ), Σ = diag(σ²).  Eq. (13), eq:EvaluationPolicy.

    Args:
        action: aₜ, (…, A).
        mean: μ_θ(sₜ), (…, A).
        length_scale: σ, (A,).

    Returns:
        The log-density, (…).
    """
    z = (action - mean) / length_scale
    return -0.5 * jnp.sum(jnp.square(z) + jnp.log(2 * jnp.pi * jnp.square(length_scale)), axis=-1)


def log_likelihoods(
    policy: Policy, theta: Array, path: SubsampledTrajectory, config: SurrogateConfig
) -> Array:
    """log Πₜ N(aₜ | μ_θ(sₜ), Σ) of one trajectory, up to a constant of that trajectory.

    The constant −½ log|2πΣ| per step cancels in Eq. (15); adding it would only cost float32 digits.

    Args:
        policy: the policy class.
        theta: the parameters whose likelihood is asked for, (D,).
        path: the trajectory, observations (T, O), actions (T, A).
        config: the length-scale, and whether prefixes are weighted (`decisions`).

    Returns:
        The log-likelihood of the whole path (1,), or of each of its prefixes (K,).
    """
    if policy.replayed:
        apart = _replayed_distances(policy, config, theta, path.observations, path.actions, path.times)
        return _sum_log_densities(-0.5 * apart, path.step_counts, config)
    log_pi = -0.5 * _distances(policy, config, theta, path.observations.T, path.actions.T)
    return _sum_log_densities(log_pi, path.step_counts, config)


def _distances(policy: Policy, config: SurrogateConfig, theta: Array, seen: Array, shown: Array) -> Array:
    """‖(a − μ_θ(s))/σ‖² of M steps (M,), their observations (O, M) and actions (A, M) as columns."""
    z = (shown - policy.on_columns(theta, seen)) / length_scales(policy, config)[:, None]
    return jnp.sum(jnp.square(z), axis=0)


def _replayed_distances(
    policy: Policy,
    config: SurrogateConfig,
    theta: Array,
    observations: Array,
    actions: Array,
    times: Array | None,
) -> Array:
    """‖(a − μ_θ(s₀ … s))/σ‖² of the steps compared (T,): a policy with a memory is played along all (H, O)."""
    answers = act_along(policy, theta, observations)
    answers = answers if times is None else answers[times]
    return jnp.sum(jnp.square((actions - answers) / length_scales(policy, config)[None, :]), axis=1)


def _sum_log_densities(log_pi: Array, step_counts: Array, config: SurrogateConfig) -> Array:
    """Of whole paths (…, 1), or of each of their prefixes (…, K), from the log-densities (…, T) of their steps."""
    if config.decisions:
        return estimators.log_prefix_likelihoods(log_pi, step_counts)
    return estimators.log_trajectory_likelihood(log_pi, step_counts)[..., None]


def log_surrogate_weights(log_p: Array, log_q: Array, cap: float = 0.0) -> Array:
    """log w̃(τᵢ, θ) = log Πₜ N(aₜ|μ_θ(sₜ), Σ) − log 1/N Σⱼ Πₜ N(aₜ|μ_θⱼ(sₜ), Σ).  Eq. (15), eq:SurrogateWeights.

    Args:
        log_p: log-likelihoods of the trajectories under θ, (N, K).
        log_q: their log mixture over the policies that acted, (N, K).
        cap: what no weight exceeds; 0 truncates none.
    """
    return estimators.truncate_weights(log_p - log_q, cap)


def weighted(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """Z = Σᵢ w̃: weighted importance sampling; with K > 1, for the rewards of each stretch of time."""
    return estimators.per_decision_return(log_w, data.rewards, data.counts, config.epsilon)


def importance_sampling(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """Z = N: plain importance sampling; with K > 1, the sum over the K stretches of reward."""
    each = jax.vmap(estimators.importance_sampling_return, in_axes=(1, 1, None))
    return jnp.sum(each(log_w, data.rewards, data.counts))


def baselined(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """Z = N with the optimal baselines of the return, each from the other trajectories."""
    each = jax.vmap(estimators.baselined_return, in_axes=(1, 1, None))
    return jnp.sum(each(log_w, data.rewards, data.counts))


def gradient_baselined(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """The value of `baselined`, with the gradient of Z = N and the gradient's own optimal baselines.

    The gradient is `estimators.baselined_gradient`, which is not the derivative of the value: v̄ + x − x̄, where x has
    that gradient and a bar makes a constant. Without `data.score_norms` only the value is right.
    """
    value = jax.lax.stop_gradient(baselined(log_w, data, config))
    if data.score_norms is None:
        return value
    of_each_time = jax.vmap(estimators.gradient_baselines, in_axes=(1, 1, 1, None), out_axes=1)
    baselines = jax.lax.stop_gradient(of_each_time(log_w, data.score_norms, data.rewards, data.counts))
    climbed = importance_sampling(log_w, data._replace(rewards=data.rewards - baselines), config)
    return value + climbed - jax.lax.stop_gradient(climbed)


def doubly_robust(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """`weighted` with the critic as control variate, where there is one: `data` knows V̂ at the policy in question."""
    if data.control is None:
        return weighted(log_w, data, config)
    values, advantages = sum_over_stretches(data.control, log_w.shape[1])
    return estimators.doubly_robust_return(
        log_w, data.rewards, values, advantages, data.counts, config.epsilon
    )


ESTIMATORS: dict[str, Callable[[Array, SurrogateData, SurrogateConfig], Array]] = {
    "weighted": weighted,
    "importance_sampling": importance_sampling,
    "baselined": baselined,
    "gradient_baselined": gradient_baselined,
    "doubly_robust": doubly_robust,
}
"""Name in the configuration (`surrogate.estimator`) → estimator."""


def surrogate_return(log_w: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """Ĵ_surr(θ) = 1/Z Σᵢ w̃(τᵢ, θ) R(τᵢ), Z = N or Z = Σᵢ w̃.  Eq. (14), eq:SurrogateModel.

    With K > 1 weights per trajectory, the sum of this over the K stretches of reward.

    Args:
        log_w: log w̃ of every trajectory and time, (N, K).
        data: the selected trajectories.
        config: names the estimator.
    """
    return ESTIMATORS[config.estimator](log_w, data, config)


def make_log_weights_fn(
    policy: Policy, data: SurrogateData, config: SurrogateConfig
) -> Callable[[Array], Array]:
    """θ ↦ log w̃ of every trajectory and time (N, K): the hot loop of the search.

    Observations and actions are laid out feature by feature once, before any loop, and of whole paths only the steps
    that count (`data.real`). Where the activations of all trajectories would not stay in the cache, they are computed
    trajectory by trajectory, and again for the gradient.
    """
    number, steps = data.step_counts.shape
    at_hand = number * steps if data.real is None else len(data.real)
    if policy.replayed:
        of_paths = _likelihoods_by_replay(policy, data, config)
    elif at_hand * policy.width > MAX_ACTIVATIONS:
        of_paths = _likelihoods_one_by_one(policy, data, config)
    elif data.real is None:
        of_paths = _likelihoods_at_once(policy, data, config)
    else:
        of_paths = _likelihoods_of_real_steps(policy, data, data.real, config)

    def log_weights(theta: Array) -> Array:
        log_p = data.inverse_temperature * of_paths(theta)
        return log_surrogate_weights(log_p, data.log_q, config.weight_cap)

    return log_weights


def _likelihoods_at_once(
    policy: Policy, data: SurrogateData, config: SurrogateConfig
) -> Callable[[Array], Array]:
    """θ ↦ log-likelihoods (N, K), all steps in one piece."""
    columns = tuple(_flatten_steps(array).T for array in (data.observations, data.actions))  # (F, N·T)

    def of_paths(theta: Array) -> Array:
        log_pi = -0.5 * _distances(policy, config, theta, *columns).reshape(data.step_counts.shape)
        return _sum_log_densities(log_pi, data.step_counts, config)

    return of_paths


def _likelihoods_one_by_one(
    policy: Policy, data: SurrogateData, config: SurrogateConfig
) -> Callable[[Array], Array]:
    """θ ↦ log-likelihoods (N, K), trajectory by trajectory; what the gradient needs is computed again."""
    stacked = tuple(array.transpose(0, 2, 1) for array in (data.observations, data.actions))  # (N, F, T)
    distances = partial(_distances, policy, config)

    def of_paths(theta: Array) -> Array:
        log_pi = -0.5 * jax.lax.map(lambda one: jax.checkpoint(distances)(theta, *one), stacked)
        return _sum_log_densities(log_pi, data.step_counts, config)

    return of_paths


def _likelihoods_of_real_steps(
    policy: Policy, data: SurrogateData, real: Array, config: SurrogateConfig
) -> Callable[[Array], Array]:
    """θ ↦ log-likelihoods (N, 1) of whole paths, from the steps that count alone."""
    number, steps = data.step_counts.shape
    places = jnp.minimum(real, number * steps - 1)
    columns = tuple(_flatten_steps(array)[places].T for array in (data.observations, data.actions))  # (F, M)
    counts = jnp.where(real < number * steps, data.step_counts.reshape(-1)[places], 0.0)

    def of_paths(theta: Array) -> Array:
        log_pi = -0.5 * _distances(policy, config, theta, *columns)
        sums = jax.ops.segment_sum(counts * log_pi, places // steps, number, indices_are_sorted=True)
        return sums[:, None]

    return of_paths


def _likelihoods_by_replay(
    policy: Policy, data: SurrogateData, config: SurrogateConfig
) -> Callable[[Array], Array]:
    """θ ↦ log-likelihoods (N, K) of a policy that is played along whole paths, from their first step on."""

    def of_paths(theta: Array) -> Array:
        each = partial(_replayed_distances, policy, config, theta)
        log_pi = -0.5 * jax.vmap(each)(data.observations, data.actions, data.times)
        return _sum_log_densities(log_pi, data.step_counts, config)

    return of_paths


def _flatten_steps(array: Array) -> Array:
    """(N, T, F) as (N·T, F)."""
    return array.reshape(-1, array.shape[-1])


def log_weights(policy: Policy, theta: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """log w̃ of every trajectory and time (N, K) for the policy θ."""
    return make_log_weights_fn(policy, data, config)(theta)


def add_score_norms(
    policy: Policy, theta: Array, param_scale: Array, data: SurrogateData, config: SurrogateConfig
) -> SurrogateData:
    """The data with ‖Σₜ ∇log p̃(aₜ|sₜ; θ)‖² of every trajectory and time (N, K), for the estimator that asks for them.

    Args:
        policy: the policy class.
        theta: the policy in question, (D,).
        param_scale: the unit of each parameter in the norm, (D,).
        data: the selected trajectories.
        config: the estimator and the length-scale.
    """
    if config.estimator != "gradient_baselined":
        return data
    differentiate = jax.jacfwd if theta.size < data.log_q.shape[1] else jax.jacrev
    scores = differentiate(partial(log_likelihoods, policy), argnums=0)
    at, paths = (
        jax.lax.stop_gradient(theta),
        SubsampledTrajectory(
            data.thetas, data.observations, data.actions, data.step_counts, data.rewards, data.times
        ),
    )
    each = jax.vmap(lambda path: param_scale[None, :] * scores(at, path, config))(paths)
    return data._replace(score_norms=jnp.sum(jnp.square(each), axis=-1))


def estimate(
    log_w: Array, data: SurrogateData, return_bound: Array | float, config: SurrogateConfig
) -> Estimate:
    """Everything the data say about the policy with these weights.

    Args:
        log_w: log w̃ of every trajectory and time, (N, K).
        data: the selected trajectories.
        return_bound: ‖R‖∞ of the lower bound.
        config: the estimator and δ.

    Returns:
        Mean, variance, effective sample size, lower bound, and the normalised weights of whole paths (N,).
    """
    mean, whole = surrogate_return(log_w, data, config), log_w[:, -1]
    variance, ess, standard_error = _spread(whole, data, config)
    return Estimate(
        mean=mean,
        variance=variance,
        ess=ess,
        standard_error=standard_error,
        lower_bound=estimators.lower_bound(mean, ess, return_bound, config.delta),
        weights=estimators.normalised_weights(whole, data.counts, config.epsilon),
    )


def objective_value(
    log_w: Array,
    data: SurrogateData,
    objective_scale: Array | float,
    best: Array | float,
    config: SurrogateConfig,
) -> Array:
    """What the search maximises, in objective scales.

    Args:
        log_w: log w̃ of every trajectory and time, (N, K).
        data: the selected trajectories.
        objective_scale: the return that counts as one: ‖R‖∞, or the spread of the returns around the centre.
        best: the highest estimate of any stored policy.
        config: names the objective.
    """
    _, ess, standard_error = _spread(log_w[:, -1], data, config)
    belief = Belief(
        mean=surrogate_return(log_w, data, config) / objective_scale,
        deviation=jnp.sqrt(jnp.square(standard_error / objective_scale) + MIN_DEVIATION**2),
        ess=ess,
        best=jnp.asarray(best) / objective_scale,
        max_count=data.counts.shape[0],
    )
    return OBJECTIVES[config.objective](belief, config)


def _spread(whole: Array, data: SurrogateData, config: SurrogateConfig) -> tuple[Array, Array, Array]:
    """Variance of the return, effective sample size and standard error of the estimate, from log-weights (N,)."""
    returns, counts = data.returns, data.counts
    variance = estimators.return_variance(whole, returns, counts)
    ess = estimators.effective_sample_size(whole, counts, config.epsilon)
    of_all = estimators.return_variance(jnp.zeros_like(whole), returns, counts)
    return variance, ess, estimators.standard_error(variance, ess, of_all)


def stored_log_weights(data: SurrogateData, config: SurrogateConfig) -> Array:
    """log w̃ of every trajectory and time for every stored policy, (N, N, K), from the table."""
    return log_surrogate_weights(data.log_p, data.log_q[None], config.weight_cap)


def stored_returns(data: SurrogateData, config: SurrogateConfig) -> Array:
    """Ĵ(θᵢ) of every stored policy (N,), from the table: nothing is computed twice. −∞ for rows of padding."""
    each = jax.vmap(lambda log_w, i: surrogate_return(log_w, data.at_stored(i), config))
    of_stored = each(stored_log_weights(data, config), jnp.arange(len(data.counts)))
    return jnp.where(data.counts > 0, of_stored, -jnp.inf)


def fisher(policy: Policy, theta: Array, data: SurrogateData, config: SurrogateConfig) -> Array:
    """F = Σᵢ w̄ᵢ(θ) Σₜ Jᵀ Σ⁻¹ J / Σᵢ w̄ᵢ(θ) Hᵢ, J = ∂μ_θ(sₜ)/∂θ, (D, D): how far θ moves the evaluation policy.

    The Fisher matrix of p̃(τ|θ) per step, on the states that θ itself meets: as all that is said of θ, an average over
    the stored trajectories with its self-normalised weights, counts included.

    Args:
        policy: the policy class.
        theta: the policy in question, (D,).
        data: the selected trajectories.
        config: the length-scale, which the fit to the data may have scaled.
    """
    whole = log_weights(policy, theta, data, config)[:, -1]
    shares = estimators.normalised_weights(whole, data.counts)[:, None] * data.step_counts
    slopes = _slopes(policy, theta, data, length_scales(policy, config))
    total = jnp.einsum("t,tad,tae->de", shares.reshape(-1), slopes, slopes)
    return data.inverse_temperature * total / jnp.sum(shares)


def _slopes(policy: Policy, theta: Array, data: SurrogateData, scales: np.ndarray) -> Array:
    """∂μ_θ/∂θ of all N·T steps compared, in length-scales, (N·T, A, D)."""
    if not policy.replayed:
        jacobian = jax.jacrev(lambda point, observation: policy.act(point, observation) / scales)
        observations = data.observations.reshape(-1, data.observations.shape[-1])
        return jax.vmap(jacobian, in_axes=(None, 0))(theta, observations)

    def answers(point: Array, observations: Array, times: Array | None) -> Array:
        actions = act_along(policy, point, observations) / scales[None, :]
        return actions if times is None else actions[times]

    each = jax.vmap(jax.jacfwd(answers), in_axes=(None, 0, 0))(theta, data.observations, data.times)
    return each.reshape(-1, *each.shape[2:])


def length_scales(policy: Policy, config: SurrogateConfig) -> np.ndarray:
    """σ per action dimension (A,), in the units of the environment.

    Raises:
        ConfigError: if `surrogate.length_scale` has neither one value nor one per action dimension.
    """
    scales, action_scale = np.asarray(config.length_scale, float), np.asarray(policy.action_scale)
    require(
        len(scales) in (1, len(action_scale)),
        f"surrogate.length_scale must hold 1 value or {len(action_scale)} (one per action dimension), got "
        f"{len(scales)}",
        ConfigError,
    )
    return scales * action_scale
