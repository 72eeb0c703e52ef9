"""The file of a run store: its tables, how it is opened, and who may write it. What the rows mean is in `rows.py`.

A file from elsewhere is not trusted: no extension is loaded, its schema must be word for word ours, its pages are
checked, statements have a limit (`guard.py`), and everything SQLite has to say against it becomes an `ArtefactError`.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock

from ddopg.errors import ArtefactError, DDOPGError, StoreError, cannot_write_into, require
from ddopg.storage.guard import READING, WRITING, guard_statements, log_of, measure
from ddopg.support.locks import acquire_lock

SCHEMA = 2
UNRELEASED = (1,)  # schemas that only the development of ddopg has seen
APPLICATION = 0x64644F50  # "ddOP"
MAGIC = b"SQLite format 3\0"
LONGEST_VALUE = 2**29  # bytes in one cell
STORE, LOCK = "run.sqlite", "run.lock"

TABLES = {
    "run": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "rollout": "number INTEGER PRIMARY KEY, proposal INTEGER NOT NULL UNIQUE, purpose TEXT NOT NULL, "
    "seed INTEGER NOT NULL, steps INTEGER NOT NULL, terminated INTEGER NOT NULL, truncated INTEGER NOT NULL, "
    "return REAL NOT NULL, theta BLOB NOT NULL, observations BLOB NOT NULL, actions BLOB NOT NULL, "
    "rewards BLOB NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL",
    "state": "content BLOB NOT NULL, checksum BLOB NOT NULL",
    "evaluation": "rollout INTEGER PRIMARY KEY REFERENCES rollout(number), steps INTEGER NOT NULL, mean REAL, "
    "std REAL, worst REAL, episodes INTEGER NOT NULL, checksum BLOB NOT NULL",
    "failure": "number INTEGER PRIMARY KEY, proposal INTEGER NOT NULL, seed INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, steps INTEGER NOT NULL, reason TEXT NOT NULL, checksum BLOB NOT NULL",
}
"""Table → columns; docs/run-format.md says what they hold."""

_SQL = [f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()]


def create(path: Path) -> sqlite3.Connection:
    """A new file with empty tables, in an open transaction: the caller fills in what belongs to them and commits."""
    connection = _connect(path, "rwc")
    with guard_statements(path, WRITING, connection):
        _prepare(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        for statement in _SQL:
            connection.execute(statement)
    return connection


def open_existing(path: Path) -> sqlite3.Connection:
    """A file written by `create`; anything else gets an `ArtefactError`.

    It is checked before it is opened for writing: SQLite would remove a log that does not belong to the file.
    """
    open_to_read(path).close()
    connection = _connect(path, "rw")
    with guard_statements(path, READING, connection):
        _prepare(connection)
        connection.execute("BEGIN IMMEDIATE")  # what cannot be written is said before a rollout is made
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("ROLLBACK")
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """The same for reading alone, while another process may be writing: nothing is changed, and nobody is stopped.

    Where there is no write-ahead log, nobody is at work, and SQLite is kept from making one.
    """
    _require_database(path)
    connection = _connect(path, "ro" if log_of(path).exists() else "ro&immutable=1")
    with ExitStack() as opened:
        opened.callback(connection.close)
        with guard_statements(path, READING, connection):
            connection.execute("BEGIN")  # everything is read from one instant
            _check(connection, path)
        opened.pop_all()
    return connection


def require_no_run(path: Path) -> None:
    """Refuse a place where something was committed, or where a log beside an empty file may still hold it.

    Raises:
        StoreError: where a new run would take its place.
    """
    log = log_of(path)
    require(
        is_empty(path),
        f"{path.parent} already holds a run; continue it with DDOPG.resume({str(path.parent)!r}) (on the command "
        f"line: ddopg resume {path.parent}), or choose another directory",
        StoreError,
    )
    require(
        measure(log) == 0,
        f"{path} is empty, and {_describe_log(log)}. To begin a new run, choose another directory; if nothing was "
        f"ever told here, remove {log.name}",
        StoreError,
    )


def is_empty(path: Path) -> bool:
    """Whether nothing was ever committed there: no file, or one without tables (a kill at the first instant)."""
    if measure(path) == 0:
        return True  # not opened: SQLite would remove the log of an empty file
    with suppress(sqlite3.Error, DDOPGError):
        connection = _connect(path, "ro" if log_of(path).exists() else "ro&immutable=1")
        try:
            return connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        finally:
            connection.close()
    return False


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move what was committed from the log into the file, as far as no reader needs it where it is.

    What cannot be moved now is as safe as before, and moved another time.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All of it or nothing, durable when it ends."""
    with guard_statements(path, WRITING, connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise


def lock_directory(directory: Path, create: bool) -> BaseFileLock:
    """The lock of a run's directory: only one process may go on with a run.

    Args:
        directory: of the run.
        create: whether to make the directory; otherwise there must be a run in it.

    Raises:
        ArtefactError: where no run is there.
        StoreError: where another process is at work, or nothing can be written.
    """
    try:
        if create:
            directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = cannot_write_into(
            directory, error, "choose a writable directory with run_directory=... (--out)"
        )
        raise StoreError(message) from error
    require(
        create or (directory / STORE).exists(),
        f"{directory} holds no {STORE}; give the directory of a run",
        ArtefactError,
    )
    busy = f"another process is at work on {directory}; wait until it ends, or stop it, and try again"
    return acquire_lock(directory / LOCK, busy, StoreError)


def sync_directory(directory: Path) -> None:
    """The name of a new file is safe only when its directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _require_database(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise ArtefactError(
            f"cannot read {path}: {error.strerror or error}; give the directory of a run"
        ) from error
    require(magic != b"", _explain_empty(path), ArtefactError)
    require(
        magic == MAGIC, f"{path} is not a run of ddopg: expected an SQLite file, got {magic!r}", ArtefactError
    )


def _explain_empty(path: Path) -> str:
    log = log_of(path)
    if measure(log) > 0:
        return f"{path} is empty: it holds no run. But {_describe_log(log)}"
    return (
        f"{path} is empty: it holds no run. If it is a copy, its rollouts are in {log.name} beside the original: "
        "copy that one along while nobody writes, or copy with ddopg backup DIR FILE at any time. If the run was "
        "stopped at its first instant, begin it again"
    )


def _describe_log(log: Path) -> str:
    return (
        f"{log.name} beside it has {measure(log):,} bytes, which may be rollouts: they belong to the {STORE} that "
        "it was written with. Restore that file and continue with DDOPG.resume, or ddopg resume on the command line"
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{urllib.parse.quote(str(path.absolute()))}?mode={mode}"
    with guard_statements(path, WRITING if mode == "rwc" else READING):
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
        return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Write-ahead log, and a commit that returns only when the disk has it."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    expected = _list_expected_schema()
    found = _list_schema(connection, len(expected) + 1)
    require(bool(found) or application != 0, _explain_empty(path), ArtefactError)
    require(
        application == APPLICATION,
        f"{path} is an SQLite file, but not a run of ddopg: expected the application id {APPLICATION}, "
        f"got {application}",
        ArtefactError,
    )
    require(
        schema not in UNRELEASED,
        f"{path} has schema {schema}: an unreleased version of ddopg wrote it, which no release reads; "
        "begin the run again",
        ArtefactError,
    )
    require(
        schema == SCHEMA,
        f"{path} has schema {schema}, this version of ddopg reads {SCHEMA}; use the version that wrote it",
        ArtefactError,
    )
    require(
        found == expected,
        f"{path} has other tables, indices, triggers or views than a run of ddopg; it was changed: restore it from "
        "a copy",
        ArtefactError,
    )
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()
    require(verdict == ("ok",), f"{path} is damaged: {verdict}; restore it from a copy", ArtefactError)


@functools.cache
def _list_expected_schema() -> list[tuple]:
    """Of a new store, with the indices that SQLite makes by itself."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _SQL:
            connection.execute(statement)
        return _list_schema(connection, -1)


def _list_schema(connection: sqlite3.Connection, most: int) -> list[tuple]:
    """Everything that the file defines; a trigger may have the name of a table."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT ?"
    return sorted(connection.execute(query, (most,)).fetchall(), key=repr)
