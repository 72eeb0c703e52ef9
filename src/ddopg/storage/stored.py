"""Reading a run without going on with it: what it is about, and its rollouts; also while another process does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ddopg.core.types import Description
from ddopg.errors import ArtefactError, require
from ddopg.storage import database as tables
from ddopg.storage import rows
from ddopg.storage.rows import Rollout

ROLLOUTS = "SELECT * FROM rollout ORDER BY number"


def description_of(directory: Path) -> Description:
    """What a run is about."""
    with looking(directory) as connection:
        return described(connection)


def rollouts_of(directory: Path) -> tuple[Description, list[Rollout]]:
    """What a run is about and all its rollouts so far, checked."""
    with looking(directory) as connection:
        about = described(connection)
        size = _parameters(connection)  # the policy class may be one that only its maker has
        return about, [one for one, _ in rows.rollouts_of(connection.execute(ROLLOUTS), about.problem, size)]


def described(connection: sqlite3.Connection) -> Description:
    """The description in an open store."""
    return rows.understood(dict(connection.execute("SELECT name, value FROM run").fetchall()))


def _parameters(connection: sqlite3.Connection) -> int:
    first = connection.execute("SELECT length(theta) FROM rollout LIMIT 1").fetchone()
    return first[0] // 4 if first else 0


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Whatever a row that is not as we wrote it leads to, in our words."""
    try:
        with tables.complaints(path, tables.READING):
            yield
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"{path} is damaged: {error!r}; restore it from a copy") from error


@contextmanager
def looking(directory: Path) -> Iterator[sqlite3.Connection]:
    """The store of a run, to be read at one instant: no lock is taken, nothing is written."""
    require(
        directory.is_dir() or not directory.exists(),
        f"{directory} is a file; give the directory of a run, which holds its {tables.STORE}",
        ArtefactError,
    )
    path = directory / tables.STORE
    require(path.exists(), f"{directory} holds no {tables.STORE}; give the directory of a run", ArtefactError)
    with closing(tables.open_to_look(path)) as connection, damage(path):
        yield connection
