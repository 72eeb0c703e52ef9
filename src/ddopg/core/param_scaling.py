"""The scale of each parameter: what it does to the policy's raw output.

A parameter's scale is one over the root of its sensitivity, the largest mean-square effect that it had on the raw
output along any trajectory so far. Perturbations, steps and penalties measured in it do not depend on the scales of
the observations, and parameters without effect are left alone.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.core.replay import raw_along
from ddopg.core.types import HostOrDevice, Trajectory
from ddopg.policies import Policy

LINEAR_SHARE = (
    0.8  # of the effect of a random step, where a network has a linear path: the rest is the network's
)
AT_ONCE = 2**22  # derivatives (16 MB) that are computed in one piece
STEPS_OF_BLOCK = 32  # of an episode that has more of them
WIDEST_CONSTANT = 1.5  # raw output of a constant policy: tanh(1.5) is 0.9 of the action range


def param_sensitivity(policy: Policy, trajectory: Trajectory) -> np.ndarray:
    """1/T Σₜ Σₐ (∂uₐ(oₜ)/∂θ_d)², (D,): mean-square effect of each parameter on the raw output u along a path."""
    return np.asarray(_sensitivity(policy, trajectory.theta, trajectory.observations, trajectory.alive))


def param_scale(
    sensitivity: np.ndarray, linear_params: int = 0, linear_share: float = LINEAR_SHARE
) -> np.ndarray:
    """One over the root of the sensitivity, (D,); 0 for a parameter that never had an effect.

    A network with a linear path has two parts. Each is scaled by √(share · D / size of the part), so that the linear
    path makes `linear_share` of the effect of a random step however many parameters the network has.

    Args:
        sensitivity: the mean-square effect of each parameter, (D,).
        linear_params: the last so many parameters are the linear path; 0 where there is none.
        linear_share: of the effect of a random step; 1 leaves the network as it is.
    """
    safe = np.where(sensitivity > 0, sensitivity, 1.0)
    scale = np.where(sensitivity > 0, 1 / np.sqrt(safe), 0.0)
    if linear_params and linear_share == 1:
        scale[:-linear_params] = 0.0
    elif linear_params:
        size = len(scale)
        scale[-linear_params:] *= np.sqrt(linear_share * size / linear_params)
        scale[:-linear_params] *= np.sqrt((1 - linear_share) * size / (size - linear_params))
    return scale.astype(np.float32)


def sample_params(rng: np.random.Generator, scale: np.ndarray, size: float) -> np.ndarray:
    """A random parameter vector (D,) whose raw outputs have a root mean square of about `size`, all together."""
    effective = max(int(np.count_nonzero(scale)), 1)
    return (size / np.sqrt(effective) * rng.standard_normal(len(scale)) * scale).astype(np.float32)


def sample_constant_policy(rng: np.random.Generator, size: int, outputs: int) -> np.ndarray:
    """Parameters (D,) of a policy that always does the same: all zero but the output's bias.

    Rolled out first, such policies show the scales of the observations before any gain multiplies them.
    """
    theta = np.zeros(size, np.float32)
    theta[-outputs:] = rng.uniform(-WIDEST_CONSTANT, WIDEST_CONSTANT, outputs)
    return theta


def scale_params(thetas: HostOrDevice, scale: HostOrDevice, xp: ModuleType = jnp) -> HostOrDevice:
    """θ/scale; 0 where a parameter has no scale, because it never had an effect.

    Args:
        thetas: parameters, (…, D).
        scale: of each parameter, (D,) or with leading axes of 1.
        xp: the module that computes, `jax.numpy` or `numpy`.
    """
    return xp.where(scale > 0, thetas / xp.where(scale > 0, scale, 1.0), 0.0)


def raw_output_size(theta: Array, scale: Array, outputs: int) -> Array:
    """Mean-square raw output that θ can have on the states seen: Σ_d (θ_d/scale_d)² / A."""
    return jnp.sum(jnp.square(scale_params(theta, scale))) / outputs


@partial(jax.jit, static_argnames="policy")
def _sensitivity(policy: Policy, theta: Array, observations: Array, alive: Array) -> Array:
    """See `param_sensitivity`. Many derivatives are summed block by block, so that they stay in the cache."""
    if policy.replayed:
        jacobians = jax.jacfwd(partial(raw_along, policy))(theta, observations)
        return _sum_squares(jacobians, alive) / jnp.sum(alive)

    def of_steps(seen: Array, alive: Array) -> Array:
        return _sum_squares(jax.vmap(jax.jacrev(policy.raw), in_axes=(None, 0))(theta, seen), alive)

    if observations.shape[0] * len(policy.action_scale) * policy.size <= AT_ONCE:
        return of_steps(observations, alive) / jnp.sum(alive)
    more = -len(alive) % STEPS_OF_BLOCK
    seen = jnp.pad(observations, ((0, more), (0, 0))).reshape(-1, STEPS_OF_BLOCK, observations.shape[1])
    lived = jnp.pad(alive, (0, more)).reshape(-1, STEPS_OF_BLOCK)
    sums = jax.lax.map(lambda block: of_steps(*block), (seen, lived))
    return jnp.sum(sums, axis=0) / jnp.sum(alive)


def _sum_squares(jacobians: Array, alive: Array) -> Array:
    """Σₜ Σₐ of the squares (H, A, D) over the steps that happened, (D,)."""
    each = jnp.sum(jnp.square(jacobians), axis=1)
    return jnp.sum(jnp.where(alive[:, None], each, 0.0), axis=0)
