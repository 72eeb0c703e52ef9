"""The surrogate model of the return: importance weights of deterministic trajectories under a length-scale.

`prepare` turns selected trajectories into `Evidence`; `estimate` says what that evidence tells about a policy;
`OBJECTIVES` are what the search may maximise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg import estimators
from ddopg.config import SurrogateConfig
from ddopg.data import Estimate, Evidence, Trajectory
from ddopg.errors import ConfigError, require
from ddopg.memory import Memory, Pairs, Selection, seat
from ddopg.policies import Policy

PAIRS_AT_ONCE = 64  # one compiled program computes this many (policy, trajectory) pairs


def evaluation_log_density(action: Array, mean: Array, length_scale: Array) -> Array:
    """log p̃(aₜ|sₜ; θ) = log N(aₜ | μ_θ(sₜ), Σ), Σ = diag(σ²).  Eq. (13), eq:EvaluationPolicy."""
    z = (action - mean) / length_scale
    return -0.5 * jnp.sum(jnp.square(z) + jnp.log(2 * jnp.pi * jnp.square(length_scale)), axis=-1)


def log_likelihoods(
    policy: Policy,
    theta: Array,
    observations: Array,
    actions: Array,
    alive: Array,
    length_scale: Array | np.ndarray,
) -> Array:
    """log Πₜ N(aₜ | μ_θ(sₜ), Σ) of each trajectory (…,), up to a constant of that trajectory.

    The constant −½ log|2πΣ| per step cancels in Eq. (15); adding it would only cost float32 digits.
    """

    def log_kernel(observation: Array, action: Array) -> Array:
        z = (action - policy.act(theta, observation)) / length_scale
        return -0.5 * jnp.sum(jnp.square(z))

    for _ in range(observations.ndim - 1):
        log_kernel = jax.vmap(log_kernel)
    return estimators.log_trajectory_likelihood(log_kernel(observations, actions), alive)


def log_surrogate_weights(log_p: Array, log_q: Array) -> Array:
    """log w̃(τᵢ, θ) = log Πₜ N(aₜ|μ_θ(sₜ), Σ) − log 1/N Σⱼ Πₜ N(aₜ|μ_θⱼ(sₜ), Σ).  Eq. (15), eq:SurrogateWeights."""
    return log_p - log_q


def surrogate_return(log_w: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    """Ĵ_surr(θ) = 1/Z Σᵢ w̃(τᵢ, θ) R(τᵢ), Z = N or Z = Σᵢ w̃.  Eq. (14), eq:SurrogateModel."""
    if config.normalisation == "count":
        return estimators.importance_sampling_return(log_w, evidence.returns, evidence.counts)
    return estimators.weighted_importance_sampling_return(
        log_w, evidence.returns, evidence.counts, config.epsilon
    )


def estimate(
    policy: Policy, theta: Array, evidence: Evidence, return_bound: Array | float, config: SurrogateConfig
) -> Estimate:
    """Everything the evidence says about θ: mean, variance, ESS, lower bound, weights."""
    log_w = _log_weights(policy, theta, evidence, config)
    mean = surrogate_return(log_w, evidence, config)
    ess = estimators.effective_sample_size(log_w, evidence.counts, config.epsilon)
    return Estimate(
        mean=mean,
        variance=estimators.return_variance(log_w, evidence.returns, evidence.counts),
        ess=ess,
        lower_bound=estimators.lower_bound(mean, ess, return_bound, config.delta),
        weights=estimators.normalised_weights(log_w, evidence.counts, config.epsilon),
    )


def objective(
    policy: Policy, theta: Array, evidence: Evidence, return_bound: Array | float, config: SurrogateConfig
) -> Array:
    """What the search maximises, in units of ‖R‖∞."""
    log_w = _log_weights(policy, theta, evidence, config)
    mean = surrogate_return(log_w, evidence, config) / return_bound
    ess = estimators.effective_sample_size(log_w, evidence.counts, config.epsilon)
    return OBJECTIVES[config.objective](mean, ess, evidence.counts.shape[0], config)


def penalised(mean: Array, ess: Array, size: int, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ γ √(1/ESS): the objective of Algorithm 1, its penalty being Eq. (20)."""
    return mean + estimators.penalty(ess, 1.0, config.penalty)


def confident(mean: Array, ess: Array, size: int, config: SurrogateConfig) -> Array:
    """Ĵ − ‖R‖∞ √((1−δ)/(δ ESS)): the lower bound of Eq. (19) itself."""
    return estimators.lower_bound(mean, ess, 1.0, config.delta)


