"""Linear feedback in the compiled tasks."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.envs import JAX


def starts(task, count):
    generator = np.random.default_rng(7)
    return np.stack([task.draw(generator) for _ in range(count)])


@partial(jax.jit, static_argnums=0)
def returns(task, gains, bias, starts):
    """Undiscounted return of a = K o + b from each start, stopped at termination."""
    return jax.vmap(lambda start: jnp.sum(rewards(task, gains, bias, start)))(starts)


def rewards(task, gains, bias, start):
    def step(carry, _):
        state, alive = carry
        action = gains @ task.observe(state, JAX) + bias
        state = task.step(state, action, JAX)
        reward = alive * task.reward(state, action, JAX)
        return (state, alive & ~task.terminated(state, JAX)), reward

    carry = (task.start(start, JAX), jnp.array(True))
    return jax.lax.scan(step, carry, None, length=task.horizon)[1]
