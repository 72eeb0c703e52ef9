"""The search: one compiled loop that climbs an objective, and the optimisers it may use.

Optimisers are optax transformations; adding one is a line in `OPTIMISERS`. `maximise` says how it ended as data;
nothing is raised from inside.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ddopg.config import SearchConfig

OptState = Any
"""The state of an optax transformation: a tree of arrays."""


class Outcome(IntEnum):
    """How a search ended."""

    CONVERGED = 0  # the last objective values differ by less than the tolerance
    STEP_LIMIT = 1  # all steps were used
    NOT_FINITE = 2  # the objective or its gradient stopped being a number; the last good point is kept


class Search(NamedTuple):
    """The result of `maximise`."""

    theta: Array  # (D,) the last point whose objective and gradient were finite
    value: Array  # the objective where the search ended its last evaluation
    steps: Array  # gradient steps taken
    outcome: Array  # an `Outcome`
    opt_state: OptState  # to go on with


def maximise(
    objective: Callable[[Array], Array],
    theta: Array,
    optimiser: optax.GradientTransformation,
    opt_state: OptState,
    config: SearchConfig,
    box: tuple[Array, Array] | None = None,
) -> Search:
    """θ ← θ + optimiser(∇ objective(θ)) until the objective is flat, the steps are used, or it is not finite.

    Args:
        objective: what is climbed, (D,) → ().
        theta: where the search starts, (D,). With `config.radius`, it stays within that distance of it.
        optimiser: an optax transformation.
        opt_state: its state.
        config: `steps`, `tolerance`, `window` and `radius`.
        box: the smallest and the largest θ, (D,) each, which no step leaves; None where there are none.

    Returns:
        Where the search ended, and how.
    """
    first = theta
    ascend = jax.value_and_grad(lambda point: -objective(point))

    def running(carry: tuple) -> Array:
        _, _, _, step, outcome = carry
        return (step < config.steps) & (outcome == Outcome.STEP_LIMIT)

    def advance(carry: tuple) -> tuple:
        theta, opt_state, history, step, _ = carry
        value, gradient = ascend(theta)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        history = jnp.roll(history, -1).at[-1].set(-value)
        flat = (
            (step + 1 >= config.window) & (jnp.std(history) < config.tolerance)
            if config.tolerance
            else jnp.bool_(False)
        )
        updates, moved = optimiser.update(gradient, opt_state, theta)
        keep = finite & ~flat
        inside = clip_to_ball(config.radius, first, optax.apply_updates(theta, updates))
        inside = inside if box is None else jnp.clip(inside, *box)
        theta = jnp.where(keep, inside, theta)
        opt_state = jax.tree.map(lambda new, old: jnp.where(keep, new, old), moved, opt_state)
        outcome = jnp.where(
            finite, jnp.where(flat, Outcome.CONVERGED, Outcome.STEP_LIMIT), Outcome.NOT_FINITE
        )
        return theta, opt_state, history, step + keep, outcome

    nothing = jnp.full(config.window, jnp.nan, theta.dtype)
    start = (theta, opt_state, nothing, jnp.int32(0), jnp.int32(Outcome.STEP_LIMIT))
    theta, opt_state, history, step, outcome = jax.lax.while_loop(running, advance, start)
    return Search(theta, history[-1], step, outcome, opt_state)


def clip_to_ball(radius: float, centre: Array, point: Array) -> Array:
    """The point, or where the way to it leaves the ball around the centre; no ball where the radius is 0."""
    if not radius:
        return point
    distance = jnp.linalg.norm(point - centre)
    return centre + (point - centre) * jnp.minimum(1.0, radius / jnp.where(distance > 0, distance, 1.0))


def normalise_gradient() -> optax.GradientTransformation:
    """g / ‖g‖; a zero gradient stays zero."""

    def update(gradient: Array, state: Any, params: Any = None) -> tuple[Array, Any]:
        norm = jnp.linalg.norm(gradient)
        return gradient / jnp.where(norm > 0, norm, 1.0), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def precondition(metric: Array, damping: float) -> optax.GradientTransformation:
    """g ← (F + λ tr(F)/D · I)⁻¹ g: the natural gradient, steepest in the policy's behaviour, not in its numbers.

    F is that of the start of a search and stays while it runs. What follows must not undo it: `sgd` keeps the step,
    `momentum` its direction. But `adam` would divide each coordinate by its own size again, and the noise of `sghmc`
    would not be that of the metric: both are refused (`config.SearchConfig`).

    Args:
        metric: F, (D, D).
        damping: λ, relative to the mean of F's diagonal.
    """
    ridge = damping * jnp.trace(metric) / metric.shape[0] + jnp.finfo(metric.dtype).tiny
    damped = metric + ridge * jnp.eye(metric.shape[0], dtype=metric.dtype)

    def update(gradient: Array, state: Any, params: Any = None) -> tuple[Array, Any]:
        return jnp.linalg.solve(damped, gradient), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


class SGHMCState(NamedTuple):
    """Velocity of the particle and the key of the next kick."""

    velocity: Array
    key: Array


def sghmc(
    learning_rate: float, friction: float, temperature: float, key: Array
) -> optax.GradientTransformation:
    """Stochastic gradient Hamiltonian Monte Carlo: v ← (1−α)v − η∇U + √(2αηT) ξ, θ ← θ + v.

    As η → 0 its stationary distribution is exp(−U/T); at T = 0 it is gradient descent with momentum 1−α.
    """

    def update(gradient: Array, state: SGHMCState, params: Any = None) -> tuple[Array, SGHMCState]:
        key_kick, key_next = jax.random.split(state.key)
        kick = jnp.sqrt(2 * friction * learning_rate * temperature)
        noise = kick * jax.random.normal(key_kick, gradient.shape, gradient.dtype)
        velocity = (1 - friction) * state.velocity - learning_rate * gradient + noise
        return velocity, SGHMCState(velocity, key_next)

    return optax.GradientTransformation(lambda params: SGHMCState(jnp.zeros_like(params), key), update)


OPTIMISERS: dict[str, Callable[[SearchConfig, Array], optax.GradientTransformation]] = {
    "sgd": lambda config, key: optax.sgd(config.learning_rate),
    "adam": lambda config, key: optax.adam(config.learning_rate),
    "momentum": lambda config, key: optax.chain(
        normalise_gradient(), optax.sgd(config.learning_rate, momentum=config.momentum)
    ),
    "sghmc": lambda config, key: sghmc(
        config.learning_rate, 1 - config.momentum, config.sghmc_temperature, key
    ),
}
"""Name in the configuration (`search.optimiser`) → optax transformation of the settings and a key."""
