"""The rollouts of a run as a Minari data set.

A Minari episode has one observation more than steps: the one after the last action. A run does not store it, because
nothing is learnt from it. Where the environment is at hand, the rollout is played again from its seed with the stored
actions; if every observation and reward comes out the same, so does the last observation. Else the latest that is
known is repeated, and the episode says so.
"""

from __future__ import annotations

import copy
import errno
import math
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg._version import __version__
from ddopg.core.types import Description, Trajectory
from ddopg.envs.adapter import get_env_id, make
from ddopg.errors import ArtefactError, DDOPGError, StoreError, require
from ddopg.minari.library import (
    ANSWER,
    HOME,
    KEY,
    create_namespace,
    find_home,
    heal_dataset,
    import_minari,
    locate_old,
    require_name,
)
from ddopg.rollouts.stepping import iterate_steps
from ddopg.storage.reading import read_rollouts
from ddopg.storage.rows import Rollout
from ddopg.support.files import exchange, remove_stale_drafts
from ddopg.support.records import to_dict

REPLAYED, REPEATED = "replayed", "repeated"
ROOM = 25_000  # bytes of an episode in a file of HDF5, its arrays aside (measured: 19,400)
MOST_PARAMETERS = 15_000  # of a policy in an episode's metadata: HDF5 has room for 64 kB


def export(
    run_directory: str | Path,
    name: str,
    env: gym.Env | str | None = None,
    *,
    overwrite: bool = False,
    author: str | None = None,
) -> Any:
    """Write every rollout of a run as a Minari data set.

    It goes where Minari keeps its data sets: `MINARI_DATASETS_PATH`, or below the home directory.

    Args:
        run_directory: the run, finished or not.
        name: of the data set, `namespace/name-v0`.
        env: the environment, where the run does not know it by a registered name.
        overwrite: replace a data set of that name.
        author: who made the data, for the metadata.

    Returns:
        The `MinariDataset`.

    Raises:
        ArtefactError: if the run holds no rollout, cannot be read, or a data set of that name is there.
        MissingPackageError: without the extra `minari`.

    Example:
        >>> _ = ddopg.DDOPG("cartpole", seed=0, run_directory="run").learn(total_episodes=3)
        >>> export("run", "mine/cartpole-v0").total_episodes
        3
    """
    library = import_minari()
    require_name(name)
    about, rollouts = read_rollouts(Path(run_directory))
    require(len(rollouts) > 0, f"{run_directory} holds no rollout yet; train first", ArtefactError)
    env = make(env) if isinstance(env, str) else env or _make_environment(about)
    last = [_replay_last_observation(env, rollout.trajectory) for rollout in rollouts]
    with _replace_dataset(name, overwrite, _estimate_size(rollouts)), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about what it would like to know besides
        dataset = library.create_dataset_from_buffers(
            name,
            [_make_buffer(one, seen, about, env) for one, seen in zip(rollouts, last, strict=True)],
            env=_copy_spec(env, about),
            observation_space=_make_observation_space(
                env and env.observation_space, about.problem.observation_size
            ),
            action_space=_make_action_space(env, about),
            algorithm_name="DD-OPG",
            author=author,
            description=f"All {len(rollouts)} rollouts of a run of ddopg {about.version}, in order.",
            requirements=["ddopg"] if (get_env_id(env) or "").startswith("ddopg/") else None,
        )
        dataset.storage.update_metadata({KEY: _describe_dataset(about, last)})
        dataset.storage.update_episode_metadata(map(_describe_episode, rollouts, last))
    return library.load_dataset(name)


class _Remembering(gym.Wrapper):
    """Keeps the latest observation."""

    latest: Any = None

    def step(self, action: Any) -> Any:
        returned = self.env.step(action)
        self.latest = returned[0]
        return returned


def _replay_last_observation(env: gym.Env | None, trajectory: Trajectory) -> np.ndarray | None:
    """What is seen after the last action, if the rollout can be played again; else None."""
    if env is None or trajectory.seed < 0:
        return None
    count, answers = trajectory.length, iter(trajectory.actions)
    watched: _Remembering = _Remembering(env)
    try:
        played = list(iterate_steps(watched, lambda observation: next(answers), trajectory.seed, count))
    except DDOPGError:
        return None
    same = len(played) == count and all(  # but for the rounding of compiled rollouts
        np.allclose(seen, trajectory.observations[i], rtol=1e-5, atol=1e-6)
        and math.isclose(reward, trajectory.rewards[i], rel_tol=1e-6, abs_tol=1e-9)
        for i, (seen, _, reward, _, _) in enumerate(played)
    )
    last = np.asarray(watched.latest, np.float32).ravel()
    return last if same and np.isfinite(last).all() else None


def _make_environment(about: Description) -> gym.Env | None:
    """The run's own environment, where it is registered here; a file may not say which module to import."""
    if about.environment is None or ":" in about.environment:
        return None
    try:
        return make(about.environment)
    except DDOPGError:
        return None


