"""What is wrong with functions that should be an environment, in words. Nothing is computed for it, only shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import jax
import numpy as np

from ddopg.errors import SpaceError, require
from ddopg.support.compilation import in_float32

if TYPE_CHECKING:
    from ddopg.envs.functional import PureEnv


def require_actions(space: Any) -> gym.spaces.Box:
    """Refuse actions that are no vector of real numbers."""
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return space
    raise SpaceError(
        f"DD-OPG acts continuously, and the actions are {space}; give action_space=gymnasium.spaces.Box(-1, 1, (A,)) "
        "and to_action=…, which turns such a vector into an action"
    )


@in_float32
def check_functions(pure: PureEnv, action_shape: tuple[int, ...]) -> PureEnv:
    """Refuse functions whose results do not fit each other.

    Args:
        pure: the functions; its observations are not counted yet.
        action_shape: of the action space, for the messages.

    Returns:
        The same with the number of observations.

    Raises:
        SpaceError: what is wrong, and with which of them.
    """
    seed = jax.ShapeDtypeStruct((), np.uint32)
    action = jax.ShapeDtypeStruct((pure.action_size,), np.float32)
    state = _trace(
        "reset(key)", "(state, observation), or a state with obs, reward and done", pure.start, seed
    )
    after = _trace(
        f"step(state, action) with an action of shape {action_shape}",
        "(state, observation, reward, terminated), or a state with obs, reward and done",
        pure.step,
        state,
        action,
    )
    _require_same_state(state, after.state)
    for name in ("reward", "terminated", "truncated"):
        shape = np.shape(getattr(after, name))
        require(shape == (), f"{name} must be one number, got an array of shape {shape}", SpaceError)
    (size,) = jax.eval_shape(pure.observe, state).shape
    require(size > 0, "an observation must have at least one number, got none", SpaceError)
    return pure._replace(observation_size=size)


def same_structure(one: Any, other: Any) -> bool:
    """Whether two nested values have the same parts."""
    structures: list[Any] = [jax.tree.structure(one), jax.tree.structure(other)]
    return bool(structures[0] == structures[1])


def _trace(what: str, expected: str, function: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        raise SpaceError(
            f"{what} cannot be compiled: {type(error).__name__}: {said[0]}; it must be a function of JAX alone and "
            f"return {expected}"
        ) from error


def _require_same_state(before: Any, after: Any) -> None:
    """A loop of JAX hands the state on: its parts, shapes and types must stay."""
    require(
        same_structure(before, after),
        f"step must return a state (and an observation) of the same parts as reset, {jax.tree.structure(before)}, "
        f"got {jax.tree.structure(after)}",
        SpaceError,
    )
    parts = jax.tree_util.tree_leaves_with_path(before)
    for (path, old), new in zip(parts, jax.tree.leaves(after), strict=True):
        require(
            (old.shape, old.dtype) == (new.shape, new.dtype),
            f"the part {jax.tree_util.keystr(path) or 'state'} of state and observation is "
            f"{old.dtype}{list(old.shape)} after reset and {new.dtype}{list(new.shape)} after step; make them alike",
            SpaceError,
        )
