"""One file of a run that may be going on: SQLite's own backup, which reads everything at one instant."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from ddopg.errors import StoreError, require
from ddopg.storage import database
from ddopg.storage.guard import log_of
from ddopg.storage.reading import open_run


def write_backup(directory: Path, target: Path) -> int:
    """Write everything that a run holds at this instant into one file, whole or not at all.

    The process that goes on with the run is not disturbed. The file is a run store: alone in a directory and called
    `run.sqlite`, it is a run.

    Args:
        directory: of the run.
        target: the file, which must not be there yet; its directory is made if it is missing.

    Returns:
        The number of rollouts in it.

    Raises:
        ArtefactError: where there is no run, or one that is damaged.
        StoreError: where the file is there already, or cannot be written.
    """
    require(
        not any(map(os.path.lexists, (target, log_of(target)))),
        f"{target} is there already, or has a write-ahead log; a backup replaces nothing: choose another name",
        StoreError,
    )
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    with open_run(directory) as source:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, draft)
            os.replace(draft, target)
            database.sync_directory(target.parent)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(
                f"cannot write {target}: {reason}; the run is untouched. Make room, or choose another place"
            ) from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        (rollouts,) = source.execute("SELECT count(*) FROM rollout").fetchone()
    return rollouts


def _copy(source: sqlite3.Connection, draft: Path) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # a draft that is not finished is removed
        source.backup(copy)
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    database.open_to_read(draft).close()  # checked, as every file from elsewhere
