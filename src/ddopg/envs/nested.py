"""Nested observations (dicts, tuples) as vectors: a single one, or a batch as vectors of environments give it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten

from ddopg.errors import ObservationError


def flatten_nested(space: gym.Space, observation: Any) -> np.ndarray:
    """Flatten a nested observation, or every row of a batch.

    Args:
        space: of a single observation.
        observation: one of them, or a batch: every part has one more axis, the first, for the copies.

    Returns:
        (O,), or (B, O) for a batch.

    Raises:
        ObservationError: if the observation does not fit the space.

    Example:
        >>> import gymnasium as gym
        >>> space = gym.spaces.Dict(arm=gym.spaces.Box(-1, 1, (2,)), mode=gym.spaces.Discrete(3))
        >>> flatten_nested(space, {"arm": np.zeros(2), "mode": 1}).tolist()
        [0.0, 0.0, 0.0, 1.0, 0.0]
        >>> flatten_nested(space, {"arm": np.zeros((4, 2)), "mode": np.array([0, 1, 2, 0])}).shape
        (4, 5)
    """
    try:
        copies = _count_copies(space, observation)
        if copies is None:
            return np.asarray(flatten(space, observation))
        return np.stack(
            [np.asarray(flatten(space, _pick_copy(space, observation, i))) for i in range(copies)]
        )
    except (KeyError, IndexError, TypeError, ValueError, AssertionError) as error:
        raise ObservationError(
            f"an observation must be one of {space}, or a batch of them, got {observation!r} "
            f"({type(error).__name__}: {error})"
        ) from error


def _count_copies(space: gym.Space, observation: Any) -> int | None:
    """How many rows a batch has, by the first axis of its first part; None for a single observation."""
    if isinstance(space, gym.spaces.Dict):
        name, part = next(iter(space.spaces.items()))
        return _count_copies(part, observation[name])
    if isinstance(space, gym.spaces.Tuple):
        return _count_copies(space.spaces[0], observation[0])
    shape = np.shape(observation)
    return shape[0] if len(shape) == len(space.shape or ()) + 1 else None


def _pick_copy(space: gym.Space, observation: Any, index: int) -> Any:
    """One row of a batch, nested as its space is."""
    if isinstance(space, gym.spaces.Dict):
        return {name: _pick_copy(part, observation[name], index) for name, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(
            _pick_copy(part, value, index) for part, value in zip(space.spaces, observation, strict=True)
        )
    return np.asarray(observation)[index]