def rewarded_by_ess(mean: Array, ess: Array, size: int, config: SurrogateConfig) -> Array:
    """Ĵ/‖R‖∞ + γ ESS/N_max: the released code's objective, a linear bonus instead of a root penalty."""
    return mean + config.penalty * ess / size


OBJECTIVES: dict[str, Callable[..., Array]] = {
    "penalty": penalised,
    "lower_bound": confident,
    "ess_bonus": rewarded_by_ess,
}


def length_scales(config: SurrogateConfig, action_size: int) -> np.ndarray:
    """σ per action dimension, (A,)."""
    scales = np.asarray(config.length_scale, float)
    require(
        len(scales) in (1, action_size),
        f"surrogate.length_scale must hold 1 value or {action_size} (one per action dimension), "
        f"got {len(scales)}",
        ConfigError,
    )
    return np.broadcast_to(scales, (action_size,))


def prepare(
    memory: Memory, selection: Selection, rows: int, policy: Policy, config: SurrogateConfig
) -> tuple[Memory, Evidence]:
    """Stack the selected trajectories to `rows` rows and complete their table of log-likelihoods."""
    chosen = [memory.trajectories[i] for i in selection.indices]
    thetas, observations, actions, alive = stack(chosen, rows)
    scales = length_scales(config, actions.shape[-1])
    pairs, seats = seat(memory.pairs, selection.indices, now=memory.size)
    pairs = _complete(pairs, seats, policy, thetas, observations, actions, alive, scales)
    log_p, counts = np.zeros((rows, rows), np.float32), np.zeros(rows, np.float32)
    log_p[: len(seats), : len(seats)] = pairs.values[np.ix_(seats, seats)]
    counts[: len(seats)] = selection.counts
    returns = np.zeros(rows, np.float32)
    returns[: len(seats)] = [memory.returns[i] for i in selection.indices]
    log_q = _log_mixture(log_p, counts, config.epsilon)
    evidence = Evidence(*map(jnp.asarray, (observations, actions, alive, returns, log_q, counts)))
    return memory._replace(pairs=pairs), evidence


def stack(trajectories: Sequence[Trajectory], rows: int) -> tuple[np.ndarray, ...]:
    """θ (rows, D), observations (rows, H, O), actions (rows, H, A), alive (rows, H); padding is dead."""

    def padded(name: str) -> np.ndarray:
        first = getattr(trajectories[0], name)
        out = np.zeros((rows, *first.shape), first.dtype)
        for row, trajectory in zip(out, trajectories, strict=False):
            row[...] = getattr(trajectory, name)
        return out

    return tuple(padded(name) for name in ("theta", "observations", "actions", "alive"))


def _log_weights(policy: Policy, theta: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    scales = length_scales(config, evidence.actions.shape[-1])
    log_p = log_likelihoods(policy, theta, evidence.observations, evidence.actions, evidence.alive, scales)
    return log_surrogate_weights(log_p, evidence.log_q)


def _complete(pairs: Pairs, seats: np.ndarray, policy: Policy, *stacked: Any) -> Pairs:
    """Compute the pairs of these seats that are not known yet: usually one new row and one new column."""
    policies, trajectories = np.nonzero(np.isnan(pairs.values[np.ix_(seats, seats)]))
    for start in range(0, len(policies), PAIRS_AT_ONCE):
        i = policies[start : start + PAIRS_AT_ONCE]
        j = trajectories[start : start + PAIRS_AT_ONCE]
        values = _pair_log_likelihoods(policy, _fill(i), _fill(j), *stacked)
        pairs.values[seats[i], seats[j]] = np.asarray(values)[: len(i)]
    return pairs


def _fill(indices: np.ndarray) -> np.ndarray:
    return np.pad(indices, (0, PAIRS_AT_ONCE - len(indices)))


@partial(jax.jit, static_argnames="policy")
def _pair_log_likelihoods(
    policy: Policy,
    i: Array,
    j: Array,
    thetas: Array,
    observations: Array,
    actions: Array,
    alive: Array,
    scales: Array,
) -> Array:
    one = partial(log_likelihoods, policy)
    each = jax.vmap(one, in_axes=(0, 0, 0, 0, None))
    return each(thetas[i], observations[j], actions[j], alive[j], scales)


_log_mixture = jax.jit(estimators.log_mixture, static_argnames="epsilon")
