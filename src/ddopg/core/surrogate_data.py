"""From selected trajectories to evidence: their table of log-likelihoods, luck of the start, length-scale."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import Config, SurrogateConfig
from ddopg.core import estimators
from ddopg.core import param_scaling as explore
from ddopg.core.log_likelihood_cache import Kind, Pairs
from ddopg.core.memory import Memory
from ddopg.core.selection import Selection
from ddopg.core.surrogate import length_scales, log_likelihoods
from ddopg.core.time_grid import View, stride_for
from ddopg.core.types import Evidence
from ddopg.policies import Policy

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
    worth: float = 1.0,
) -> tuple[Memory, Evidence]:
    """Stack the selected trajectories to N_max rows and complete their table of log-likelihoods.

    `centre` is where the length-scale is taken from the data, if it is; `unit` (D,) measures how far policies are
    apart, where the start's luck is taken from the rewards; `worth` is the unit of rewards.
    """
    rows, chosen = config.selection.size, [memory.trajectories[i] for i in selection.indices]
    stride = stride_for(memory.longest, config.surrogate.decisions)
    view = View(chosen[0].horizon, config.surrogate.decisions, stride, config.discount)
    kind = Kind(policy, config.surrogate, view, rows)
    pairs = memory.pairs if memory.pairs and memory.pairs.kind == kind else Pairs(kind)
    seats = pairs.seat(chosen, memory.size)
    stacked = pairs.stacked(seats, worth)
    pairs.complete(seats, stacked)
    places, counts = np.zeros(rows, np.int32), np.zeros(rows, np.float32)
    places[: len(seats)], counts[: len(seats)] = seats, selection.counts
    evidence = _evidence(policy, config.surrogate, centre, unit, pairs.values, places, counts, *stacked)
    return memory._replace(pairs=pairs), evidence


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
    once = np.triu_indices(len(points), 1)  # sorting all of them, each twice, would take the most of it
    some = distances[once]
    median = jnp.nanmedian(jnp.where((both[once] > 0) & (some > 0), some, jnp.nan)) if len(some) else 0.0
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
    mean = math.exp(float(np.mean(np.log(length_scales(policy, config)))))
    return mean / math.sqrt(float(np.asarray(evidence.sharpness)))


@partial(jax.jit, static_argnames=("policy", "config"))
def _evidence(
    policy: Policy,
    config: SurrogateConfig,
    centre: Array,
    unit: Array,
    pairs: Array,
    places: Array,
    counts: Array,
    thetas: Array,
    observations: Array,
    actions: Array,
    lived: Array,
    rewards: Array,
) -> Evidence:
    table = pairs[places[:, None], places[None, :]]  # a row of padding repeats some other and counts 0 times
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
