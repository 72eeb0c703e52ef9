"""Episodes of Minari data sets, of whatever made them. Nothing of a data set is run: its environment is not made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten

from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import ArtefactError, SpaceError, TrajectoryError, require, unknown
from ddopg.minari.library import ANSWER, KEY, import_minari, require_name


class Episode(NamedTuple):
    """An episode of a data set: arrays as `make_trajectory` and `agent.add` take them."""

    observations: np.ndarray  # (T, O) before each action; dictionaries and the like are flattened
    actions: np.ndarray  # (T, A)
    rewards: np.ndarray  # (T,)
    terminated: bool
    truncated: bool
    seed: int  # −1: unknown
    theta: np.ndarray | None  # (D,) the parameters that acted, where the data set knows them


def episodes(dataset: Any) -> Iterator[Episode]:
    """The episodes of a Minari data set, whoever made it.

    Actions are those executed, except in our own exports: there, those that the policy asked for.

    Args:
        dataset: its name, or the `MinariDataset` itself.

    Returns:
        An iterator over records of arrays without padding.

    Raises:
        SpaceError: if actions or observations are not vectors of real numbers.
        MissingPackageError: without the extra `minari`.

    Example:
        >>> _ = ddopg.DDOPG("cartpole", seed=0, run_directory="run").learn(total_episodes=2)
        >>> dataset = ddopg.minari.export("run", "mine/two-v0")
        >>> [episode.observations.shape[1] for episode in episodes(dataset)]
        [4, 4]
    """
    dataset = _load(dataset)
    space, action_space = dataset.observation_space, dataset.action_space
    require(
        isinstance(action_space, gym.spaces.Box) and np.issubdtype(action_space.dtype, np.floating),
        f"the actions of a data set must be vectors of real numbers (a Box), got {action_space}; DD-OPG acts "
        "continuously: choose another data set, or map its actions onto a vector yourself",
        SpaceError,
    )
    require(
        space.is_np_flattenable,
        f"the observations of the data set cannot be made vectors of one length: {space}",
        SpaceError,
    )
    notes = dataset.storage.get_episode_metadata(dataset.episode_indices)
    for data, note in zip(dataset.iterate_episodes(), notes, strict=True):
        count = len(data.rewards)
        if count == 0:
            continue
        asked = (data.infos or {}).get(ANSWER) if "theta" in note else None
        actions = data.actions if asked is None else asked[1:]
        yield Episode(
            observations=_flatten_observations(space, data.observations, count),
            actions=np.asarray(actions, np.float32).reshape(count, -1),
            rewards=np.asarray(data.rewards, np.float64),
            terminated=bool(data.terminations[-1]),
            truncated=bool(data.truncations[-1]),
            seed=int(-1 if note.get("seed") is None else note["seed"]),
            theta=np.asarray(note["theta"], np.float32) if "theta" in note else None,
        )


def trajectories(dataset: Any, horizon: int | None = None) -> list[Trajectory]:
    """The episodes as trajectories, which `agent.add` takes.

    Our own come back bit for bit; in those of others θ is empty, because nobody knows it.

    Args:
        dataset: its name, or the `MinariDataset` itself.
        horizon: the longest episode; that of the run or of the environment if not given.

    Returns:
        One trajectory per episode.

    Raises:
        SpaceError: if actions or observations are not vectors of real numbers.
        MissingPackageError: without the extra `minari`.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0, run_directory="run").learn(total_episodes=2)
        >>> again = trajectories(ddopg.minari.export("run", "mine/again-v0"))
        >>> bool((again[0].actions == agent.state.memory.trajectories[0].actions).all())
        True
    """
    dataset = _load(dataset)
    horizon = horizon or _find_horizon(dataset)
    return [
        make_trajectory(
            episode.theta,
            *episode[:3],
            horizon=horizon,
            terminated=episode.terminated,
            truncated=episode.truncated,
            seed=episode.seed,
        )
        for episode in episodes(dataset)
    ]


def _find_horizon(dataset: Any) -> int:
    """The longest that an episode may be, as far as the data set says it."""
    own = dataset.storage.metadata.get(KEY, {}).get("problem", {}).get("horizon")
    limit = own or (dataset.env_spec.max_episode_steps if dataset.env_spec is not None else None)
    if limit is None:
        raise TrajectoryError(
            f"the data set {dataset.id} does not say how long an episode may be; give the horizon of your learner: "
            "trajectories(dataset, horizon=200)"
        )
    return int(limit)


def _flatten_observations(space: gym.Space, observations: Any, count: int) -> np.ndarray:
    """(count, O), without the observation after the last action."""
    if isinstance(space, gym.spaces.Box):
        return np.asarray(observations[:count], np.float32).reshape(count, -1)
    rows = [flatten(space, _take_step(observations, step)) for step in range(count)]
    return np.asarray(rows, np.float32)


def _take_step(tree: Any, step: int) -> Any:
    """One step of what may be dictionaries and tuples of arrays."""
    if isinstance(tree, dict):
        return {name: _take_step(branch, step) for name, branch in tree.items()}
    return tuple(_take_step(branch, step) for branch in tree) if isinstance(tree, tuple) else tree[step]


def _load(dataset: Any) -> Any:
    """The data set of a name, which must be on this machine already."""
    if not isinstance(dataset, str):
        return dataset
    require_name(dataset)
    local = import_minari().list_local_datasets()
    if dataset not in local:
        raise ArtefactError(
            f"{unknown('Minari data set on this machine', dataset, local)}; get public ones with minari download"
        )
    # Without its spaces, Minari would make the environment that the file names, from whatever module it names.
    require(
        {"observation_space", "action_space"} <= local[dataset].keys(),
        f"the data set {dataset} does not say its spaces, and a file may not say which environment to make; if you "
        "trust it, load it yourself with minari.load_dataset and pass what you get",
        ArtefactError,
    )
    return import_minari().load_dataset(dataset)
