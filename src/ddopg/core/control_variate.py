"""The critic as control variate of the surrogate: its values of the actions taken, and of those of a policy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.core.critic import Critic, both_values, standardise
from ddopg.core.memory import Memory
from ddopg.core.time_grid import SubsampledTrajectory, TimeGrid, choose_times, stretch_lengths
from ddopg.core.transitions import observation_moments
from ddopg.core.types import ControlVariate, SurrogateData
from ddopg.policies import Policy


def make_control_variate(
    critic: Critic, memory: Memory, grid: TimeGrid, reward_scale: float
) -> ControlVariate:
    """The critic in reward scales, at the times of a grid; what it says of trajectories is not in it yet.

    Args:
        critic: what was learnt from the memory.
        memory: every trajectory.
        grid: the times that are compared.
        reward_scale: what counts as one reward.
    """
    times = choose_times(grid.horizon, grid.decisions, grid.stride)
    mean, deviation = observation_moments(memory)
    units = np.exp(np.asarray(critic.log_scale, np.float64) - np.log(reward_scale)) * grid.discount**times
    return ControlVariate(
        networks=critic.networks,
        mean=jnp.asarray(mean),
        deviation=jnp.asarray(deviation),
        units=jnp.asarray(units, jnp.float32),
        zero=critic.zero,
        lengths=jnp.asarray(stretch_lengths(grid), jnp.float32),
    )


def judge_paths(control: ControlVariate, paths: SubsampledTrajectory, policy: Policy) -> ControlVariate:
    """The same with Q̂ of the steps taken, and V̂ of their states under the policy of each trajectory.

    Args:
        control: of `make_control_variate`.
        paths: the selected trajectories, stacked, N rows.
        policy: the policy class.
    """
    features = _features(control, paths.observations)
    actions = paths.actions.reshape(-1, paths.actions.shape[-1])
    taken = _action_values(control, features, actions, paths.step_counts, policy)
    of_policy = make_values_fn(control, paths.observations, paths.step_counts, policy)
    # One by one: the activations of all policies at once would not stay in the cache.
    return control._replace(taken=taken, stored=jax.lax.map(of_policy, paths.thetas))


def make_data_fn(policy: Policy, data: SurrogateData) -> Callable[[Array], SurrogateData]:
    """θ ↦ the data with V̂_θ of every state compared; the data themselves without a critic.

    Args:
        policy: the policy class.
        data: the selected trajectories.
    """
    control = data.control
    if control is None:
        return lambda theta: data
    of_policy = make_values_fn(control, data.observations, data.step_counts, policy)
    return lambda theta: data._replace(control=control._replace(values=of_policy(theta)))


def make_values_fn(
    control: ControlVariate, observations: Array, step_counts: Array, policy: Policy
) -> Callable[[Array], Array]:
    """θ ↦ V̂_θ(s) = Q̂(s, μ_θ(s)) of every state compared, (N, T); 0 after the end.

    Args:
        control: the critic.
        observations: of the steps compared, (N, T, O).
        step_counts: of the same steps, (N, T); 0 after the end.
        policy: the policy class.
    """
    features, columns = _features(control, observations), observations.reshape(-1, observations.shape[-1]).T

    def of_policy(theta: Array) -> Array:
        answers = policy.on_columns(theta, columns).T
        return _action_values(control, features, answers, step_counts, policy)

    return of_policy


def sum_over_stretches(control: ControlVariate, times: int) -> tuple[Array, Array]:
    """V̂ where each stretch begins, and Σ (Q̂ − V̂) over its steps, (N, K) each.

    A compared step stands for all of its stretch, as it does in the likelihood. Of whole paths every step is
    compared, and there is one stretch.

    Args:
        control: with V̂ at the policy in question.
        times: K.
    """
    assert control.taken is not None
    assert control.values is not None
    advantages = control.lengths[None, :] * (control.taken - control.values)
    if times == control.values.shape[1]:
        return control.values, advantages
    return control.values[:, :1], jnp.sum(advantages, axis=1, keepdims=True)


def _features(control: ControlVariate, observations: Array) -> Array:
    """(N·T, O) of observations (N, T, O)."""
    return standardise(observations.reshape(-1, observations.shape[-1]), control.mean, control.deviation)


def _action_values(
    control: ControlVariate, features: Array, actions: Array, step_counts: Array, policy: Policy
) -> Array:
    """Q̂ in reward scales (N, T), the mean of both networks; 0 after the end."""
    scaled = actions / jnp.asarray(policy.action_scale, actions.dtype)[None, :]
    found = jnp.mean(both_values(control.networks, features, scaled), axis=0).reshape(step_counts.shape)
    return jnp.where(step_counts > 0, control.units[None, :] * (found + control.zero), 0.0)
