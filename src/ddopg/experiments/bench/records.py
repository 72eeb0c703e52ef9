"""Results as append-only JSON lines: one record per finished job.

A process killed while it writes leaves a torn last line. Reading passes over it, and the next writer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddopg.errors import ArtefactError, StoreError
from ddopg.support.locks import acquire_lock

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """Read all whole records of a file.

    Args:
        path: of the file.

    Returns:
        The records; none if there is no file. A torn last line is passed over.

    Raises:
        ArtefactError: if another line is no record.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    whole = [
        _parse_line(path, number, line) for number, line in enumerate(lines[:-1], start=1) if line.strip()
    ]
    last = _try_to_parse(lines[-1])
    return whole if last is None else [*whole, last]


def append(path: Path, record: Record) -> None:
    """Append one record, and make sure that it is on the disk.

    Raises:
        StoreError: if it cannot be written; what was there before is safe.
    """
    line = json.dumps(record, allow_nan=False) + "\n"
    with _translate_errors(path), path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def repair(path: Path) -> None:
    """Make the file end with a whole line: a torn record is cut off, a whole one gets its missing newline.

    Raises:
        StoreError: if it cannot be written.
    """
    if not path.exists():
        return
    content = path.read_bytes()
    last = content.rpartition(b"\n")[2]
    if not last:
        return
    with _translate_errors(path):
        if _try_to_parse(last) is not None:
            with path.open("ab") as file:
                file.write(b"\n")
        else:
            os.truncate(path, len(content) - len(last))


@contextmanager
def lock_records(directory: Path, option: str = "--out", patient: bool = False) -> Iterator[None]:
    """Hold the lock of a directory within the block: only one benchmark may write into it.

    Args:
        directory: of the records.
        option: of the command line that names the directory, for messages.
        patient: wait for the other process, instead of refusing.

    Raises:
        ArtefactError: if another process holds the lock, or the directory cannot be written.
    """
    busy = f"another benchmark is writing into {directory}; wait until it ends, or choose another {option}"
    advice = f"choose a writable directory with {option}"
    lock = acquire_lock(directory / "lock", busy, ArtefactError, advice, patient)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; what was finished before is safe. Make room, or make "
            "it writable, and the same command goes on"
        ) from error


def _parse_line(path: Path, number: int, line: bytes) -> Record:
    record = _try_to_parse(line)
    if record is None:
        raise ArtefactError(
            f"line {number} of {path} is not a record (expected one JSON object, got {line[:60]!r}); "
            "remove that line, and its job will be run again"
        )
    return record


def _try_to_parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
