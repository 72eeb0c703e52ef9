"""Episodes of Minari data sets, of whatever made them. Nothing of a data set is run: its environment is not made."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten

from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import ArtefactError, SpaceError, require, unknown
from ddopg.minari.library import ANSWER, find_place, import_minari, require_name
from ddopg.minari.metadata import check_metadata, explain_errors, find_horizon, require_small


class Episode(NamedTuple):
    """An episode of a data set: arrays as `make_trajectory` and `agent.add` take them."""

    observations: np.ndarray  # (T, O) before each action; dictionaries and the like are flattened
    actions: np.ndarray  # (T, A)
    rewards: np.ndarray  # (T,)
    terminated: bool
    truncated: bool
    seed: int  # −1: unknown
    theta: np.ndarray | None  # (D,) the parameters that acted, where the data set knows them


def episodes(dataset: Any) -> Generator[Episode, None, None]:
    """The episodes of a Minari data set, whoever made it.

    Actions are those executed, except in our own exports: there, those that the policy asked for.

    Args:
        dataset: its name, or the `MinariDataset` itself.

    Returns:
        An iterator over records of arrays without padding.

    Raises:
        SpaceError: if actions or observations are not vectors of real numbers.
        ArtefactError: if the data set is damaged, or not on this machine.
        MissingPackageError: without the extra `minari`.

    Example:
        >>> _ = ddopg.DDOPG("cartpole", seed=0, run_directory="run").learn(total_episodes=2)
        >>> dataset = ddopg.minari.export("run", "mine/two-v0")
        >>> [episode.observations.shape[1] for episode in episodes(dataset)]
        [4, 4]
    """
    dataset = _load(dataset)
    with explain_errors(dataset.id):
        space = dataset.observation_space
        _require_vectors(space, dataset.action_space)
        storage, indices = dataset.storage, dataset.episode_indices
        with (
            _letting_go(storage.get_episodes(indices)) as found,
            _letting_go(storage.get_episode_metadata(indices)) as notes,
        ):
            for data, note in zip(found, notes, strict=True):
                if len(data["rewards"]) > 0:
                    yield _make_episode(space, SimpleNamespace(**data), note)


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
        ArtefactError: if the data set is damaged, or not on this machine.
        TrajectoryError: if an episode is longer than the horizon, or the data set does not say a likely one.
        MissingPackageError: without the extra `minari`.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0, run_directory="run").learn(total_episodes=2)
        >>> again = trajectories(ddopg.minari.export("run", "mine/again-v0"))
        >>> bool((again[0].actions == agent.state.memory.trajectories[0].actions).all())
        True
    """
    dataset = _load(dataset)
    with explain_errors(dataset.id), np.errstate(over="ignore"):
        _require_vectors(dataset.observation_space, dataset.action_space)
        horizon = horizon or find_horizon(dataset)
        with closing(episodes(dataset)) as found:
            return [
                make_trajectory(
                    episode.theta,
                    *episode[:3],
                    horizon=horizon,
                    terminated=episode.terminated,
                    truncated=episode.truncated,
                    seed=episode.seed,
                )
                for episode in found
            ]


@contextmanager
def _letting_go(found: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """Close what Minari gives at the end of the block: a generator keeps its file open as long as it lives."""
    try:
        yield found
    finally:
        if isinstance(found, Generator):
            found.close()


def _require_vectors(space: gym.Space, action_space: gym.Space) -> None:
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
    require_small(space)


def _make_episode(space: gym.Space, data: Any, note: dict[str, Any]) -> Episode:
    count = len(data.rewards)
    asked = (data.infos or {}).get(ANSWER) if "theta" in note else None
    actions = data.actions if asked is None else asked[1:]
    seed = note.get("seed")
    return Episode(
        observations=_flatten_observations(space, data.observations, count),
        actions=np.asarray(actions, np.float32).reshape(count, -1),
        rewards=np.asarray(data.rewards, np.float64),
        terminated=bool(data.terminations[-1]),
        truncated=bool(data.truncations[-1]),
        seed=int(-1 if seed is None else seed),
        theta=_read_parameters(note["theta"]) if "theta" in note else None,
    )


def _read_parameters(theta: Any) -> np.ndarray:
    """(D,)"""
    array = np.asarray(theta)
    require(
        array.ndim == 1 and array.dtype.kind == "f" and bool(np.isfinite(array).all()),
        f"theta of an episode must be a vector of finite real numbers, got {array.dtype} of shape {array.shape}",
        ArtefactError,
    )
    return array.astype(np.float32)


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
    library = import_minari()
    with explain_errors(dataset), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about other data sets, and what it would like to know
        place = find_place(dataset)
        if not place.is_dir():
            local = library.list_local_datasets()
            raise ArtefactError(
                f"{unknown('Minari data set on this machine', dataset, local)}; get public ones with minari download"
            )
        check_metadata(dataset, place)
        return library.load_dataset(dataset)
