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

from ddopg.agent import DDOPG, Proposal
from ddopg.core.imitation import root_mean_square
from ddopg.core.problem import Problem
from ddopg.core.state import require_waiting
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import MissingPackageError, TrajectoryError, require
from ddopg.storage import onnx as deploy
from ddopg.storage.exports import POLICY
from ddopg.support.files import write_atomically

PROPOSALS = "proposals"
MODEL, ABOUT = "policy.onnx", "proposal.json"
LARGEST_LOG = 2**30  # bytes
SUSPICIOUS = 1e-3  # of an action's unit: a log whose actions are further from the policy's gets a remark
ARRAYS = ("observations", "actions", "rewards")


class Log(NamedTuple):
    """A rollout as it came in a file."""

    observations: Any  # (T, O)
    actions: Any  # (T, A)
    rewards: Any  # (T,)
    terminated: bool
    proposal: int | None  # whose rollout it is, if the file says so


def columns(problem: Problem) -> list[str]:
    """The header of a log in CSV; `terminated` may follow."""
    observations = [f"observation_{i}" for i in range(problem.observation_size)]
    return [*observations, *(f"action_{i}" for i in range(problem.action_size)), "reward"]


def write_proposal(directory: Path, proposal: Proposal) -> Path:
    """The directory of a proposal, with everything that a controller needs; `proposal.json` comes last."""
    place = directory / PROPOSALS / f"{proposal.number:04d}"
    trained, problem = proposal.trained, proposal.trained.problem
    files = [trained.save(place / POLICY).name]
    with suppress(MissingPackageError):  # the safetensors file holds the same policy
        files.append(deploy.to_onnx(trained, place / MODEL).name)
    about = {
        "proposal": proposal.number,
        "purpose": proposal.purpose,
        "seed": proposal.seed,
        "policy": files,
        "observations": problem.observation_size,
        "actions": problem.action_size,
        "action_low": problem.low,
        "action_high": problem.high,
        "steps_at_most": problem.horizon,
        "columns_of_the_log": columns(problem),
    }
    write_atomically(place / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
    return place


def read_log(path: Path, problem: Problem) -> Log:
    """A log in one of the three formats; whatever is wrong with it is a `TrajectoryError` that names the file."""
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


def packed(log: Log, path: Path, problem: Problem, theta: Any = None) -> Trajectory:
    """The log as a trajectory, of the policy that acted if it is known."""
    try:
        arrays = (log.observations, log.actions, log.rewards)
        return make_trajectory(theta, *arrays, horizon=problem.horizon, terminated=log.terminated)
    except TrajectoryError as error:
        raise TrajectoryError(f"{path}: {error}") from error


def proposal_of(agent: DDOPG, path: Path, log: Log, number: int | None) -> Proposal:
    """Whose rollout a log is: told, or by what is in the file, or by where the file lies, or the only one waiting."""
    waiting = {proposal.number: proposal for proposal in agent.pending}
    if number is None:
        number = log.proposal
    if number is None and path.absolute().parent.parent.name == PROPOSALS:
        number = int(path.absolute().parent.name) if path.absolute().parent.name.isdigit() else None
    if number is None and len(waiting) == 1:
        (number,) = waiting
    listed = ", ".join(map(str, waiting)) or "none"
    require(
        number is not None,
        f"{path} does not say which proposal was rolled out, and {len(waiting)} are waiting ({listed}); give "
        "--proposal NUMBER, or put the file into the proposal's directory",
        TrajectoryError,
    )
    assert number is not None
    require_waiting(waiting, number)
    return waiting[number]


def deviation(agent: DDOPG, trajectory: Trajectory) -> str:
    """A sentence where the logged actions are not the policy's: it was not the one that ran, or time slipped."""
    low, high = np.asarray(agent.problem.low), np.asarray(agent.problem.high)
    shown = trajectory.actions[: trajectory.length]
    own = np.asarray(agent.policy.act(trajectory.theta, trajectory.observations[: trajectory.length]))
    apart = np.minimum(root_mean_square(shown - own), root_mean_square(shown - np.clip(own, low, high)))
    if np.all(apart <= SUSPICIOUS * np.asarray(agent.policy.action_scale)):
        return ""
    return (
        f"the logged actions differ from the policy's by {np.array2string(apart, precision=3)} (root mean square): "
        "is each observation the one before its action, and did this policy run?"
    )


def _read_csv(path: Path, problem: Problem) -> Log:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True, strict=True))
    expected = columns(problem)
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
        return _from_table(path, {name: file[name] for name in file.files})


def _read_json(path: Path, problem: Problem) -> Log:
    table = json.loads(path.read_text(encoding="utf-8"))
    require(type(table) is dict, f"{path} must hold one JSON object", TrajectoryError)
    return _from_table(path, table)


def _from_table(path: Path, table: dict[str, Any]) -> Log:
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
