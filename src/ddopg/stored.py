"""Reading a run without going on with it: what it is about, and its rollouts; also while another process does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddopg import rows, tables
from ddopg.artefact import policy_for
from ddopg.errors import ArtefactError, require
from ddopg.rows import Description, Rollout

STORE = "run.sqlite"
ROLLOUTS = "SELECT * FROM rollout ORDER BY number"


def description_of(directory: Path) -> Description:
    """What a run is about."""
    with _reading(directory) as connection:
        return described(connection)


def rollouts_of(directory: Path) -> tuple[Description, list[Rollout]]:
    """What a run is about and all its rollouts so far, checked."""
    with _reading(directory) as connection:
        about = described(connection)
        size = policy_for(about.problem, about.config).size
        return about, [one for one, _ in rows.rollouts_of(connection.execute(ROLLOUTS), about.problem, size)]


def described(connection: sqlite3.Connection) -> Description:
    """The description in an open store."""
    return rows.understood(dict(connection.execute("SELECT name, value FROM run").fetchall()))


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
def _reading(directory: Path) -> Iterator[sqlite3.Connection]:
    path = directory / STORE
    require(path.exists(), f"{directory} holds no {STORE}; give the directory of a run", ArtefactError)
    connection = tables.open_existing(path)
    try:
        with damage(path):
            yield connection
    finally:
        connection.close()
