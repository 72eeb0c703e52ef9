"""The policy class that a configuration asks for."""

from __future__ import annotations

import numpy as np

from ddopg.config import PolicyConfig
from ddopg.errors import SpaceError, require
from ddopg.policies.networks import mlp
from ddopg.policies.record import Policy
from ddopg.policies.wrappers import limited, squashed


def make_policy(
    config: PolicyConfig,
    observation_size: int,
    low: np.ndarray,
    high: np.ndarray,
    network: Policy | None = None,
) -> Policy:
    """The policy class that a configuration asks for.

    Args:
        config: the hidden layers, and whether the output is squashed onto the action range; they are of the network.
        observation_size: numbers per observation, O.
        low: the smallest action, (A,).
        high: the largest action, (A,).
        network: a policy class of your own in the place of the configured network; its actions are clipped to the
            action range, or squashed onto it where the class itself says so.

    Returns:
        The policy class, squashed if the configuration says so.

    Raises:
        SpaceError: if the action range cannot be squashed onto, or the network has other actions or observations.
        ConfigError: if the network is no policy class.

    Example:
        >>> import numpy as np
        >>> from ddopg.config import PolicyConfig
        >>> make_policy(PolicyConfig(hidden=(), squash=True), 4, np.array([-1.0]), np.array([1.0])).size
        5
    """
    require_policy_class(network)
    policy = network or mlp(observation_size, len(low), tuple(config.hidden), linear_path=config.linear_path)
    range_ = tuple(map(float, low)), tuple(map(float, high))
    require(
        len(policy.action_scale) == len(low),
        f"the policy has {len(policy.action_scale)} actions, the action space {len(low)}; they must be the same",
        SpaceError,
    )
    # An index beyond an array is no error in JAX, so a controller of another size would act on wrong numbers.
    require(
        policy.observation_size in (0, observation_size),
        f"the policy was made for {policy.observation_size} observations, the observation space has "
        f"{observation_size}; they must be the same",
        SpaceError,
    )
    if network is not None:
        return _bounded_by_choice(network, *range_)
    return squashed(policy, *range_) if config.squash else policy


def require_policy_class(given: object) -> None:
    """Refuse what is no policy class of the user's own, and not None."""
    require(
        given is None or isinstance(given, Policy),
        f"policy must be a policy class, got {type(given).__name__}; ddopg.controllers.controller makes one of "
        "declared parameters and a function, ddopg.policies.custom one of a network of your own, and "
        "ddopg.policies.import_policy finds one by its name, 'module:name'",
    )


def _bounded_by_choice(policy: Policy, low: tuple[float, ...], high: tuple[float, ...]) -> Policy:
    """A class of one's own: clipped, or squashed where that was chosen; one that has bounds is left as it is."""
    if policy.bounds is not None:
        return policy
    if policy.squash and not policy.parameters:
        return squashed(policy, low, high)
    return limited(policy, low, high, policy.squash)
