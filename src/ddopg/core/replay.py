"""What a policy would have done along a path that was seen: without a memory step by step, with one by a replay.

A policy with a memory answers an observation by all that came before it. Its likelihood on a stored trajectory is
found by playing its state along the stored observations, every step of them, in one `lax.scan`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.policies import BlackBox, Policy, Recurrence, Step
from ddopg.support.compilation import in_float32


def begin(policy: Policy, theta: Any) -> Any:
    """The state before the first step, (S,); nothing for a policy without a memory."""
    return () if policy.recurrence is None else policy.recurrence.initial(theta)


def respond(policy: Policy, theta: Any, state: Any, observation: Any) -> tuple[Any, Any]:
    """The state after a step, and the action (A,) for one observation (O,)."""
    if policy.recurrence is None:
        return state, policy.act(theta, observation)
    return policy.recurrence.step(theta, state, observation)


def act_along(policy: Policy, theta: Any, observations: Any) -> Any:
    """The actions (H, A) for the observations (H, O) of one episode, from its first step on.

    Args:
        policy: the policy class.
        theta: its parameters, (D,).
        observations: of every step, none left out: a memory has seen them all.

    Returns:
        The actions; NumPy's where the arguments are.
    """
    if policy.black_box is not None:
        return policy.black_box.along(theta, observations)
    if policy.recurrence is None:
        return policy.act(theta, observations)
    if isinstance(theta, np.ndarray) and isinstance(observations, np.ndarray):
        return np.asarray(_compiled_replay(policy.recurrence, theta, observations))
    return _replay(policy.recurrence, policy.recurrence.step, theta, observations)


def raw_along(policy: Policy, theta: Any, observations: Any) -> Any:
    """`act_along` before any squashing or clipping; a black box has no such thing."""
    if policy.black_box is not None:
        return act_along(policy, theta, observations)
    if policy.recurrence is None:
        return jax.vmap(policy.raw, in_axes=(None, 0))(theta, observations)
    step = policy.recurrence.raw or policy.recurrence.step
    return _replay(policy.recurrence, step, theta, observations)


def respond_to_batch(
    policy: Policy, theta: np.ndarray, states: Any, observations: np.ndarray
) -> tuple[Any, np.ndarray]:
    """One step of B episodes side by side.

    Args:
        policy: the policy class.
        theta: its parameters, (D,).
        states: what it remembers of each, (B, S), or a list of B objects; None before the first step.
        observations: (B, O).

    Returns:
        The states after the step, None for a policy without a memory; and the actions (B, A).
    """
    if policy.black_box is not None:
        return _call_for_batch(policy.black_box, theta, states, observations)
    if policy.recurrence is None:
        return None, np.asarray(policy.act(theta, observations))
    if states is None:
        states = np.tile(begin_episode(policy, theta), (len(observations), 1))
    after, actions = _step_of_batch(policy.recurrence, theta, states, observations)
    return np.asarray(after), np.asarray(actions)


def _call_for_batch(
    box: BlackBox, theta: np.ndarray, states: Any, observations: np.ndarray
) -> tuple[list[Any], np.ndarray]:
    before = [box.initial(theta) for _ in observations] if states is None else states
    after = [box.step(theta, state, seen) for state, seen in zip(before, observations, strict=True)]
    return [state for state, _ in after], np.stack([action for _, action in after])


@in_float32
def begin_episode(policy: Policy, theta: np.ndarray) -> np.ndarray:
    """`begin` in NumPy."""
    return np.asarray(begin(policy, theta), np.float32)


def _replay(recurrence: Recurrence, step: Step, theta: Any, observations: Any) -> Array:
    def advance(state: Array, observation: Array) -> tuple[Array, Array]:
        after, action = step(theta, state, observation)
        return after.astype(state.dtype), action

    return jax.lax.scan(advance, recurrence.initial(theta), jnp.asarray(observations))[1]


@in_float32
@partial(jax.jit, static_argnames="recurrence")
def _compiled_replay(recurrence: Recurrence, theta: Array, observations: Array) -> Array:
    return _replay(recurrence, recurrence.step, theta, observations)


@in_float32
@partial(jax.jit, static_argnames="recurrence")
def _step_of_batch(
    recurrence: Recurrence, theta: Array, states: Array, observations: Array
) -> tuple[Array, Array]:
    return jax.vmap(recurrence.step, in_axes=(None, 0, 0))(theta, states, observations)
