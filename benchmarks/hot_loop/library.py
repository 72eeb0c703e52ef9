"""The same problem through the library itself: `maximise` over `objective` and `log_weights`."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from hot_loop.problem import PENALTY, RATE

from ddopg.config import SurrogateConfig
from ddopg.core.optimisers import maximise
from ddopg.core.surrogate import objective, weigher
from ddopg.core.types import Evidence
from ddopg.policies import mlp


def ours(size):
    policy = mlp(size.observation, size.action, size.hidden)

    @partial(jax.jit, static_argnames=("steps", "scale"))
    def run(theta, observations, actions, returns, log_q, scale, steps):
        number = size.trajectories
        config = SurrogateConfig(length_scale=(scale,), penalty=PENALTY, epsilon=0.0, objective="penalty")
        evidence = Evidence(
            thetas=jnp.zeros((number, size.parameters)),
            observations=observations,
            actions=actions,
            lived=jnp.ones((number, size.horizon)),
            rewards=returns[:, None],
            table=jnp.zeros((number, number, 1)),
            log_q=log_q[:, None],
            counts=jnp.ones(number),
            sharpness=jnp.ones(()),
        )

        weigh = weigher(policy, evidence, config)

        def value(point):
            return objective(weigh(point), evidence, 1.0, 0.0, config)

        optimiser = optax.sgd(RATE)
        found = maximise(value, theta, optimiser, optimiser.init(theta), steps=steps, tolerance=0.0, window=9)
        return found.theta

    return run
