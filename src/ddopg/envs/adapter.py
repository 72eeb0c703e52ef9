"""Any Gymnasium environment with Box spaces, seen as a problem: sizes, action range, horizon.

`make` accepts the short names of the package's tasks and every registered id; what cannot be learnt on is refused
with a sentence that says how to make it fit.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit

from ddopg.core.problem import Problem
from ddopg.envs import ENVS
from ddopg.envs.nested import flatten_nested
from ddopg.errors import SpaceError, require, require_given, require_whole, unknown

SHORT_NAMES = {name: identifier for name, (identifier, _) in ENVS.items()}


def make(name: str, **options: Any) -> gym.Env:
    """Make the environment of that name.

    Args:
        name: `cartpole`, `mountaincar`, `swimmer`, `swingup`, or any Gymnasium id; `module:Name-v0` imports the
            module first.
        options: what `gymnasium.make` takes.

    Returns:
        The environment; nested observations (dicts, tuples) come as one vector.

    Raises:
        UnknownNameError: there is no such environment.
        MissingPackageError: mountaincar without Box2D.
        SpaceError: it needs a module or a package that is not there, or its observations hold images.

    Example:
        >>> make("cartpole").spec.id
        'ddopg/Cartpole-v0'
    """
    identifier = SHORT_NAMES.get(name, name)
    try:
        return flatten_observations(gym.make(identifier, **options))
    except ModuleNotFoundError as error:
        raise SpaceError(
            f"{identifier}: its module cannot be imported: {error}; put its directory on PYTHONPATH, or call "
            "`python -m ddopg` instead of `ddopg` where it is in the current one"
        ) from error
    except gym.error.DependencyNotInstalled as error:
        raise SpaceError(f"{identifier} needs a package that is not installed: {error}") from error
    except gym.error.Error as error:
        raise unknown("environment", name, {*SHORT_NAMES, *gym.registry}) from error


def flatten_observations(env: gym.Env) -> gym.Env:
    """Make nested observations (dicts, tuples, choices) one vector, by Gymnasium's wrapper; leave others alone."""
    space = env.observation_space
    if isinstance(space, gym.spaces.Box) or not space.is_np_flattenable:
        return env
    _require_no_images(space)
    return gym.wrappers.FlattenObservation(env)


def to_vector(env: gym.Env | None, observation: Any) -> Any:
    """Turn nested observations, one or a batch, into what `flatten_observations` makes of them; leave others."""
    if isinstance(env, gym.wrappers.FlattenObservation) and isinstance(observation, dict | tuple | int):
        return flatten_nested(env.env.observation_space, observation)
    return observation


def require_registered(name: str, option: str) -> str:
    """Return the name of an environment from a file, unless it names a module: a file must not have one imported.

    Args:
        name: how the file says to make the environment.
        option: how a user gives the environment, with its name in braces, such as `--env {}`.

    Raises:
        SpaceError: if the name has a module, or is not known here.

    Example:
        >>> require_registered("cartpole", "--env {}")
        'cartpole'
    """
    require(
        ":" not in name,
        f"trained on {name}; a file may not say which module to import: if you trust this one, add "
        f"{option.format(name)}",
        SpaceError,
    )
    try:
        gym.spec(SHORT_NAMES.get(name, name))
    except gym.error.Error as error:
        module = option.format(f"MODULE:{name}")
        raise SpaceError(
            f"trained on {name}, which is not registered here; name the module that registers it: {module}"
        ) from error
    return name


def problem_from_env(env: gym.Env | gym.vector.VectorEnv, horizon: int | None = None) -> Problem:
    """Describe the problem that an environment poses, or each copy in a vector of them.

    Args:
        env: its spaces must be boxes.
        horizon: the longest episode in steps; the environment's own time limit, if not given.

    Raises:
        SpaceError: the method cannot work with these spaces, or there is no time limit.

    Example:
        >>> problem_from_env(make("cartpole"))
        Problem(observation_size=4, low=(-10.0,), high=(10.0,), horizon=100)
    """
    if horizon is None:
        horizon = find_time_limit(env)
    if isinstance(env, gym.vector.VectorEnv):
        return problem_from_spaces(env.single_observation_space, env.single_action_space, horizon)
    return problem_from_spaces(env.observation_space, env.action_space, horizon)


