"""A policy class of your own: any pair of functions, here an Equinox module. (Needs `pip install equinox`.)

    python examples/custom_policy.py [STEPS]

With Flax it reads: `custom(lambda key: module.init(key, jnp.zeros(4)), module.apply, 4, 1)`.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import ddopg
from ddopg.policies import custom


class TwoModes(eqx.Module):
    """Two linear controllers and a gate that blends them: more than a gain, far less than a network."""

    gains: jax.Array  # (2, A, O)
    gate: eqx.nn.Linear

    def __init__(self, observation_size, action_size, key):
        keys = jax.random.split(key)
        self.gains = 0.3 * jax.random.normal(keys[0], (2, action_size, observation_size))
        self.gate = eqx.nn.Linear(observation_size, 1, key=keys[1])

    def __call__(self, observation):
        share = jax.nn.sigmoid(self.gate(observation))
        return share * (self.gains[0] @ observation) + (1 - share) * (self.gains[1] @ observation)


def parameters(key):
    return eqx.filter(TwoModes(4, 1, key), eqx.is_array)


STRUCTURE = eqx.filter(TwoModes(4, 1, jax.random.key(0)), eqx.is_array, inverse=True)


def act(arrays, observation):
    return eqx.combine(arrays, STRUCTURE)(jnp.asarray(observation))


policy = custom(parameters, act, observation_size=4, action_size=1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
agent = ddopg.DDOPG("ddopg/Cartpole-v0", policy=policy, seed=0)
agent.learn(total_timesteps=steps, progress_bar=True)
print(f"{policy.size} parameters, {agent.state.memory.size} rollouts, {agent.state.steps} steps")

agent.save("two_modes.safetensors")
again = ddopg.load("two_modes.safetensors", policy=policy)  # a file holds the numbers, not the code
returns = ddopg.evaluate(again, agent.env, episodes=50)
print(f"mean return of 50 fresh episodes: {returns.mean():.1f}, worst {returns.min():.1f}")