def _copy_spec(env: gym.Env | None, about: Description) -> Any:
    """How the environment is made again, with the run's own time limit and without wrappers of others."""
    if env is None or env.unwrapped.spec is None or env.unwrapped.spec.id not in gym.registry:
        return None
    spec = copy.deepcopy(env.unwrapped.spec)
    spec.max_episode_steps = about.problem.horizon
    return spec


def _make_observation_space(space: Any, size: int) -> gym.spaces.Box:
    """What the run stores of the observation space: float32."""
    if space is None:
        return gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return gym.spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)


def _make_action_space(env: gym.Env | None, about: Description) -> gym.spaces.Box:
    low, high = (np.asarray(bound, np.float32) for bound in (about.problem.low, about.problem.high))
    shape = low.shape if env is None else env.action_space.shape
    return gym.spaces.Box(low.reshape(shape), high.reshape(shape), dtype=np.float32)


def _make_buffer(rollout: Rollout, last: np.ndarray | None, about: Description, env: gym.Env | None) -> Any:
    """A Minari episode: actions as they can be executed, what the policy asked for beside them."""
    from minari.data_collector import EpisodeBuffer

    trajectory = rollout.trajectory
    count = trajectory.length
    space, actions = _make_action_space(env, about), trajectory.actions[:count]
    seen = trajectory.observations[:count]
    seen = np.concatenate([seen, seen[-1:] if last is None else last[None]])
    shape = (about.problem.observation_size,) if env is None else env.observation_space.shape
    ended = np.zeros((2, count), bool)
    ended[:, -1] = trajectory.terminated, trajectory.truncated
    return EpisodeBuffer(
        seed=trajectory.seed if trajectory.seed >= 0 else None,
        observations=seen.reshape(count + 1, *(shape or ())),
        actions=np.clip(actions.reshape(count, *space.shape), space.low, space.high),
        rewards=trajectory.rewards[:count],
        terminations=ended[0],
        truncations=ended[1],
        infos={ANSWER: np.concatenate([np.full_like(actions[:1], np.nan), actions])},
    )


def _describe_dataset(about: Description, last: list[np.ndarray | None]) -> dict[str, Any]:
    """What is said about the whole data set."""
    replayed = sum(seen is not None for seen in last)
    return {
        "version": __version__,
        "environment": about.environment,
        "problem": about.problem._asdict(),
        "config": to_dict(about.config),
        "last_observations": {REPLAYED: replayed, REPEATED: len(last) - replayed},
    }


def _describe_episode(rollout: Rollout, last: np.ndarray | None) -> dict[str, Any]:
    theta = rollout.trajectory.theta
    return {
        **({"theta": theta} if len(theta) <= MOST_PARAMETERS else {}),
        "rollout": rollout.number,
        "proposal": rollout.proposal,
        "purpose": rollout.purpose,
        "return": rollout.value,
        "last_observation": REPEATED if last is None else REPLAYED,
    }


def _estimate_size(rollouts: list[Rollout]) -> int:
    """About how many bytes the data set will have."""
    arrays = (array for one in rollouts for array in one.trajectory[:4])
    return ROOM * len(rollouts) + 2 * sum(array.nbytes for array in arrays)


@contextmanager
def _replace_dataset(name: str, overwrite: bool, size: int) -> Iterator[None]:
    """The data set is written elsewhere and takes its place whole; one that is there already is kept until then."""
    path = heal_dataset(name)
    require(
        overwrite or not path.exists(),
        f"there is a Minari data set {name} already, in {path}; choose another version, or replace it with "
        "overwrite=True (--overwrite)",
        StoreError,
    )
    home = find_home()
    free = shutil.disk_usage(home).free
    require(  # HDF5 that finds the disk full says so a hundred times
        free >= size,
        f"cannot write {path}: {os.strerror(errno.ENOSPC)}; it needs about {size:,} bytes, there are {free:,}. Make "
        f"room, or set {HOME} to another place",
        StoreError,
    )
    draft = home.with_name(f".{home.name}.{os.getpid()}.draft")
    try:
        with _work_in(draft):
            yield
        create_namespace(name)
        if not (path.exists() and exchange(draft / name, path)):
            if path.exists():
                path.rename(locate_old(path))
            (draft / name).rename(path)
        remove_stale_drafts(home, path)
    except BaseException as error:
        if isinstance(error, OSError) and not isinstance(error, DDOPGError):
            raise StoreError(
                f"cannot write {path}: {error.strerror or error}; make room, or set {HOME} to another place"
            ) from error
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            heal_dataset(name)


@contextmanager
def _work_in(draft: Path) -> Iterator[None]:
    """Let Minari keep its data sets there, within the block."""
    shutil.rmtree(draft, ignore_errors=True)  # of an earlier process with this number, which was killed
    before = os.environ.get(HOME)
    os.environ[HOME] = str(draft)
    try:
        yield
    finally:
        os.environ.pop(HOME)
        if before is not None:
            os.environ[HOME] = before
