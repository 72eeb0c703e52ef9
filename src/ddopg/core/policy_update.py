"""One improvement of the policy: from the evidence to the next centre and incumbent, as one compiled program."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ddopg.config import Config
from ddopg.core import param_scaling as explore
from ddopg.core.optimisers import OPTIMISERS, Search, maximise, precondition
from ddopg.core.surrogate import estimate, fisher, objective, stored_returns, surrogate_return, weigher
from ddopg.core.types import Estimate, Evidence
from ddopg.policies import Policy

LEAST_SHARES = (
    1e-3,
    1e-4,
)  # of the returns' span and size: the spread around the centre never counts as smaller


class Improvement(NamedTuple):
    """What an iteration has found."""

    search: Search  # its θ is the new centre
    at_centre: Estimate
    average: Array  # (D,) the running average of the centre since the last jump
    at_average: Estimate
    at_incumbent: Estimate
    spread: Array  # of the returns around the old centre: what counts as a difference


@partial(jax.jit, static_argnames=("policy", "config"))
def improve(
    centre: Array,
    average: Array,
    incumbent: Array,
    memory: Any,
    seed: Array,
    evidence: Evidence,
    bound: Array,
    unit: Array,
    starting: Array,
    warmth: Array,
    policy: Policy,
    config: Config,
) -> Improvement:
    """θ ← argmax of the surrogate objective, from the centre or from a stored policy that is clearly better.

    `warmth` is 1 at first and falls as the search cools down.
    """
    centre, average = jnp.asarray(centre), jnp.asarray(average)
    weigh = weigher(policy, evidence, config.surrogate)
    judge = partial(estimate, evidence=evidence, return_bound=bound, config=config.surrogate)
    stored = stored_returns(evidence, config.surrogate)
    worth = unit_of_value(judge(weigh(centre)), evidence, bound, config)
    start = leap(centre, weigh(centre), stored, evidence, worth / warmth, starting, config)
    pace = jnp.sqrt(warmth)

    def value(step: Array) -> Array:
        theta = start + pace * unit * step
        gain = objective(weigh(theta), evidence, worth, jnp.max(stored), config.surrogate)
        return gain - warmth * saturation(theta, unit, evidence, policy, config)

    key = jax.random.key(seed)
    search = _search(value, start, pace * unit, memory, key, evidence, policy, config)
    jumped = starting | jnp.any(start != centre)
    follow = config.search.follow * pace
    average = jnp.where(jumped, search.theta, average + follow * (search.theta - average))
    at_centre, at_average, at_incumbent = (judge(weigh(t)) for t in (search.theta, average, incumbent))
    return Improvement(search, at_centre, average, at_average, at_incumbent, worth)


def first_memory(size: int, config: Config) -> Any:
    """The optimiser's state before its first step, for D = `size` parameters: what `improve` carries along."""
    optimiser, origin = OPTIMISERS[config.search.optimiser](config.search, jax.random.key(0)), jnp.zeros(size)
    if config.search.natural:
        optimiser = optax.chain(precondition(jnp.eye(1), config.search.natural), optimiser)
    return optimiser.init(origin)


def error_at(incumbent: np.ndarray, found: Improvement) -> float:
    """√(variance / ESS): the standard error of what the surrogate says about the incumbent, old or just replaced."""
    here = found.at_average if np.array_equal(incumbent, found.average) else found.at_incumbent
    return float(np.sqrt(here.variance / here.ess))


def unit_of_value(here: Estimate, evidence: Evidence, bound: Array, config: Config) -> Array:
    """What counts as one unit of return: ‖R‖∞, or the spread of the returns around the centre."""
    if config.surrogate.unit == "bound":
        return bound
    returns, real = evidence.returns, evidence.counts > 0
    span = jnp.max(returns, where=real, initial=-jnp.inf) - jnp.min(returns, where=real, initial=jnp.inf)
    of_span, of_size = LEAST_SHARES
    least = jnp.maximum(of_span * span, of_size * jnp.max(jnp.abs(returns)))
    return jnp.maximum(jnp.sqrt(here.variance), jnp.where(least > 0, least, 1.0))


def leap(
    centre: Array,
    log_w: Array,
    stored: Array,
    evidence: Evidence,
    worth: Array,
    starting: Array,
    config: Config,
) -> Array:
    """The centre, or the stored policy of the highest estimate if that is better by `jump` units, or at the start."""
    if not config.search.jump:
        return centre
    best, here = jnp.argmax(stored), surrogate_return(log_w, evidence, config.surrogate)
    better = stored[best] - here > config.search.jump * worth
    return jnp.where(starting | better, evidence.thetas[best], centre)


def saturation(theta: Array, unit: Array, evidence: Evidence, policy: Policy, config: Config) -> Array:
    """decay · log(1 + mean-square raw output) / √(effective data): a prior against saturation that data overrule."""
    if not config.search.decay:
        return jnp.zeros((), theta.dtype)
    data = jnp.maximum(config.surrogate.ess_share * jnp.sum(evidence.counts), 1.0)
    return config.search.decay * jnp.log1p(explore.raw_size(theta, unit, len(policy.unit))) / jnp.sqrt(data)


def _search(
    value: Any,
    start: Array,
    unit: Array,
    memory: Any,
    key: Array,
    evidence: Evidence,
    policy: Policy,
    config: Config,
) -> Search:
    """Maximise over steps in units, and say where that ends in parameters."""
    optimiser, origin = OPTIMISERS[config.search.optimiser](config.search, key), jnp.zeros_like(start)
    if config.search.natural:
        metric = fisher(policy, start, evidence, config.surrogate) * unit[:, None] * unit[None, :]
        optimiser = optax.chain(precondition(metric, config.search.natural), optimiser)
    search = maximise(
        value,
        origin,
        optimiser,
        optimiser.init(origin) if memory is None else memory,
        steps=config.search.steps,
        tolerance=config.search.tolerance,
        window=config.search.window,
        radius=config.search.radius,
    )
    return search._replace(theta=start + unit * search.theta)
