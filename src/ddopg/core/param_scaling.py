"""Exploration in parameter space, in units of what a parameter does.

A parameter's unit is one over the largest mean-square effect it had on the policy's raw output along any trajectory
so far: perturbations, steps and decay measured in it do not depend on the scales of observations, and parameters
without effect are left alone.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.core.types import Trajectory
from ddopg.policies import Policy

WIDEST_CONSTANT = 1.5  # raw output of a constant policy: tanh(1.5) is 0.9 of the action range


def effects(policy: Policy, trajectory: Trajectory) -> np.ndarray:
    """1/T Σₜ Σₐ (∂uₐ(oₜ)/∂θ_d)², (D,): the mean-square effect of each parameter on the raw output u along a path."""
    return np.asarray(_effects(policy, trajectory.theta, trajectory.observations, trajectory.alive))


def units(largest_effects: np.ndarray) -> np.ndarray:
    """One over the root of the effects, (D,); 0 for a parameter that never had one."""
    safe = np.where(largest_effects > 0, largest_effects, 1.0)
    return np.where(largest_effects > 0, 1 / np.sqrt(safe), 0.0).astype(np.float32)


def scattered(rng: np.random.Generator, unit: np.ndarray, size: float) -> np.ndarray:
    """A random parameter vector (D,) whose raw outputs have a root mean square of about `size`, all together."""
    effective = max(int(np.count_nonzero(unit)), 1)
    return (size / np.sqrt(effective) * rng.standard_normal(len(unit)) * unit).astype(np.float32)


def constant(rng: np.random.Generator, size: int, outputs: int) -> np.ndarray:
    """Parameters (D,) of a policy that always does the same: all zero but the output's bias.

    Rolled out first, such policies show the scales of the observations before any gain multiplies them.
    """
    theta = np.zeros(size, np.float32)
    theta[-outputs:] = rng.uniform(-WIDEST_CONSTANT, WIDEST_CONSTANT, outputs)
    return theta


def in_units(thetas: Array, unit: Array) -> Array:
    """θ/unit; 0 where a parameter has no unit, because it never had an effect."""
    return jnp.where(unit > 0, thetas / jnp.where(unit > 0, unit, 1.0), 0.0)


def raw_size(theta: Array, unit: Array, outputs: int) -> Array:
    """Mean-square raw output that θ can have on the states seen: Σ_d (θ_d/unit_d)² / A."""
    return jnp.sum(jnp.square(in_units(theta, unit))) / outputs


@partial(jax.jit, static_argnames="policy")
def _effects(policy: Policy, theta: Array, observations: Array, alive: Array) -> Array:
    jacobians = jax.vmap(jax.jacrev(policy.raw), in_axes=(None, 0))(theta, observations)  # (H, A, D)
    each = jnp.sum(jnp.square(jacobians), axis=1)
    return jnp.sum(jnp.where(alive[:, None], each, 0.0), axis=0) / jnp.sum(alive)
