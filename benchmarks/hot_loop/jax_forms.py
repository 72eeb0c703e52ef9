"""The objective in JAX, in the layouts that were found to be fast; each as one compiled loop of gradient steps."""

from functools import partial

import jax
import jax.numpy as jnp
from hot_loop.problem import PENALTY, RATE, layers_of


def weigh(distances, returns, log_q):
    """The objective from the summed squared distances (N,) of each trajectory."""
    log_w = -0.5 * distances - log_q
    w = jax.nn.softmax(log_w)
    return jnp.sum(w * returns) - PENALTY * jnp.sqrt(jnp.sum(jnp.square(w)))


def distances(size, scale, number, theta, x, goal):
    """Summed squared distances of `number` trajectories, laid out as columns one after the other."""
    for i, (weights, bias) in enumerate(layers_of(theta, size)):
        x = weights.T @ x + bias[:, None]
        x = jnp.tanh(x) if i < len(size.layers) - 1 else x
    return jnp.sum(jnp.square((goal - x) / scale), axis=0).reshape(number, -1).sum(axis=1)


def climb(value, theta, steps):
    """θ ← θ + η ∇value(θ), in one program."""
    slope = jax.grad(value)
    return jax.lax.fori_loop(0, steps, lambda _, point: point + RATE * slope(point), theta)


def feature_major(size):
    """Features × samples, everything in one piece."""

    @partial(jax.jit, static_argnames="steps")
    def run(theta, observations, actions, returns, log_q, scale, steps):
        samples = size.trajectories * size.horizon
        x0, goal = observations.reshape(samples, -1).T, actions.reshape(samples, -1).T

        def value(point):
            return weigh(distances(size, scale, size.trajectories, point, x0, goal), returns, log_q)

        return climb(value, theta, steps)

    return run


def blocked(size, block=1):
    """Features × samples, mapped over blocks of trajectories, so that activations stay in the cache.

    Two passes: the distances of all trajectories, then their gradients, each weighed by what the objective wants.
    """

    @partial(jax.jit, static_argnames="steps")
    def run(theta, observations, actions, returns, log_q, scale, steps):
        number = size.trajectories // block
        x0 = observations.reshape(number, block * size.horizon, -1).transpose(0, 2, 1)
        goal = actions.reshape(number, block * size.horizon, -1).transpose(0, 2, 1)

        of_block = jax.checkpoint(partial(distances, size, scale, block))

        def value(point):
            each = jax.lax.map(lambda one: of_block(point, *one), (x0, goal))
            return weigh(each.ravel(), returns, log_q)

        return climb(value, theta, steps)

    return run
