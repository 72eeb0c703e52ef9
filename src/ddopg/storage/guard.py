"""Statements on a run store under guard: they have a limit, and what SQLite says becomes an error of this package."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path

from ddopg.errors import ArtefactError, DDOPGError, StoreError

READING, WRITING = "reading", "writing"
STEPS = 10_000_000  # of SQLite's machine, about half a second; a `tell` takes about a hundred
STEPS_PER_BYTE = 1  # of the file, for reading all of it; that takes about a tenth of it
LOOK_EVERY = 10_000  # steps
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


@contextmanager
def guard_statements(path: Path, what: str, connection: sqlite3.Connection | None = None) -> Iterator[None]:
    """Limit the statements of the block, and say SQLite's errors in the words of this package.

    Args:
        path: the store.
        what: `READING` or `WRITING`.
        connection: whose statements are limited: all of the block together, to `count_steps` steps.

    Raises:
        StoreError: where something cannot be written.
        ArtefactError: where something cannot be read.
    """
    try:
        if connection is None:
            yield
        else:
            with _limit_steps(connection, count_steps(path)):
                yield
    except (sqlite3.Error, OverflowError, MemoryError, UnicodeDecodeError) as error:
        raise _explain(path, what, error) from error


def count_steps(path: Path) -> int:
    """How many steps of SQLite's machine a block of statements may take on this store."""
    return STEPS + STEPS_PER_BYTE * (measure(path) + measure(log_of(path)))


def log_of(path: Path) -> Path:
    """The write-ahead log of a store: what was committed and not yet moved into the file itself."""
    return path.with_name(f"{path.name}-wal")


def measure(path: Path) -> int:
    """The bytes of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _limit_steps(connection: sqlite3.Connection, steps: int) -> Iterator[None]:
    # No function of Python: a signal would take effect inside it, and SQLite would swallow the exception.
    is_over = chain(repeat(0, steps // LOOK_EVERY), repeat(1)).__next__
    connection.set_progress_handler(is_over, LOOK_EVERY)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # closed
            connection.set_progress_handler(None, 0)


def _explain(path: Path, what: str, error: Exception) -> DDOPGError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        kind = StoreError if what == WRITING else ArtefactError
        return kind(
            f"a query on {path} took more than {count_steps(path):,} steps and was ended; nothing of it was kept. "
            "Another program has changed the file: restore it from a copy"
        )
    if what == WRITING:
        return StoreError(
            f"cannot write {path}: {error}; everything before this is safe. Make room or a writable place, "
            "and tell it again or resume the run"
        )
    closed = next((place for place in (path.parent, path) if not os.access(place, os.W_OK)), None)
    if code in UNWRITABLE and closed is not None:
        return StoreError(
            f"cannot open {path}: {error}; {closed} cannot be written, and SQLite has to write there. Make it "
            "writable, or copy the whole directory to a writable place"
        )
    return ArtefactError(
        f"cannot read {path}: {error}; it is damaged, or not a run of ddopg: restore it from a copy"
    )
