"""One improvement of the policy: from the surrogate data to the next centre, as one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ddopg.config import Config, IncumbentConfig, RestartConfig, SearchConfig, SurrogateConfig
from ddopg.core.control_variate import make_data_fn
from ddopg.core.optimisers import OPTIMISERS, OptState, Search, maximise, precondition
from ddopg.core.param_scaling import raw_output_size
from ddopg.core.surrogate import (
    add_score_norms,
    estimate,
    fisher,
    make_log_weights_fn,
    objective_value,
    stored_log_weights,
    stored_returns,
    surrogate_return,
)
from ddopg.core.types import Estimate, HostOrDevice, SurrogateData
from ddopg.policies import Policy

MIN_SPREAD = (
    1e-3,
    1e-4,
)  # of the returns' span and size: the spread around the centre never counts as smaller


class UpdateConfig(NamedTuple):
    """The parts of a configuration that an improvement depends on: a change of any other compiles nothing anew."""

    surrogate: SurrogateConfig
    search: SearchConfig
    restart: RestartConfig
    incumbent: IncumbentConfig

    @classmethod
    def of(cls, config: Config) -> UpdateConfig:
        """Those of a whole configuration."""
        return cls(config.surrogate, config.search, config.restart, config.incumbent)


class UpdateInputs(NamedTuple):
    """What an improvement starts from."""

    centre: HostOrDevice  # (D,) where the search stands
    ema_params: HostOrDevice  # (D,) the moving average of the centre
    incumbent: HostOrDevice  # (D,) the policy to hand over now
    opt_state: tuple[Array, ...] | None  # leaves of the optimiser's state, where it is kept
    seed: HostOrDevice  # of the optimiser's own random numbers
    data: SurrogateData
    return_bound: HostOrDevice  # ‖R‖∞ in reward scales
    param_scale: HostOrDevice  # (D,)
    starting: HostOrDevice  # the initial design has just been completed
    anneal_factor: HostOrDevice  # 1 at first, falling as the search anneals


class StoredPolicy(NamedTuple):
    """The stored policy for which the search objective is highest."""

    theta: Array  # (D,)
    estimate: Estimate
    better: Array  # the objective is higher than at the incumbent


class Improvement(NamedTuple):
    """What an iteration has found."""

    search: Search  # its θ is the new centre
    at_centre: Estimate
    ema_params: Array  # (D,) the moving average of the centre since the last restart
    at_ema: Estimate
    at_incumbent: Estimate
    objective_scale: Array  # the return that counts as one; a difference below it is none
    best_stored: StoredPolicy | None = None  # where the incumbent is chosen by estimate


@partial(jax.jit, static_argnames=("policy", "config"))
def improve(inputs: UpdateInputs, policy: Policy, config: UpdateConfig) -> Improvement:
    """θ ← argmax of the surrogate objective, from the centre or from a stored policy that is clearly better.

    Args:
        inputs: the state of the search, and the data.
        policy: the policy class.
        config: what is improved, and how.
    """
    data, anneal_factor = inputs.data, inputs.anneal_factor
    centre, ema_params = jnp.asarray(inputs.centre), jnp.asarray(inputs.ema_params)
    log_weights = make_log_weights_fn(policy, data, config.surrogate)
    data_at = make_data_fn(policy, data)
    judge = partial(estimate, return_bound=inputs.return_bound, config=config.surrogate)
    stored = stored_returns(data, config.surrogate)
    here = log_weights(centre), data_at(centre)
    objective_scale = choose_objective_scale(judge(*here), data, inputs.return_bound, config)
    margin = objective_scale / anneal_factor
    start = restart_from_best(centre, here, stored, margin, inputs.starting, config)
    pace = jnp.sqrt(anneal_factor)
    scale = pace * inputs.param_scale

    def value(step: Array) -> Array:
        theta = start + pace * inputs.param_scale * step
        known = add_score_norms(policy, theta, scale, data_at(theta), config.surrogate)
        gain = objective_value(log_weights(theta), known, objective_scale, jnp.max(stored), config.surrogate)
        return gain - anneal_factor * saturation_penalty(theta, inputs.param_scale, data, policy, config)

    optimiser = _make_optimiser(jax.random.key(inputs.seed), start, scale, data, policy, config)
    search = _search(value, start, scale, optimiser, inputs.opt_state, config, policy.limits)
    restarted = inputs.starting | jnp.any(start != centre)
    rate = config.incumbent.ema_rate * pace
    ema_params = jnp.where(restarted, search.theta, ema_params + rate * (search.theta - ema_params))
    policies = (search.theta, ema_params, inputs.incumbent)
    at_centre, at_ema, at_incumbent = (judge(log_weights(theta), data_at(theta)) for theta in policies)
    best = None
    if config.incumbent.rule == "estimate":
        known, log_w = data_at(inputs.incumbent), log_weights(inputs.incumbent)
        index, better = find_best_stored(log_w, stored, objective_scale, known, config.surrogate)
        of_best = stored_log_weights(data, config.surrogate)[index], data.at_stored(index)
        best = StoredPolicy(data.thetas[index], judge(*of_best), better)
    return Improvement(search, at_centre, ema_params, at_ema, at_incumbent, objective_scale, best)


def find_best_stored(
    log_w: Array, stored: Array, objective_scale: Array, data: SurrogateData, config: SurrogateConfig
) -> tuple[Array, Array]:
    """The stored policy θᵢ with the highest search objective.

    Args:
        log_w: log-weights of the incumbent, (N, K).
        stored: the estimate of every stored policy, (N,).
        objective_scale: the return that counts as one.
        data: the selected trajectories, as they are known at the incumbent.
        config: names the objective.

    Returns:
        Its row i, and whether its objective is higher than that of the incumbent.
    """

    def value(log_w: Array, data: SurrogateData) -> Array:
        return objective_value(log_w, data, objective_scale, jnp.max(stored), config)

    each = jax.vmap(lambda log_w, i: value(log_w, data.at_stored(i)))
    of_stored = each(stored_log_weights(data, config), jnp.arange(len(stored)))
    values = jnp.where(data.counts > 0, of_stored, -jnp.inf)
    best = jnp.argmax(values)
    return best, values[best] > value(log_w, data)


def init_opt_state(size: int, config: Config) -> tuple[Array, ...]:
    """The leaves of the optimiser's state before its first step, for D = `size` parameters."""
    optimiser = OPTIMISERS[config.search.optimiser](config.search, jax.random.key(0))
    if config.search.fisher_damping:
        optimiser = optax.chain(precondition(jnp.eye(1), config.search.fisher_damping), optimiser)
    return tuple(jax.tree.leaves(optimiser.init(jnp.zeros(size))))


