"""From selected trajectories to evidence: stacked arrays, table of log-likelihoods, length-scale from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg import estimators, explore
from ddopg.config import Config, SurrogateConfig
from ddopg.data import Evidence, Trajectory
from ddopg.memory import Memory, Pairs, Selection, seat
from ddopg.policies import Policy
from ddopg.surrogate import length_scales, log_likelihoods

PAIRS_AT_ONCE = 128  # one compiled program computes this many (policy, trajectory) pairs
STRENGTH_OF_MERIT = 10.0  # prior variance of what policies explain, relative to the noise of a single rollout
WIDTH = 0.3  # of the kernel between policies, in median squared distances
SOFTEST, SHARPEST = 1e-6, 1e8  # the range in which the length-scale from the data is looked for


def prepare(
    memory: Memory,
    selection: Selection,
    centre: np.ndarray,
    unit: np.ndarray,
    policy: Policy,
    config: Config,
) -> tuple[Memory, Evidence]:
    """Stack the selected trajectories to N_max rows and complete their table of log-likelihoods.

    `centre` is where the length-scale is taken from the data, if it is; `unit` (D,) measures how far policies are
    apart, where the start's luck is taken from the rewards.
    """
    rows, decisions = config.selection.size, config.surrogate.decisions
    stride = stride_for(memory.longest, decisions)
    chosen = [memory.trajectories[i] for i in selection.indices]
    stacked = stack(chosen, rows, decisions, stride, config.discount)
    known = memory.pairs if memory.pairs.stride == stride else Pairs(stride=stride)
    pairs, seats = seat(known, selection.indices, memory.size, stacked.rewards.shape[-1])
    pairs = _complete(pairs, seats, policy, config.surrogate, *stacked[:4])
    table = np.zeros((rows, rows, stacked.rewards.shape[-1]), np.float32)
    table[: len(seats), : len(seats)] = pairs.values[np.ix_(seats, seats)]
    counts = np.zeros(rows, np.float32)
    counts[: len(seats)] = selection.counts
    evidence = _evidence(policy, config.surrogate, centre, unit, table, counts, *stacked)
    return memory._replace(pairs=pairs), evidence


class Stacked(NamedTuple):
    """Trajectories as rows of arrays; rows of padding are dead from the start."""

    thetas: np.ndarray  # (N, D)
    observations: np.ndarray  # (N, T, O)
    actions: np.ndarray  # (N, T, A)
    lived: np.ndarray  # (N, T)
    rewards: np.ndarray  # (N, K)


def stack(
    trajectories: Sequence[Trajectory], rows: int, decisions: int, stride: int, discount: float
) -> Stacked:
    """Whole paths (T = H, K = 1), or their actions at the `comparison_times` only (T = K ≤ `decisions`)."""
    horizon = trajectories[0].horizon
    times = comparison_times(horizon, decisions, stride)
    edges = np.append(times, horizon)
    spans = edges if decisions else np.array([0, horizon])
    weights = discount ** np.arange(horizon)

    def padded(arrays: list[np.ndarray]) -> np.ndarray:
        out = np.zeros((rows, *arrays[0].shape), arrays[0].dtype)
        out[: len(arrays)] = arrays
        return out

    def between(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
        return np.diff(np.append(0.0, np.cumsum(values))[edges]).astype(np.float32)

    return Stacked(
        thetas=padded([t.theta for t in trajectories]),
        observations=padded([t.observations[np.minimum(times, horizon - 1)] for t in trajectories]),
        actions=padded([t.actions[np.minimum(times, horizon - 1)] for t in trajectories]),
        lived=padded([between(t.alive, edges) for t in trajectories]),
        rewards=padded([between(weights * t.rewards, spans) for t in trajectories]),
    )


def comparison_times(horizon: int, decisions: int, stride: int) -> np.ndarray:
    """When actions are compared: at every one of the first `decisions`/2 steps, then at every `stride`-th.

    A failure of a few steps must not be judged by its first action alone, nor a long episode cost more than a
    short one. Times beyond the horizon are cut to it: nothing is alive there.
    """
    if not decisions:
        return np.arange(horizon)
    number, dense = min(decisions, horizon), decisions // 2
    late = dense + stride * np.arange(max(0, number - dense))
    return np.minimum(np.concatenate([np.arange(min(dense, number)), late]), horizon)


def stride_for(longest: int, decisions: int) -> int:
    """The stride of the later comparisons at which the longest episode so far has at most `decisions` of them."""
    late = decisions - decisions // 2
    return max(1, math.ceil((longest - decisions // 2) / late)) if decisions else 1


def numbers_per_pair(config: Config, horizon: int) -> int:
    """K: one per compared time, or one for the whole path."""
    return min(config.surrogate.decisions, horizon) or 1


def without_start_effect(rewards: Array, starts: Array, policies: Array, counts: Array) -> Array:
    """Rewards (N, K) without what a linear function of the first observation (N, O) explains of them.

    Luck of the start is not merit of the policy, and merit (a smooth function of the `policies` (N, D) in units) is
    not luck: the rewards of each stretch of time are explained by neither, by one or by both of them, whichever
    predicts left-out trajectories best, and the part of the start is taken away. Early rewards, on which policies
    have had little influence, show the luck most clearly.
    """
    w = (counts > 0).astype(rewards.dtype)[:, None]
    x, y = _standardised(starts, w), w * (rewards - jnp.sum(w * rewards, 0, keepdims=True) / jnp.sum(w))
    luck, merit = x @ x.T, STRENGTH_OF_MERIT * similarity(policies, w)
    noise = jnp.eye(len(w), dtype=x.dtype) + w * w.T  # of each rollout, and of the mean of them all

    def explain(by_start: Array, by_policy: Array) -> tuple[Array, Array]:
        inverse = jnp.linalg.inv(noise + by_start * luck + by_policy * merit)
        left_out = inverse @ y / jnp.diag(inverse)[:, None]  # errors of predicting a row from the others
        return by_start * (luck @ (inverse @ y)), jnp.sum(jnp.square(left_out), 0)

    choices = jnp.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]], x.dtype)
    parts, errors = jax.vmap(explain)(*choices)
    best = jnp.argmin(errors, axis=0)
    return rewards - jnp.take_along_axis(parts, best[None, None, :], axis=0)[0]


def similarity(points: Array, real: Array) -> Array:
    """exp(−‖zᵢ − zⱼ‖² / (2 · WIDTH · median of them)), (N, N), 0 for rows that are not `real` (N, 1)."""
    both = real * real.T
    distances = jnp.sum(jnp.square(points[:, None] - points[None, :]), axis=-1)
    median = jnp.nanmedian(jnp.where((both > 0) & (distances > 0), distances, jnp.nan))
    return both * jnp.exp(-distances / (2 * WIDTH * jnp.where(median > 0, median, 1.0)))


def _standardised(values: Array, real: Array) -> Array:
    """Columns of mean 0 and variance 1 over the real rows; a column without variance is 0."""
    number = jnp.sum(real)
    x = real * (values - jnp.sum(real * values, 0, keepdims=True) / number)
    deviation = jnp.sqrt(jnp.sum(jnp.square(x), 0, keepdims=True) / number)
    return jnp.where(deviation > 0, x / jnp.where(deviation > 0, deviation, 1.0), 0.0)


def sharpness_for_ess(log_p: Array, at: Array, counts: Array, share: float) -> Array:
    """The factor c on all log-likelihoods at which the policy with log-likelihoods `at` (N,) has ESS = `share` · N.

    The length-scale from the data: σ = 1/√c. A larger c makes policies stranger to each other and ESS smaller, so
    c is found by bisection of log c. Row i of `log_p` (N, N): policy i on every trajectory.
    """

    def ess(c: Array) -> Array:
        return estimators.effective_sample_size(c * at - estimators.log_mixture(c * log_p, counts), counts)

    def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        wide = ess(jnp.exp(middle)) > share * jnp.sum(counts)
        return jnp.where(wide, middle, low), jnp.where(wide, high, middle)

    low, high = jax.lax.fori_loop(0, 30, halve, (jnp.log(SOFTEST), jnp.log(SHARPEST)))
    return jnp.exp((low + high) / 2)


def length_scale_in_use(policy: Policy, evidence: Evidence, config: SurrogateConfig) -> float:
    """√Σ after its fit to the data; the geometric mean over the actions."""
    scales = length_scales(policy, config) / math.sqrt(float(evidence.sharpness))
    return float(np.exp(np.mean(np.log(scales))))


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
    lived: Array,
) -> Array:
    each = jax.vmap(partial(log_likelihoods, policy, config=config))
    return each(thetas[i], observations[j], actions[j], lived[j])


@partial(jax.jit, static_argnames=("policy", "config"))
def _evidence(
    policy: Policy,
    config: SurrogateConfig,
    centre: Array,
    unit: Array,
    table: Array,
    counts: Array,
    thetas: Array,
    observations: Array,
    actions: Array,
    lived: Array,
    rewards: Array,
) -> Evidence:
    sharpness = jnp.ones((), table.dtype)
    if config.ess_share:
        at = jax.vmap(partial(log_likelihoods, policy, centre, config=config))(observations, actions, lived)
        sharpness = sharpness_for_ess(table[..., -1], at[..., -1], counts, config.ess_share)
    if config.start_correction:
        rewards = without_start_effect(
            rewards, observations[:, 0], explore.in_units(thetas, unit[None, :]), counts
        )
    mixture = jax.vmap(partial(estimators.log_mixture, epsilon=config.epsilon), in_axes=(2, None), out_axes=1)
    log_q = mixture(sharpness * table, counts)
    return Evidence(
        thetas, observations, actions, lived, rewards, sharpness * table, log_q, counts, sharpness
    )