def find_time_limit(env: gym.Env | gym.vector.VectorEnv) -> int | None:
    """Find the longest episode: that of its registration, or else the shortest of its TimeLimit wrappers."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def problem_from_spaces(observation_space: Any, action_space: Any, horizon: int | None) -> Problem:
    """Describe the problem that two spaces and a horizon pose; raises `SpaceError` like `problem_from_env`."""
    from ddopg.core.problem import (
        Problem,  # with JAX, which the process of an isolated environment does not need
    )

    _require_no_images(observation_space)
    _require_box("observation", observation_space, "gymnasium.wrappers.FlattenObservation")
    _require_box("action", action_space, "a wrapper that maps a vector onto it; DD-OPG acts continuously")
    message = (
        f"an episode needs a time limit of at least one step, got {horizon}; pass horizon=... (--horizon), or make "
        "the environment with max_episode_steps=..."
    )
    horizon = require_whole("the horizon", require_given(horizon, message, SpaceError))
    require(horizon >= 1, message, SpaceError)
    return Problem(
        observation_size=math.prod(observation_space.shape),
        low=tuple(map(float, np.ravel(action_space.low))),
        high=tuple(map(float, np.ravel(action_space.high))),
        horizon=horizon,
    )


def require_env(env: object) -> None:
    """Refuse what cannot be wrapped as an environment, such as an id."""
    require(
        isinstance(env, gym.Env),
        f"a wrapper goes around an environment, such as gymnasium.make('Pendulum-v1') gives, got {env!r:.80}",
        SpaceError,
    )


def get_env_id(env: gym.Env | gym.vector.VectorEnv | None) -> str | None:
    """Return its Gymnasium id, if there is an environment and it has one."""
    return env.spec.id if env is not None and env.spec is not None else None


def problem_options(problem: Problem, env: gym.Env | str | None) -> dict[str, Any]:
    """Give the arguments of `DDOPG` for a known problem: the horizon, and the spaces if there is no environment."""
    if env is not None:
        return {"horizon": problem.horizon}
    return {
        "observation_space": gym.spaces.Box(-np.inf, np.inf, (problem.observation_size,)),
        "action_space": gym.spaces.Box(np.array(problem.low), np.array(problem.high), dtype=np.float64),
        "horizon": problem.horizon,
    }


def define_problem(
    env: gym.Env | None, observation_space: Any, action_space: Any, horizon: int | None
) -> Problem:
    """Describe the problem of an environment, or of the spaces and the horizon that stand for one."""
    require(
        not isinstance(env, gym.vector.VectorEnv),
        "a learner takes one environment, got a vector of them; give one, and learn(parallel=n) plays n at once",
        SpaceError,
    )
    if env is not None:
        return problem_from_env(env, horizon)
    require(
        observation_space is not None and action_space is not None,
        "a learner needs an environment, or observation_space, action_space and horizon; got "
        f"{observation_space}, {action_space} and {horizon}",
    )
    return problem_from_spaces(observation_space, action_space, horizon)


def takes_unclipped_actions(env: gym.Env | gym.vector.VectorEnv) -> bool:
    """Say whether the environment clips actions itself, and wants to see what the policy really asked for."""
    return bool(env.unwrapped.metadata.get("unclipped_actions", False))


def find_running_statistics(env: gym.Env | None) -> list[str]:
    """Name the wrappers whose running statistics change what the environment shows or pays, outermost first."""
    found = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, NormalizeObservation | NormalizeReward):
            found.append(type(env).__name__)
        env = env.env
    return found + getattr(env, "running_statistics", [])  # of an isolated one, which has been asked


def warn_of_running_statistics(env: gym.Env | None) -> None:
    """Warn whoever makes a learner with such wrappers: a policy file does not hold their statistics."""
    if found := find_running_statistics(env):
        warnings.warn(
            f"the environment has the wrapper {' and '.join(found)}, whose running statistics are not in the policy "
            "file and change from rollout to rollout: the policy acts differently without them, and returns cannot "
            "be compared; leave it out (the preset 'default' needs no scaling), or scale by constants, with "
            "gymnasium.wrappers.TransformObservation or TransformReward",
            stacklevel=3,
        )


def _require_no_images(space: Any) -> None:
    """Refuse pixels, alone or in a nested space."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        for part in space.values() if isinstance(space, gym.spaces.Dict) else space:
            _require_no_images(part)
    if isinstance(space, gym.spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2:
        raise SpaceError(
            f"the observation space holds images, {space}; DD-OPG learns policies of few parameters: give it the "
            "positions and velocities behind the picture, or a few features of it, by a gymnasium.ObservationWrapper"
        )


def _require_box(what: str, space: Any, remedy: str) -> None:
    """Refuse what is no vector of real numbers. A space takes long to print, so only then."""
    if not isinstance(space, gym.spaces.Box):
        complaint = f"must be a Box (a vector of real numbers), got {space}; use {remedy}"
    elif what == "action" and not np.issubdtype(space.dtype, np.floating):
        complaint = f"must hold real numbers, got dtype {space.dtype}; use {remedy}"
    elif math.prod(space.shape) == 0:
        complaint = f"is empty: {space}"
    else:
        return
    raise SpaceError(f"the {what} space {complaint}")
