"""The file protocol for controllers that cannot run Python: policies out, logs in.

A proposal is a directory DIR/proposals/NUMBER with `policy.safetensors`, `policy.onnx` and `proposal.json`, which
says what the log of its rollout has to look like. A log is one file:

- .csv: a header and one row per step: observation_0 …, action_0 …, reward, and perhaps terminated (0 or 1);
- .npz or .json: `observations` (T, O), `actions` (T, A), `rewards` (T,), and perhaps `terminated` and `proposal`.

Observations are those *before* each action, as everywhere.
"""

from __future__ import annotations

import csv
import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddopg.core.problem import Problem
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import MissingPackageError, TrajectoryError, require
from ddopg.storage.exports import POLICY
from ddopg.storage.onnx import to_onnx
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.support.files import write_atomically

PROPOSALS = "proposals"
MODEL, ABOUT = "policy.onnx", "proposal.json"
LARGEST_LOG = 2**30  # bytes
ARRAYS = ("observations", "actions", "rewards")


class Log(NamedTuple):
    """A rollout as it came in a file."""

    observations: Any  # (T, O)
    actions: Any  # (T, A)
    rewards: Any  # (T,)
    terminated: bool
    proposal: int | None  # whose rollout it is, if the file says so


def list_columns(problem: Problem) -> list[str]:
    """The header of a log in CSV; `terminated` may follow."""
    observations = [f"observation_{i}" for i in range(problem.observation_size)]
    return [*observations, *(f"action_{i}" for i in range(problem.action_size)), "reward"]


def write_proposal(directory: Path, number: int, purpose: str, seed: int, trained: TrainedPolicy) -> Path:
    """Write everything that a controller needs into a directory; `proposal.json` comes last.

    Args:
        directory: the run.
        number: the place of the proposal in the order of asking.
        purpose: why it is asked for.
        seed: what to reset a simulator with.
        trained: the policy to be rolled out.

    Returns:
        The directory of the proposal.

    Raises:
        ArtefactError: where a file cannot be written.
    """
    place, problem = directory / PROPOSALS / f"{number:04d}", trained.problem
    files = [trained.save(place / POLICY).name]
    with suppress(MissingPackageError):  # the safetensors file holds the same policy
        files.append(to_onnx(trained, place / MODEL).name)
    about = {
        "proposal": number,
        "purpose": purpose,
        "seed": seed,
        "policy": files,
        "observations": problem.observation_size,
        "actions": problem.action_size,
        "action_low": problem.low,
        "action_high": problem.high,
        "steps_at_most": problem.horizon,
        "columns_of_the_log": list_columns(problem),
    }
    write_atomically(place / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
    return place


def find_number(path: Path) -> int | None:
    """The number of the proposal in whose directory a log lies, if it lies in one."""
    place = path.absolute().parent
    return int(place.name) if place.parent.name == PROPOSALS and place.name.isdigit() else None


def read_log(path: Path, problem: Problem) -> Log:
    """Read a log in one of the three formats.

    Args:
        path: the file.
        problem: how many observations and actions a step has.

    Returns:
        The rollout as it stands in the file.

    Raises:
        TrajectoryError: whatever is wrong with it; the message names the file.
    """
    readers = {".csv": _read_csv, ".npz": _read_npz, ".json": _read_json}
    require(
        path.suffix in readers,
        f"a log is a file ending in {', '.join(readers)}, got {path}",
        TrajectoryError,
    )
    try:
        size = path.stat().st_size
        require(
            size <= LARGEST_LOG, f"{path} has {size} bytes, a log has at most {LARGEST_LOG}", TrajectoryError
        )
        log = readers[path.suffix](path, problem)
    except OSError as error:
        raise TrajectoryError(f"cannot read {path}: {error.strerror or error}; check the path") from error
    except (ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile, csv.Error) as error:
        if isinstance(error, TrajectoryError):
            raise
        raise TrajectoryError(f"{path} is not a log that can be read: {error!r}") from error
    return log


def log_to_trajectory(log: Log, path: Path, problem: Problem, theta: Any = None) -> Trajectory:
    """Make a trajectory of a log.

    Args:
        log: what stood in the file.
        path: the file, for the message of an error.
        problem: what the run is about.
        theta: the parameters that acted, if they are known.

    Returns:
        The trajectory, padded to the horizon.

    Raises:
        TrajectoryError: where the arrays do not fit together or the problem.
    """
    try:
        arrays = (log.observations, log.actions, log.rewards)
        return make_trajectory(theta, *arrays, horizon=problem.horizon, terminated=log.terminated)
    except TrajectoryError as error:
        raise TrajectoryError(f"{path}: {error}") from error


def _read_csv(path: Path, problem: Problem) -> Log:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True, strict=True))
    expected = list_columns(problem)
    found = list(rows[0]) if rows else []
    missing = [name for name in expected if name not in found]
    require(
        not missing,
        f"{path} has the columns {found}, missing are {missing}; expected {expected} and perhaps terminated",
        TrajectoryError,
    )
    table = np.array([[float(row[name]) for name in expected] for row in rows])
    split = problem.observation_size
    ended = [float(row.get("terminated") or 0) != 0 for row in rows]
    require(not any(ended[:-1]), f"{path} goes on after a step with terminated = 1", TrajectoryError)
    return Log(table[:, :split], table[:, split:-1], table[:, -1], ended[-1], None)


def _read_npz(path: Path, problem: Problem) -> Log:
    with np.load(path, allow_pickle=False) as file:
        return _read_table(path, {name: file[name] for name in file.files})


def _read_json(path: Path, problem: Problem) -> Log:
    table = json.loads(path.read_text(encoding="utf-8"))
    require(type(table) is dict, f"{path} must hold one JSON object", TrajectoryError)
    return _read_table(path, table)


def _read_table(path: Path, table: dict[str, Any]) -> Log:
    missing = [name for name in ARRAYS if name not in table]
    require(
        not missing,
        f"{path} holds {sorted(table)}, missing are {missing}; expected {', '.join(ARRAYS)} and perhaps terminated",
        TrajectoryError,
    )
    number = table.get("proposal")
    ended = np.ravel(table.get("terminated", False))
    require(not ended[:-1].any(), f"{path} goes on after a step with terminated = true", TrajectoryError)
    observations, actions, rewards = (table[name] for name in ARRAYS)
    number = None if number is None else int(np.asarray(number).item())
    return Log(observations, actions, rewards, bool(ended[-1]), number)
