"""Limits that actuators have: how fast an action may change. As parts of the policy they are in its likelihoods.

Both give the policy a memory: the action before. What they wrap must have its actions within the range already, by
`ddopg.policies.limited` or `squashed`: a limit that runs on beyond the range would come back late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ddopg.controllers.arguments import read_numbers, require_policy
from ddopg.errors import require, require_not_negative
from ddopg.policies import Policy, Recurrence
from ddopg.policies.own import refuse_to_act


def rate_limited(policy: Policy, change: Sequence[float], rest: Sequence[float] | None = None) -> Policy:
    """No action changes by more than `change` from one step to the next.

    Args:
        policy: what is wrapped, its actions within their range.
        change: the largest change per step, (A,).
        rest: the action before the first step, (A,); the nearest to 0 within the range, if not given.

    Returns:
        The policy class with the same parameters and a memory.

    Raises:
        ConfigError: if a change is not positive, the policy has no action range yet, or it is a black box.

    Example:
        >>> import numpy as np
        >>> from ddopg.policies import limited, linear
        >>> policy = rate_limited(limited(linear(1, 1), (-1.0,), (1.0,)), change=[0.25])
        >>> act = policy.at(np.array([2.0, 0.0], np.float32))
        >>> [float(act(np.ones(1, np.float32))[0]) for _ in range(3)]
        [0.25, 0.5, 0.75]
    """
    require_policy(policy)
    largest = _one_per_action("change", change, policy)
    require(bool((largest > 0).all()), f"the largest change per step must be positive, got {change}")

    def follow(before: Any, action: Any) -> Any:
        return before + jnp.clip(action - before, -largest, largest)

    return _following(policy, follow, rest)


def low_passed(policy: Policy, steps: float, rest: Sequence[float] | None = None) -> Policy:
    """Actions through a first-order low-pass filter: a ← a + (policy − a) / (1 + steps).

    Args:
        policy: what is wrapped, its actions within their range.
        steps: the time constant, in steps; 0 filters nothing.
        rest: the action before the first step, (A,); the nearest to 0 within the range, if not given.

    Returns:
        The policy class with the same parameters and a memory.

    Raises:
        ConfigError: if the time constant is negative, the policy has no action range yet, or it is a black box.

    Example:
        >>> import numpy as np
        >>> from ddopg.policies import limited, linear
        >>> policy = low_passed(limited(linear(1, 1), (-1.0,), (1.0,)), steps=1.0)
        >>> act = policy.at(np.array([1.0, 0.0], np.float32))
        >>> [float(act(np.ones(1, np.float32))[0]) for _ in range(3)]
        [0.5, 0.75, 0.875]
    """
    require_policy(policy)
    require_not_negative("the time constant", steps)
    return _following(policy, lambda before, action: before + (action - before) / (1 + steps), rest)


def _following(policy: Policy, follow: Callable[[Any, Any], Any], rest: Sequence[float] | None) -> Policy:
    """The policy whose actions are followed from the action before; its state is that action, and its own behind."""
    require(
        policy.bounds is not None,
        "a limit of changes needs actions within their range; wrap the policy in ddopg.policies.limited(policy, low, "
        "high) first",
    )
    require(
        policy.black_box is None,
        "a limit of changes is a function of JAX, and this controller is a black box that can only be called; limit "
        "the changes in its own step(parameters, state, observation)",
    )
    assert policy.bounds is not None
    number, inside = len(policy.action_scale), policy.recurrence
    first = np.clip(
        np.zeros(number) if rest is None else _one_per_action("rest", rest, policy), *policy.bounds
    )

    def initial(theta: Any) -> Any:
        own = [] if inside is None else [inside.initial(theta)]
        return jnp.concatenate([jnp.asarray(first, jnp.float32), *own])

    def step(theta: Any, state: Any, observation: Any) -> tuple[Any, Any]:
        theta, state, observation = (jnp.asarray(array) for array in (theta, state, observation))
        before, own = state[:number], state[number:]
        if inside is None:
            action = policy.act(theta, observation)
        else:
            own, action = inside.step(theta, own, observation)
        after = follow(before, action)
        return jnp.concatenate([after, own]), after

    size = number + (inside.size if inside else 0)
    return policy._replace(
        act=refuse_to_act,
        unsquashed=None,
        columns=None,
        bind=None,
        recurrence=Recurrence(size, initial, step),
    )


def _one_per_action(name: str, values: Sequence[float], policy: Policy) -> np.ndarray:
    numbers, size = read_numbers(name, values), len(policy.action_scale)
    require(numbers.shape == (size,), f"{name} must be one number per action, {size}, got {values}")
    return numbers
