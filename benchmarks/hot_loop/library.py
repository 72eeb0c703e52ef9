"""The same problem through the library itself: `maximise` over `objective_value`."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from hot_loop.problem import PENALTY, RATE

from ddopg.config import SearchConfig, SurrogateConfig
from ddopg.core.optimisers import maximise
from ddopg.core.surrogate import make_log_weights_fn, objective_value
from ddopg.core.types import SurrogateData
from ddopg.policies import mlp


def ours(size):
    policy = mlp(size.observation, size.action, size.hidden)

    @partial(jax.jit, static_argnames=("steps", "scale"))
    def run(theta, observations, actions, returns, log_q, scale, steps):
        number = size.trajectories
        config = SurrogateConfig(length_scale=(scale,), penalty=PENALTY, epsilon=0.0, objective="penalty")
        data = SurrogateData(
            thetas=jnp.zeros((number, size.parameters)),
            observations=observations,
            actions=actions,
            step_counts=jnp.ones((number, size.horizon)),
            rewards=returns[:, None],
            log_p=jnp.zeros((number, number, 1)),
            log_q=log_q[:, None],
            counts=jnp.ones(number),
            inverse_temperature=jnp.ones(()),
        )

        log_weights = make_log_weights_fn(policy, data, config)

        def value(point):
            return objective_value(log_weights(point), data, 1.0, 0.0, config)

        optimiser = optax.sgd(RATE)
        settings = SearchConfig(steps=steps, tolerance=0.0)
        return maximise(value, theta, optimiser, optimiser.init(theta), settings).theta

    return run
