"""Movement primitives: a way for each joint, as a sum of bumps over time, followed by PD control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ddopg.controllers.arguments import read_places, require_parameter
from ddopg.controllers.declared import from_vector
from ddopg.errors import require, require_whole
from ddopg.parameters import Parameter
from ddopg.policies import Policy


def movement_primitive(
    observation_size: int,
    positions: Sequence[int],
    velocities: Sequence[int],
    *,
    duration: int,
    bumps: int = 5,
    weight: Parameter,
    stiffness: Parameter,
    damping: Parameter,
) -> Policy:
    """Every joint follows Σₖ wₖ φₖ(t / duration) by a PD controller, a probabilistic movement primitive's mean.

    φₖ are normalised Gaussian bumps, evenly spread over the movement; after it the way stays where it ends. The
    memory is the time. More than seven parameters: each is one thing that a movement has.

    Args:
        observation_size: numbers per observation, O.
        positions: which observations are the positions of the joints, one per action.
        velocities: which are their velocities.
        duration: steps that the movement takes.
        bumps: weights per joint.
        weight: how a weight is searched; all are alike.
        stiffness: action per distance from the way.
        damping: action per velocity.

    Returns:
        The policy class, with a memory; its parameters are `weight[joint,bump]`, the stiffness and the damping.

    Raises:
        ConfigError: if the numbers of joints differ, or there are fewer than two bumps.

    Example:
        >>> policy = movement_primitive(
        ...     2, (0,), (1,), duration=50, bumps=4, weight=Parameter("weight", 0.0, scale=0.3, unit="rad"),
        ...     stiffness=Parameter("stiffness", 5.0, fixed=True), damping=Parameter("damping", 0.5, fixed=True),
        ... )
        >>> policy.size
        4
    """
    seen, moving = read_places("positions", positions), read_places("velocities", velocities)
    number = len(seen)
    require(number == len(moving), f"a velocity for every position, got {number} and {len(moving)}")
    bumps, duration = require_whole("bumps", bumps), require_whole("duration", duration)
    require(
        bumps >= 2 and duration >= 1,
        f"a movement has at least 2 bumps and 1 step, got {bumps} and {duration}",
    )
    for name, given in {"weight": weight, "stiffness": stiffness, "damping": damping}.items():
        require_parameter(name, given)
    declared = [weight._replace(name=f"{weight.name}[{j},{k}]") for j in range(number) for k in range(bumps)]
    centres = np.linspace(0, 1, bumps, dtype=np.float32)

    def step(p: Any, time: Any, observation: Any) -> tuple[Any, Any]:
        apart = (jnp.minimum(time / duration, 1.0) - centres) * (bumps - 1)
        heights = jnp.exp(-0.5 * jnp.square(apart))
        target = p[: number * bumps].reshape(number, bumps) @ (heights / jnp.sum(heights))
        action = p[-2] * (target - observation[seen]) - p[-1] * observation[moving]
        return time + 1, action

    return from_vector(
        [*declared, stiffness, damping],
        step,
        (observation_size, number),
        initial=lambda p: jnp.zeros(()),
    )