def incumbent_error(incumbent: np.ndarray, found: Improvement) -> float:
    """The standard error of what the surrogate says about the incumbent, old or just replaced."""
    if np.array_equal(incumbent, found.ema_params):
        return float(found.at_ema.standard_error)
    if found.best_stored is not None and np.array_equal(incumbent, found.best_stored.theta):
        return float(found.best_stored.estimate.standard_error)
    return float(found.at_incumbent.standard_error)


def choose_objective_scale(
    here: Estimate, data: SurrogateData, return_bound: Array, config: UpdateConfig
) -> Array:
    """The return that counts as one: ‖R‖∞, or the spread of the returns around the centre."""
    if config.surrogate.objective_scale == "bound":
        return return_bound
    returns, real = data.returns, data.counts > 0
    span = jnp.max(returns, where=real, initial=-jnp.inf) - jnp.min(returns, where=real, initial=jnp.inf)
    of_span, of_size = MIN_SPREAD
    least = jnp.maximum(of_span * span, of_size * jnp.max(jnp.abs(returns)))
    return jnp.maximum(jnp.sqrt(here.variance), jnp.where(least > 0, least, 1.0))


def restart_from_best(
    centre: Array,
    here: tuple[Array, SurrogateData],
    stored: Array,
    margin: Array,
    starting: Array,
    config: UpdateConfig,
) -> Array:
    """The centre, or the stored policy of the highest estimate if that is better by `threshold` margins.

    Args:
        centre: where the search stands, (D,).
        here: its log-weights (N, K), and the data as they are known there.
        stored: the estimate of every stored policy, (N,).
        margin: the return that counts as a clear difference.
        starting: the initial design has just been completed: the best stored policy is taken anyway.
        config: `restart.threshold`; 0 stays at the centre.
    """
    if not config.restart.threshold:
        return centre
    best, (log_w, data) = jnp.argmax(stored), here
    lead = stored[best] - surrogate_return(log_w, data, config.surrogate)
    better = lead > config.restart.threshold * margin
    return jnp.where(starting | better, data.thetas[best], centre)


def saturation_penalty(
    theta: Array, param_scale: Array, data: SurrogateData, policy: Policy, config: UpdateConfig
) -> Array:
    """weight · log(1 + mean-square raw output) / √(effective data): a prior against saturation that data overrule."""
    if not config.search.saturation_penalty:
        return jnp.zeros((), theta.dtype)
    effective = jnp.maximum(config.surrogate.ess_share * jnp.sum(data.counts), 1.0)
    size = raw_output_size(theta, param_scale, len(policy.action_scale))
    return config.search.saturation_penalty * jnp.log1p(size) / jnp.sqrt(effective)


def _make_optimiser(
    key: Array, start: Array, scale: Array, data: SurrogateData, policy: Policy, config: UpdateConfig
) -> optax.GradientTransformation:
    """The configured one; with the natural gradient at the start, where that is asked for."""
    optimiser = OPTIMISERS[config.search.optimiser](config.search, key)
    if not config.search.fisher_damping:
        return optimiser
    metric = fisher(policy, start, data, config.surrogate) * scale[:, None] * scale[None, :]
    return optax.chain(precondition(metric, config.search.fisher_damping), optimiser)


def _search(
    value: Callable[[Array], Array],
    start: Array,
    scale: Array,
    optimiser: optax.GradientTransformation,
    opt_state: tuple[Array, ...] | None,
    config: UpdateConfig,
    limits: tuple[np.ndarray, np.ndarray] | None,
) -> Search:
    """Maximise over steps in the parameter scale, within the limits, and say where that ends in parameters."""
    origin = jnp.zeros_like(start)
    state: OptState = optimiser.init(origin)
    if opt_state is not None:
        state = jax.tree.unflatten(jax.tree.structure(state), opt_state)
    box = None
    if limits is not None:
        low, high = (jnp.asarray(limit) for limit in limits)
        box = ((low - start) / scale, (high - start) / scale)
    search = maximise(value, origin, optimiser, state, config.search, box)
    leaves = tuple(jax.tree.leaves(search.opt_state))
    theta = start + scale * search.theta
    theta = theta if limits is None else jnp.clip(theta, *limits)  # what rounding adds
    return search._replace(theta=theta, opt_state=leaves)
