"""The surrogate model of the return: importance weights of deterministic trajectories under a length-scale.

`prepare` turns selected trajectories into `Evidence`; `estimate` says what that evidence tells about a policy;
`OBJECTIVES` are what the search may maximise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

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
    policy: Policy, theta: Array, observations: Array, actions: Array, alive: Array, config: SurrogateConfig
) -> Array:
    """log Πₜ N(aₜ | μ_θ(sₜ), Σ) of one trajectory, up to a constant of that trajectory: of the whole path (1,), or of
    each of its beginnings (K,).

    The constant −½ log|2πΣ| per step cancels in Eq. (15); adding it would only cost float32 digits.
    """
    scales = length_scales(policy, config, actions.shape[-1])

    def log_kernel(observation: Array, action: Array) -> Array:
        z = (action - policy.act(theta, observation)) / scales
        return -0.5 * jnp.sum(jnp.square(z))

    log_pi = jax.vmap(log_kernel)(observations, actions)
    if config.decisions:
        return estimators.log_prefix_likelihoods(log_pi, alive)
    return estimators.log_trajectory_likelihood(log_pi, alive)[None]


def log_surrogate_weights(log_p: Array, log_q: Array) -> Array:
    """log w̃(τᵢ, θ) = log Πₜ N(aₜ|μ_θ(sₜ), Σ) − log 1/N Σⱼ Πₜ N(aₜ|μ_θⱼ(sₜ), Σ).  Eq. (15), eq:SurrogateWeights."""
    return log_p - log_q


def surrogate_return(log_w: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    """Ĵ_surr(θ) = 1/Z Σᵢ w̃(τᵢ, θ) R(τᵢ), Z = N or Z = Σᵢ w̃.  Eq. (14), eq:SurrogateModel.

    With K > 1 weights per trajectory, the sum of this over the K stretches of reward.
    """
    if config.normalisation == "count":
        plain = jax.vmap(estimators.importance_sampling_return, in_axes=(1, 1, None))
        return jnp.sum(plain(log_w, evidence.rewards, evidence.counts))
    return estimators.per_decision_return(log_w, evidence.rewards, evidence.counts, config.epsilon)


def estimate(
    policy: Policy, theta: Array, evidence: Evidence, return_bound: Array | float, config: SurrogateConfig
) -> Estimate:
    """Everything the evidence says about θ: mean, variance, ESS, lower bound, weights."""
    log_w = _log_weights(policy, theta, evidence, config)
    mean, whole = surrogate_return(log_w, evidence, config), log_w[:, -1]
    ess = estimators.effective_sample_size(whole, evidence.counts, config.epsilon)
    return Estimate(
        mean=mean,
        variance=estimators.return_variance(whole, evidence.returns, evidence.counts),
        ess=ess,
        lower_bound=estimators.lower_bound(mean, ess, return_bound, config.delta),
        weights=estimators.normalised_weights(whole, evidence.counts, config.epsilon),
    )


def objective(
    policy: Policy, theta: Array, evidence: Evidence, return_bound: Array | float, config: SurrogateConfig
) -> Array:
    """What the search maximises, in units of ‖R‖∞."""
    log_w = _log_weights(policy, theta, evidence, config)
    mean = surrogate_return(log_w, evidence, config) / return_bound
    ess = estimators.effective_sample_size(log_w[:, -1], evidence.counts, config.epsilon)
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


def length_scales(policy: Policy, config: SurrogateConfig, action_size: int) -> np.ndarray:
    """σ per action dimension (A,), in the units of the environment."""
    scales = np.asarray(config.length_scale, float)
    require(
        len(scales) in (1, action_size),
        f"surrogate.length_scale must hold 1 value or {action_size} (one per action dimension), "
        f"got {len(scales)}",
        ConfigError,
    )
    return np.broadcast_to(scales, (action_size,)) * np.broadcast_to(
        np.asarray(policy.unit, float), (action_size,)
    )


def prepare(
    memory: Memory,
    selection: Selection,
    rows: int,
    policy: Policy,
    config: SurrogateConfig,
    discount: float = 1.0,
) -> tuple[Memory, Evidence]:
    """Stack the selected trajectories to `rows` rows and complete their table of log-likelihoods."""
    stacked = stack([memory.trajectories[i] for i in selection.indices], rows, config.decisions, discount)
    pairs, seats = seat(memory.pairs, selection.indices, memory.size, stacked.rewards.shape[-1])
    pairs = _complete(pairs, seats, policy, config, *stacked[:4])
    log_p = np.zeros((rows, rows, stacked.rewards.shape[-1]), np.float32)
    log_p[: len(seats), : len(seats)] = pairs.values[np.ix_(seats, seats)]
    counts = np.zeros(rows, np.float32)
    counts[: len(seats)] = selection.counts
    log_q, sharpness = _mixture(log_p, counts, config)
    evidence = Evidence(*map(jnp.asarray, (*stacked[1:], log_q, counts, sharpness)))
    return memory._replace(pairs=pairs), evidence


class Stacked(NamedTuple):
    """Trajectories as rows of arrays; rows of padding are dead from the start."""

    thetas: np.ndarray  # (N, D)
    observations: np.ndarray  # (N, T, O)
    actions: np.ndarray  # (N, T, A)
    alive: np.ndarray  # (N, T)
    rewards: np.ndarray  # (N, K)


def stack(trajectories: Sequence[Trajectory], rows: int, decisions: int, discount: float) -> Stacked:
    """Whole paths (T = H, K = 1), or thinned to the first step of each of about `decisions` stretches (T = K)."""
    horizon = trajectories[0].horizon
    stride = math.ceil(horizon / decisions) if decisions else 1
    stretch = stride if decisions else horizon
    starts = np.arange(0, horizon, stretch)
    weights = discount ** np.arange(horizon)

    def padded(arrays: list[np.ndarray]) -> np.ndarray:
        out = np.zeros((rows, *arrays[0].shape), arrays[0].dtype)
        out[: len(arrays)] = arrays
        return out

    return Stacked(
        thetas=padded([t.theta for t in trajectories]),
        observations=padded([t.observations[::stride] for t in trajectories]),
        actions=padded([t.actions[::stride] for t in trajectories]),
        alive=padded([t.alive[::stride] for t in trajectories]),
        rewards=padded(
            [np.add.reduceat(weights * t.rewards, starts).astype(np.float32) for t in trajectories]
        ),
    )


def sharpness_for_ess(log_p: Array, counts: Array, share: float) -> Array:
    """The factor c on log_p (N, N) at which the policies of the sample have a mean ESS of `share` · N.

    The length-scale from the data: σ = 1/√c. A larger c makes policies stranger to each other and ESS smaller,
    so the factor is found by bisection of log c.
    """
    number = jnp.sum(counts)

    def mean_ess(c: Array) -> Array:
        log_w = c * log_p - estimators.log_mixture(c * log_p, counts)[None, :]
        ess = jax.vmap(estimators.effective_sample_size, in_axes=(0, None))(log_w, counts)
        return jnp.sum(counts * ess) / number

    def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        wide = mean_ess(jnp.exp(middle)) > share * number
        return jnp.where(wide, middle, low), jnp.where(wide, high, middle)

    low, high = jax.lax.fori_loop(0, 30, halve, (jnp.log(1e-6), jnp.log(1e8)))
    return jnp.exp((low + high) / 2)


def _log_weights(policy: Policy, theta: Array, evidence: Evidence, config: SurrogateConfig) -> Array:
    each = jax.vmap(partial(log_likelihoods, policy, theta, config=config))
    log_p = evidence.sharpness * each(evidence.observations, evidence.actions, evidence.alive)
    return log_surrogate_weights(log_p, evidence.log_q)


def _complete(
    pairs: Pairs, seats: np.ndarray, policy: Policy, config: SurrogateConfig, *stacked: np.ndarray
) -> Pairs:
    """Compute the pairs of these seats that are not known yet: usually one new row and one new column."""
    policies, trajectories = np.nonzero(np.isnan(pairs.values[np.ix_(seats, seats)][..., -1]))
    for start in range(0, len(policies), PAIRS_AT_ONCE):
        i = policies[start : start + PAIRS_AT_ONCE]
        j = trajectories[start : start + PAIRS_AT_ONCE]
        values = _pair_log_likelihoods(policy, config, _fill(i), _fill(j), *stacked)
        pairs.values[seats[i], seats[j]] = np.asarray(values)[: len(i)]
    return pairs


def _fill(indices: np.ndarray) -> np.ndarray:
    return np.pad(indices, (0, PAIRS_AT_ONCE - len(indices)))


@partial(jax.jit, static_argnames=("policy", "config"))
def _pair_log_likelihoods(
    policy: Policy,
    config: SurrogateConfig,
    i: Array,
    j: Array,
    thetas: Array,
    observations: Array,
    actions: Array,
    alive: Array,
) -> Array:
    each = jax.vmap(partial(log_likelihoods, policy, config=config))
    return each(thetas[i], observations[j], actions[j], alive[j])


@partial(jax.jit, static_argnames="config")
def _mixture(log_p: Array, counts: Array, config: SurrogateConfig) -> tuple[Array, Array]:
    """log q of every path and time, and the sharpness it was computed with."""
    sharpness = jnp.ones((), log_p.dtype)
    if config.ess_share:
        sharpness = sharpness_for_ess(log_p[..., -1], counts, config.ess_share)
    mixture = jax.vmap(partial(estimators.log_mixture, epsilon=config.epsilon), in_axes=(2, None), out_axes=1)
    return mixture(sharpness * log_p, counts), sharpness
