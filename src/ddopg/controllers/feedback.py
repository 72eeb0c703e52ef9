"""Linear feedback, with the same gains everywhere or with gains that follow a scheduling variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ddopg.controllers.arguments import read_numbers
from ddopg.controllers.declared import from_vector
from ddopg.errors import ConfigError, require, require_whole
from ddopg.parameters import Parameter
from ddopg.policies import Policy
from ddopg.policies.own import check_sizes


def linear_feedback(
    observation_size: int,
    action_size: int,
    *,
    start: Any = 0.0,
    scale: Any = 1.0,
    bias: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Policy:
    """a = K · observation + b, in real units, every gain a parameter of its own.

    Args:
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        start: the gains to start with, (A, O), or one number for all.
        scale: a change of a gain that matters, (A, O), or one number for all.
        bias: b is searched too, starting at 0 with the largest scale; without it b = 0.
        bounds: of every gain.

    Returns:
        The policy class; its parameters are `k[action,observation]`, and `b[action]`.

    Raises:
        ConfigError: if the gains cannot be searched.

    Example:
        >>> policy = linear_feedback(2, 1, start=[[-3.0, -1.0]], scale=0.5)
        >>> policy.describe(policy.init(None))
        {'k[0,0]': -3.0, 'k[0,1]': -1.0}
    """
    _, observation_size, action_size = check_sizes(0, observation_size, action_size)
    shape = (action_size, observation_size)
    first, unit = _spread("start", start, shape), _spread("scale", scale, shape)
    declared = [
        Parameter(f"k[{a},{o}]", first[a, o], bounds, scale=unit[a, o], log=False)
        for a in range(action_size)
        for o in range(observation_size)
    ]
    if bias:
        declared += [Parameter(f"b[{a}]", 0.0, scale=float(unit.max())) for a in range(action_size)]

    def act(p: Any, observation: Any) -> Any:
        gains = p[: action_size * observation_size].reshape(shape)
        return gains @ observation + (p[action_size * observation_size :] if bias else 0.0)

    return from_vector(declared, act, (observation_size, action_size))


def gain_scheduled(
    observation_size: int,
    action_size: int,
    variable: int,
    points: Sequence[float],
    *,
    start: Any = 0.0,
    scale: Any = 1.0,
) -> Policy:
    """a = K(z) · observation, whose gains are interpolated between points of the scheduling variable z.

    Args:
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        variable: which observation is z.
        points: at least two values of z, rising; beyond the first and the last the gains stay.
        start: the gains to start with at every point, (A, O), or one number for all.
        scale: a change of a gain that matters, (A, O), or one number for all.

    Returns:
        The policy class; its parameters are `k[action,observation]@z` at each point z.

    Raises:
        ConfigError: if the points do not rise, or the gains cannot be searched.

    Example:
        >>> policy = gain_scheduled(2, 1, variable=1, points=(0.0, 1.0), start=[[-3.0, 0.0]])
        >>> list(policy.describe(policy.init(None)))
        ['k[0,0]@0', 'k[0,1]@0', 'k[0,0]@1', 'k[0,1]@1']
    """
    _, observation_size, action_size = check_sizes(0, observation_size, action_size)
    at = read_numbers("points", points)
    require(
        len(at) >= 2 and bool(np.all(np.diff(at) > 0)),
        f"points must be at least two rising values of the scheduling variable, got {points}",
    )
    require(
        0 <= require_whole("variable", variable) < observation_size,
        f"variable must be the place of an observation, 0 to {observation_size - 1}, got {variable}",
    )
    shape = (action_size, observation_size)
    first, unit = _spread("start", start, shape), _spread("scale", scale, shape)
    declared = [
        Parameter(f"k[{a},{o}]@{point:g}", first[a, o], scale=unit[a, o])
        for point in at.tolist()
        for a in range(action_size)
        for o in range(observation_size)
    ]

    def act(p: Any, observation: Any) -> Any:
        gains = _point_shares(observation[variable], at) @ p.reshape(len(at), -1)
        return gains.reshape(shape) @ observation

    return from_vector(declared, act, (observation_size, action_size))


def _point_shares(z: Any, points: np.ndarray) -> Any:
    """How much each point counts at z: linear between two neighbours, the nearest alone beyond the ends."""
    # Not `jnp.interp`, which searches in a loop: `numpy_controller.py` has none.
    passed = jnp.clip((z - points[:-1]) / np.diff(points), 0.0, 1.0)
    ones, zeros = jnp.ones(1, passed.dtype), jnp.zeros(1, passed.dtype)
    return jnp.concatenate([ones, passed]) - jnp.concatenate([passed, zeros])


def _spread(name: str, values: Any, shape: tuple[int, int]) -> np.ndarray:
    try:
        return np.broadcast_to(np.asarray(values, float), shape)
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        f"{name} must be one number, or {shape} of them (actions, observations), got {values!r:.80}"
    )
