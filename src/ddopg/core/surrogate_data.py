"""From selected trajectories to surrogate data: their log-likelihoods, the length-scale, the rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import Config, SurrogateConfig
from ddopg.core import estimators
from ddopg.core.control_variate import judge_paths, make_control_variate, make_values_fn, sum_over_stretches
from ddopg.core.critic import Critic
from ddopg.core.log_likelihood_cache import CacheKey, LogLikelihoodCache
from ddopg.core.memory import Memory
from ddopg.core.param_scaling import scale_params
from ddopg.core.selection import Selection
from ddopg.core.surrogate import length_scales, log_likelihoods
from ddopg.core.time_grid import SubsampledTrajectory, TimeGrid, choose_stride, cut_replayed, find_real_steps
from ddopg.core.types import ControlVariate, HostOrDevice, SurrogateData, Trajectory
from ddopg.policies import Policy

POLICY_EFFECT_VARIANCE = (
    10.0  # prior variance of what policies explain, relative to the noise of a single rollout
)
KERNEL_WIDTH = 0.3  # of the kernel between policies, in median squared distances
MIN_FACTOR, MAX_FACTOR = 1e-6, 1e8  # the range in which the inverse temperature is looked for


class Sample(NamedTuple):
    """Which trajectories the surrogate rests on, and the scales in which they are measured."""

    selection: Selection
    param_scale: np.ndarray  # (D,) how far policies are apart
    reward_scale: float  # 1, unless rewards are of an extraordinary size


class Inputs(NamedTuple):
    """What the compiled program of `prepare` takes."""

    centre: HostOrDevice  # (D,)
    param_scale: HostOrDevice  # (D,)
    table: HostOrDevice  # (W, W, K) log-likelihoods of the cache
    slots: HostOrDevice  # (N,) of the selected trajectories; any for rows of padding
    counts: HostOrDevice  # (N,)
    paths: SubsampledTrajectory  # stacked, N rows
    contexts: HostOrDevice | None = None  # (N, C) what the world fixed for each rollout, where that is told
    control: ControlVariate | None = None  # without what it says of these paths


def prepare(
    memory: Memory,
    sample: Sample,
    centre: np.ndarray,
    policy: Policy,
    config: Config,
    cache: LogLikelihoodCache | None = None,
    critic: Critic | None = None,
) -> tuple[SurrogateData, LogLikelihoodCache]:
    """Stack the selected trajectories to N_max rows and complete their table of log-likelihoods.

    Args:
        memory: every trajectory.
        sample: the selected ones, and the scales.
        centre: where the length-scale is taken from the data, if it is, (D,).
        policy: the policy class.
        config: the whole configuration.
        cache: what was computed before; one that does not fit is not used.
        critic: the control variate, where the estimator has one.

    Returns:
        The data, and the cache to hand in next time.
    """
    rows, selection = config.selection.size, sample.selection
    chosen = [memory.trajectories[i] for i in selection.indices]
    decisions = config.surrogate.decisions
    stride = choose_stride(memory.longest, decisions)
    grid = TimeGrid(chosen[0].horizon, decisions, stride, config.discount, policy.remembers)
    key = CacheKey(policy, config.surrogate, grid, rows)
    if cache is None or cache.key != key:
        cache = LogLikelihoodCache(key)
    slots = cache.assign_slots(chosen, memory.size)
    paths = cache.stack(slots, sample.reward_scale)
    cache.complete(slots, paths)
    padded, counts = np.zeros(rows, np.int32), np.zeros(rows, np.float32)
    padded[: len(slots)], counts[: len(slots)] = slots, selection.counts
    if policy.replayed:
        paths, real = cut_replayed(paths, grid), None
    else:
        real = find_real_steps(paths, grid)
    contexts = _stack_contexts(chosen, rows)
    control = None if critic is None else make_control_variate(critic, memory, grid, sample.reward_scale)
    inputs = Inputs(centre, sample.param_scale, cache.values, padded, counts, paths, contexts, control)
    return _surrogate_data(inputs, policy, config.surrogate)._replace(real=real), cache


def subtract_initial_state_effect(rewards: Array, starts: Array, policies: Array, counts: Array) -> Array:
    """Rewards (N, K) without what a linear function of the situation explains of them: the start, a context.

    What the start explains is not due to the policy, and what the policy explains (a smooth function of its
    parameters) is not due to the start: the rewards of each stretch of time are explained by neither, by one or by
    both of them, whichever predicts left-out trajectories best, and the part of the start is subtracted. Early
    rewards, on which policies have had little influence, show the effect of the start most clearly.

    Args:
        rewards: of each trajectory and stretch of time, (N, K).
        starts: what the world decided of each trajectory: its first observation, its context, or both, (N, O + C).
        policies: parameters in the parameter scale, (N, D).
        counts: 0 marks a padding row, (N,).
    """
    w = (counts > 0).astype(rewards.dtype)[:, None]
    x, y = _standardise(starts, w), w * (rewards - jnp.sum(w * rewards, 0, keepdims=True) / jnp.sum(w))
    start_kernel, policy_kernel = x @ x.T, POLICY_EFFECT_VARIANCE * similarity(policies, w)
    noise = jnp.eye(len(w), dtype=x.dtype) + w * w.T  # of each rollout, and of the mean of them all

    def explain(by_start: Array, by_policy: Array) -> tuple[Array, Array]:
        inverse = jnp.linalg.inv(noise + by_start * start_kernel + by_policy * policy_kernel)
        left_out = inverse @ y / jnp.diag(inverse)[:, None]  # errors of predicting a row from the others
        return by_start * (start_kernel @ (inverse @ y)), jnp.sum(jnp.square(left_out), 0)

    choices = jnp.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]], x.dtype)
    parts, errors = jax.vmap(explain)(*choices)
    best = jnp.argmin(errors, axis=0)
    return rewards - jnp.take_along_axis(parts, best[None, None, :], axis=0)[0]


def _stack_contexts(chosen: Sequence[Trajectory], rows: int) -> np.ndarray | None:
    """The contexts padded to `rows` rows; None where there are none."""
    size = chosen[0].context.size
    if size == 0:
        return None
    padded = np.zeros((rows, size), np.float32)
    padded[: len(chosen)] = [trajectory.context for trajectory in chosen]
    return padded


def similarity(points: Array, real: Array) -> Array:
    """exp(−‖zᵢ − zⱼ‖² / (2 · KERNEL_WIDTH · median of them)), (N, N), 0 for rows that are not `real` (N, 1)."""
    both = real * real.T
    distances = jnp.sum(jnp.square(points[:, None] - points[None, :]), axis=-1)
    once = np.triu_indices(len(points), 1)  # sorting all of them, each twice, would take the most of it
    some = distances[once]
    median = jnp.nanmedian(jnp.where((both[once] > 0) & (some > 0), some, jnp.nan)) if len(some) else 0.0
    return both * jnp.exp(-distances / (2 * KERNEL_WIDTH * jnp.where(median > 0, median, 1.0)))


def _standardise(values: Array, real: Array) -> Array:
    """Columns of mean 0 and variance 1 over the real rows; a column without variance is 0."""
    number = jnp.sum(real)
    x = real * (values - jnp.sum(real * values, 0, keepdims=True) / number)
    deviation = jnp.sqrt(jnp.sum(jnp.square(x), 0, keepdims=True) / number)
    return jnp.where(deviation > 0, x / jnp.where(deviation > 0, deviation, 1.0), 0.0)


def fit_inverse_temperature(log_p: Array, at: Array, counts: Array, share: float) -> Array:
    """The factor c on all log-likelihoods at which a policy has ESS = `share` · N; the length-scale is then 1/√c.

    A larger c makes policies stranger to each other and ESS smaller, so c is found by bisection of log c.

    Args:
        log_p: log-likelihoods of every trajectory (column) under every stored policy (row), (N, N).
        at: log-likelihoods of every trajectory under the policy in question, (N,).
        counts: how often each trajectory was drawn, (N,).
        share: the effective sample size wanted, as a share of the draws.
    """

    def ess(c: Array) -> Array:
        return estimators.effective_sample_size(c * at - estimators.log_mixture(c * log_p, counts), counts)

    def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        wide = ess(jnp.exp(middle)) > share * jnp.sum(counts)
        return jnp.where(wide, middle, low), jnp.where(wide, high, middle)

    low, high = jax.lax.fori_loop(0, 30, halve, (jnp.log(MIN_FACTOR), jnp.log(MAX_FACTOR)))
    return jnp.exp((low + high) / 2)


def length_scale_in_use(policy: Policy, data: SurrogateData, config: SurrogateConfig) -> float:
    """√Σ after its fit to the data; the geometric mean over the actions."""
    mean = math.exp(float(np.mean(np.log(length_scales(policy, config)))))
    return mean / math.sqrt(float(np.asarray(data.inverse_temperature)))


@partial(jax.jit, static_argnames=("policy", "config"))
def _surrogate_data(inputs: Inputs, policy: Policy, config: SurrogateConfig) -> SurrogateData:
    paths, slots, counts = inputs.paths, inputs.slots, inputs.counts
    log_p = inputs.table[
        slots[:, None], slots[None, :]
    ]  # a row of padding repeats some other and counts 0 times
    inverse_temperature = jnp.ones((), log_p.dtype)
    rewards = paths.rewards
    control = None if inputs.control is None else judge_paths(inputs.control, paths, policy)
    if config.ess_share:
        at = jax.vmap(partial(log_likelihoods, policy, inputs.centre, config=config))(paths)
        inverse_temperature = fit_inverse_temperature(log_p[..., -1], at[..., -1], counts, config.ess_share)
    situation = _situation(inputs, config)
    if situation is not None:
        rewards = _correct_rewards(inputs, situation, control, policy)
    mixture = jax.vmap(partial(estimators.log_mixture, epsilon=config.epsilon), in_axes=(2, None), out_axes=1)
    log_q = mixture(inverse_temperature * log_p, counts)
    return SurrogateData(
        thetas=paths.thetas,
        observations=paths.observations,
        actions=paths.actions,
        step_counts=paths.step_counts,
        rewards=rewards,
        log_p=inverse_temperature * log_p,
        log_q=log_q,
        counts=counts,
        inverse_temperature=inverse_temperature,
        times=paths.times,
        control=control,
    )


def _situation(inputs: Inputs, config: SurrogateConfig) -> Array | None:
    """What no policy chose, (N, …): the first observation, where it is corrected for, and the context, where told."""
    starts = [inputs.paths.observations[:, 0]] if config.initial_state_correction else []
    contexts = [] if inputs.contexts is None else [inputs.contexts]
    parts = [*starts, *contexts]
    return None if not parts else parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _correct_rewards(
    inputs: Inputs, situation: Array, control: ControlVariate | None, policy: Policy
) -> Array:
    """The rewards (N, K) without the effect of the situation; with a critic, that on what it did not foresee."""
    paths, rewards = inputs.paths, inputs.paths.rewards
    policies = scale_params(paths.thetas, inputs.param_scale[None, :])
    if control is None:
        return subtract_initial_state_effect(rewards, situation, policies, inputs.counts)
    values = make_values_fn(control, paths.observations, paths.step_counts, policy)(inputs.centre)
    terms = sum_over_stretches(control._replace(values=values), rewards.shape[1])
    unforeseen = estimators.subtract_control_variate(rewards, *terms)
    corrected = subtract_initial_state_effect(unforeseen, situation, policies, inputs.counts)
    return rewards + corrected - unforeseen
