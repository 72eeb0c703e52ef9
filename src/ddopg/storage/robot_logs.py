"""The file protocol for controllers that cannot run Python: policies out, logs in.

A proposal is a directory DIR/proposals/NUMBER with `policy.safetensors`, `policy.onnx` and `proposal.json`, which
says what the log of its rollout has to look like. A log is one file:

- .csv: a header and one row per step: observation_0 …, action_0 …, reward, and perhaps terminated (0 or 1);
- .npz or .json: `observations` (T, O), `actions` (T, A), `rewards` (T,), and perhaps `terminated` and `proposal`.

`log_formats` reads them; here every error of theirs becomes one of ours, with the name of the file.

Observations are those *before* each action, as everywhere.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ddopg.core.problem import Problem
from ddopg.core.state import Proposal
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import MissingPackageError, TrajectoryError, require
from ddopg.storage.exports import POLICY
from ddopg.storage.log_formats import Log, find_largest_text, list_columns, read_csv, read_json, read_npz
from ddopg.storage.onnx import to_onnx
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.support.files import write_atomically

PROPOSALS = "proposals"
MODEL, ABOUT = "policy.onnx", "proposal.json"
LARGEST_LOG = 2**30  # bytes
READERS = {".csv": read_csv, ".npz": read_npz, ".json": read_json}


def write_proposal(directory: Path, proposal: Proposal, trained: TrainedPolicy) -> Path:
    """Write everything that a controller needs into a directory; `proposal.json` comes last.

    Args:
        directory: the run.
        proposal: its number, why it is asked for, what to reset a simulator with, and the noise.
        trained: the policy to be rolled out.

    Returns:
        The directory of the proposal.

    Raises:
        ArtefactError: where a file cannot be written.
    """
    place, problem = directory / PROPOSALS / f"{proposal.number:04d}", trained.problem
    files = [trained.save(place / POLICY).name]
    with suppress(MissingPackageError):  # the safetensors file holds the same policy
        if not trained.policy.replayed:
            files.append(to_onnx(trained, place / MODEL).name)
    about = {
        "proposal": proposal.number,
        "purpose": proposal.purpose,
        "seed": proposal.seed,
        "policy": files,
        "observations": problem.observation_size,
        "actions": problem.action_size,
        "action_low": _finite_or_null(problem.low),
        "action_high": _finite_or_null(problem.high),
        "steps_at_most": problem.horizon,
        "columns_of_the_log": list_columns(problem),
        **({"noise_on_raw_output": proposal.noise} if proposal.noise else {}),
        **_describe_parameters(trained),
    }
    write_atomically(place / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
    return place


def _finite_or_null(ends: Sequence[float]) -> list[float | None]:
    """JSON has no infinity: an end that is none is null."""
    return [end if math.isfinite(end) else None for end in ends]


def _describe_parameters(trained: TrainedPolicy) -> dict[str, Any]:
    """Of a controller: the values, and the units of those that have one."""
    declared = trained.policy.parameters
    units = {each.name: each.unit for each in declared if each.unit}
    return {"parameters": trained.parameters, "units": units} if declared else {}


def find_number(path: Path) -> int | None:
    """The number of the proposal in whose directory a log lies, if it lies in one."""
    place = path.absolute().parent
    return (
        int(place.name)
        if place.parent.name == PROPOSALS and place.name.isascii() and place.name.isdigit()
        else None
    )


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
    require(
        path.suffix in READERS,
        f"a log is a file ending in {', '.join(READERS)}, got {_make_printable(path)}",
        TrajectoryError,
    )
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            about = os.fstat(file.fileno())
            _require_ordinary(about, LARGEST_LOG if path.suffix == ".npz" else find_largest_text(problem))
            return READERS[path.suffix](file, problem)
    except OSError as error:
        raise TrajectoryError(
            _make_printable(f"cannot read {path}: {error.strerror or error}; check the path")
        ) from error
    except (
        Exception
    ) as error:  # csv, json, zipfile, zlib and NumPy raise twenty kinds on files made to do harm
        what = str(error) if isinstance(error, TrajectoryError) else f"{type(error).__name__}: {error}"
        raise TrajectoryError(_make_printable(f"{path} is not a log that can be read: {what}")) from error


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
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused
            return make_trajectory(theta, *log[:3], horizon=problem.horizon, terminated=log.terminated)
    except TrajectoryError as error:
        raise TrajectoryError(_make_printable(f"{path}: {error}")) from error


def _open_without_waiting(path: str, flags: int) -> int:
    """Opening a FIFO would wait for somebody to write into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_ordinary(about: os.stat_result, largest: int) -> None:
    require(
        stat.S_ISREG(about.st_mode),
        "it is a FIFO, a device or the like; give an ordinary file",
        TrajectoryError,
    )
    require(
        about.st_size <= largest,
        f"it has {about.st_size} bytes, a log of this problem has at most {largest}; leave out what is not asked for",
        TrajectoryError,
    )


def _make_printable(text: object) -> str:
    """Names of files and contents of files may hold what no terminal can show."""
    return str(text).encode("utf-8", "backslashreplace").decode()
