"""Trajectories from elsewhere: do they fit the problem, and which policy would have acted so?

A hand-tuned controller or an old log knows no θ. The nearest policy of our class is fitted to its actions, and how
near it comes is said: the misfit.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ddopg.core.param_scaling import param_scale, param_sensitivity
from ddopg.core.problem import Problem
from ddopg.core.replay import act_along
from ddopg.core.types import Trajectory, check_trajectory
from ddopg.errors import TrajectoryError, require
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

STARTS = 4  # random ones of a network that the fit begins with; a linear policy begins at 0
STEPS = 500  # of the fit at most
FLAT = 1e-6  # the gradient below which the fit is done
RIDGE = 1e-6  # on the squared, scaled parameters: a controller that saturates shall not lead to infinity


class Fit(NamedTuple):
    """The policy that acts most nearly as a trajectory shows, and how nearly."""

    theta: np.ndarray  # (D,)
    misfit: (
        np.ndarray
    )  # (A,) root mean square of the difference between both actions, in the actions' own unit
    explained: float  # share of the actions' variance that the policy explains; 1 is all of it


def check_fits(trajectory: Any, problem: Problem) -> None:
    """Refuse what is not a sound trajectory of that problem."""
    require(
        isinstance(trajectory, Trajectory),
        f"expected a Trajectory, got {type(trajectory).__name__}; build one with "
        "proposal.trajectory(observations, actions, rewards)",
        TrajectoryError,
    )
    expected = {
        "observations": (problem.horizon, problem.observation_size),
        "actions": (problem.horizon, problem.action_size),
        "rewards": (problem.horizon,),
    }
    for name, shape in expected.items():
        came = getattr(trajectory, name).shape
        require(
            came == shape,
            f"the trajectory's {name} must have shape {shape} (horizon first), got {came}; build it with "
            "proposal.trajectory(observations, actions, rewards), which pads short episodes",
            TrajectoryError,
        )
    check_trajectory(trajectory)


@in_float32
def fit_policy(policy: Policy, trajectory: Trajectory) -> Fit:
    """The policy that acted, if the trajectory names it, else the nearest one; and its misfit."""
    size = trajectory.theta.size
    require(
        size in (0, policy.size),
        f"the trajectory's policy has {size} parameters, this one's {policy.size}; give theta of that size, or None "
        "and a policy is fitted to the actions",
        TrajectoryError,
    )
    theta = trajectory.theta if size else fit_params(policy, trajectory)
    steps = trajectory.length
    shown = trajectory.actions[:steps]
    misfit = root_mean_square(shown - act_along(policy, theta, trajectory.observations[:steps]))
    unexplained, all_of_it = np.mean(np.square(misfit)), np.mean(np.square(shown - shown.mean(axis=0)))
    if unexplained <= np.finfo(np.float32).eps:
        explained = 1.0
    else:
        explained = float(1 - unexplained / all_of_it) if all_of_it else 0.0
    return Fit(theta, misfit, explained)


def root_mean_square(apart: Any) -> np.ndarray:
    """Of differences between actions (T, A), per action (A,)."""
    return np.sqrt(np.mean(np.square(np.asarray(apart)), axis=0))


def fit_params(policy: Policy, trajectory: Trajectory) -> np.ndarray:
    """θ that minimises the mean squared difference between its actions and those of the trajectory, (D,)."""
    keys = jax.random.split(jax.random.key(0), STARTS)
    known = policy.linear or policy.parameters  # one place to begin with
    starts = [jnp.zeros(policy.size)] if known else [policy.init(key) for key in keys]
    arrays = (trajectory.observations, trajectory.actions, trajectory.alive)
    found = [
        _descend(policy, jnp.asarray(start), _scale(policy, start, trajectory), *arrays) for start in starts
    ]
    best = np.asarray(min(found, key=lambda one: float(one[1]))[0], np.float32)
    return best if policy.limits is None else np.clip(best, *policy.limits)


def _scale(policy: Policy, theta: Any, trajectory: Trajectory) -> np.ndarray:
    """What a parameter does on this path; one that does nothing keeps its value. Declared ones have their scale."""
    if policy.parameters:
        return np.ones(policy.size, np.float32)
    return param_scale(param_sensitivity(policy, trajectory._replace(theta=np.asarray(theta, np.float32))))


@partial(jax.jit, static_argnames="policy")
def _descend(
    policy: Policy, start: Array, scale: Array, observations: Array, actions: Array, alive: Array
) -> tuple[Array, Array]:
    """L-BFGS in the parameter scale."""
    optimiser = optax.lbfgs()

    def loss(scaled: Array) -> Array:
        theta = start + scale * scaled

        def apart(observation: Array, action: Array) -> Array:
            return jnp.sum(
                jnp.square((policy.act(theta, observation) - action) / jnp.asarray(policy.action_scale))
            )

        if not policy.replayed:
            each = jax.vmap(apart)(observations, actions)
        else:
            errors = act_along(policy, theta, observations) - actions
            each = jnp.sum(jnp.square(errors / jnp.asarray(policy.action_scale)[None, :]), axis=1)
        return jnp.sum(jnp.where(alive, each, 0.0)) / jnp.sum(alive) + RIDGE * jnp.mean(jnp.square(scaled))

    slope = optax.value_and_grad_from_state(loss)

    def go_on(carry: tuple) -> Array:
        _, _, count, size = carry
        return (count < STEPS) & (size > FLAT)

    def step(carry: tuple) -> tuple:
        scaled, opt_state, count, _ = carry
        value, gradient = slope(scaled, state=opt_state)
        updates, opt_state = optimiser.update(
            gradient, opt_state, scaled, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(scaled, updates), opt_state, count + 1, optax.tree.norm(gradient)

    scaled = jnp.zeros_like(start)
    scaled = jax.lax.while_loop(go_on, step, (scaled, optimiser.init(scaled), 0, jnp.inf))[0]
    return start + scale * scaled, loss(scaled)
