"""Reading a run: of an open store part by part (`fetch_…`), or of a directory at one instant (`read_…`).

Reading a directory takes no lock and writes nothing, so it works while another process goes on with the run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddopg.core.memory import Memory, with_columns
from ddopg.core.policy_building import build_policy
from ddopg.core.state import State
from ddopg.core.types import Description, Evaluation, Failure
from ddopg.errors import ArtefactError, require
from ddopg.policies import Policy
from ddopg.storage import database, rows
from ddopg.storage.codec import decode_state
from ddopg.storage.guard import READING, guard_statements
from ddopg.storage.rows import Rollout

ROLLOUTS = "SELECT * FROM rollout ORDER BY number"
LOGGED = ("steps", "return", "length", "incumbent", "predicted", "lower_bound", "ess")


class Reading(NamedTuple):
    """All of a run, checked."""

    directory: Path
    about: Description
    state: State
    log: list[dict[str, Any]]  # what each `tell` reported
    purposes: list[str]  # of each rollout
    evaluations: list[Evaluation]
    failures: list[Failure]


def read_run(directory: Path) -> Reading:
    """Everything in a run, without going on with it.

    Args:
        directory: of the run; a process that goes on with it is not disturbed.

    Raises:
        ArtefactError: where there is no run, or one that is damaged or of another version.
    """
    with open_run(directory) as connection:
        about = fetch_description(connection)
        state, _ = fetch_state(connection, about, _stand_in(about))
        purposes = connection.execute("SELECT purpose FROM rollout ORDER BY number").fetchall()
        reading = Reading(
            directory,
            about,
            state,
            fetch_log(connection),
            [purpose for (purpose,) in purposes],
            fetch_evaluations(connection),
            fetch_failures(connection),
        )
        _check_kinds(reading)
        return reading


def read_description(directory: Path) -> Description:
    """What a run is about."""
    with open_run(directory) as connection:
        return fetch_description(connection)


def read_rollouts(directory: Path) -> tuple[Description, list[Rollout]]:
    """What a run is about and all its rollouts so far, checked."""
    with open_run(directory) as connection:
        about = fetch_description(connection)
        size = _count_params(connection)  # the policy class may be one that only its maker has
        found = rows.rollouts_from_rows(connection.execute(ROLLOUTS), about.problem, size)
        return about, [one for one, _ in found]


@contextmanager
def open_run(directory: Path) -> Iterator[sqlite3.Connection]:
    """The store of a run, to be read at one instant: no lock is taken, nothing is written."""
    require(
        directory.is_dir() or not directory.exists(),
        f"{directory} is a file; give the directory of a run, which holds its {database.STORE}",
        ArtefactError,
    )
    path = directory / database.STORE
    require(
        path.exists(), f"{directory} holds no {database.STORE}; give the directory of a run", ArtefactError
    )
    with closing(database.open_to_read(path)) as connection, report_damage(path, connection):
        yield connection


@contextmanager
def report_damage(path: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Whatever a row that is not as we wrote it leads to becomes an `ArtefactError` that names the file."""
    try:
        with guard_statements(path, READING, connection):
            yield
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"{path} is damaged: {error!r}; restore it from a copy") from error


def fetch_description(connection: sqlite3.Connection) -> Description:
    """What the run in an open store is about."""
    return rows.description_from_rows(dict(connection.execute("SELECT name, value FROM run").fetchall()))


def fetch_state(
    connection: sqlite3.Connection, about: Description, network: Policy | None
) -> tuple[State, bytes]:
    """The learner after its last rollout, all tables checked, and the checksum of that rollout.

    Args:
        connection: an open store.
        about: its description.
        network: the policy class, where the run was begun with the user's own.
    """
    size = build_policy(about.problem, about.config, network).size
    require(size <= rows.MOST_NUMBERS, f"a policy of {size} parameters", ArtefactError)
    found = list(rows.rollouts_from_rows(connection.execute(ROLLOUTS), about.problem, size))
    rollouts = [one for one, _ in found]
    chain = found[-1][1] if found else b""
    stored = connection.execute("SELECT content, checksum FROM state").fetchall()
    require(len(stored) == 1, f"there are {len(stored)} states, expected one", ArtefactError)
    ((content, checksum),) = stored
    rows.check_checksum(checksum, rows.digest(chain, content), "the state")
    state = decode_state(content, _build_memory(rollouts), size, about.config)
    _check_counts(state, [one.trajectory.length for one in rollouts if one.proposal >= 0])
    fetch_evaluations(connection), fetch_failures(connection)
    return state, chain


def fetch_log(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """What each `tell` reported, in order."""
    found = connection.execute("SELECT info FROM rollout ORDER BY number").fetchall()
    return [rows.info_from_text(text) for (text,) in found]


def fetch_evaluations(connection: sqlite3.Connection) -> list[Evaluation]:
    """All of them, in order."""
    return [rows.evaluation_from_row(row) for row in _fetch_checked(connection, "evaluation", "rollout")]


def fetch_failures(connection: sqlite3.Connection) -> list[Failure]:
    """All of them, in order."""
    return [Failure(*row[1:]) for row in _fetch_checked(connection, "failure", "number")]


def _fetch_checked(connection: sqlite3.Connection, table: str, order: str) -> list[tuple]:
    found = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
    for *content, checksum in found:
        rows.check_checksum(checksum, rows.digest(*content), f"{table} {content[0]}")
    return [row[:-1] for row in found]


def _build_memory(rollouts: Sequence[Rollout]) -> Memory:
    trajectories = tuple(one.trajectory for one in rollouts)
    sizes = sorted({trajectory.context.size for trajectory in trajectories})
    require(len(sizes) <= 1, f"the contexts of the rollouts have different sizes, {sizes}", ArtefactError)
    returns = np.array([one.value for one in rollouts], np.float64)
    longest = max((t.length for t in trajectories), default=0)
    purposes = tuple(one.purpose for one in rollouts)
    return with_columns(Memory(trajectories, returns, longest, purposes))


def _check_counts(state: State, lengths: Sequence[int]) -> None:
    """`lengths` are the steps of each rollout that was asked for."""
    numbers = {proposal.number for proposal in state.pending}
    require(
        state.steps == sum(lengths)
        and state.told == len(lengths)
        and len(numbers) == len(state.pending)
        and all(number < state.asked for number in numbers),
        "the state does not fit the rollouts",
        ArtefactError,
    )


def _count_params(connection: sqlite3.Connection) -> int:
    first = connection.execute("SELECT length(theta) FROM rollout LIMIT 1").fetchone()
    return first[0] // 4 if first else 0


def _stand_in(about: Description) -> Policy | None:
    """For a policy class of the user's own, of which only the size is known: enough to read, not to act."""
    if not about.own_policy:
        return None
    origin = np.zeros(about.own_policy, np.float32)
    scale = (1.0,) * about.problem.action_size
    return Policy(
        about.own_policy,
        lambda key: origin,
        lambda theta, seen: np.zeros(len(scale)),
        scale,
        parameters=about.parameters,
    )


def _check_kinds(reading: Reading) -> None:
    """The learner needs neither log nor evaluations, so nobody has looked at their types yet."""
    require(
        all(isinstance(row.get(name), int | float) for row in reading.log for name in LOGGED)
        and all(isinstance(value, int | float) for row in reading.evaluations for value in row)
        and all(isinstance(text, str) for text in (*reading.purposes, *(f.reason for f in reading.failures))),
        "the log or the evaluations do not hold what was written there",
        ArtefactError,
    )
