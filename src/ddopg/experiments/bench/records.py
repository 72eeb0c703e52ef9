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

from ddopg.errors import ArtefactError
from ddopg.support.locks import acquire_lock

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """All whole records of the file; none where there is no file."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    whole = [
        _parse_line(path, number, line) for number, line in enumerate(lines[:-1], start=1) if line.strip()
    ]
    last = _try_to_parse(lines[-1])
    return whole if last is None else [*whole, last]


def append(path: Path, record: Record) -> None:
    """Write one record behind the others, and see it on the disk before going on."""
    line = json.dumps(record, allow_nan=False) + "\n"
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def repair(path: Path) -> None:
    """Make the file end with a whole line: a torn record is cut off, a whole one gets its missing newline."""
    if not path.exists():
        return
    content = path.read_bytes()
    last = content.rpartition(b"\n")[2]
    if not last:
        return
    if _try_to_parse(last) is not None:
        with path.open("ab") as file:
            file.write(b"\n")
    else:
        os.truncate(path, len(content) - len(last))


@contextmanager
def lock_records(directory: Path, option: str = "--out", patient: bool = False) -> Iterator[None]:
    """Only one benchmark may write into a directory. Who is patient waits for the other."""
    busy = f"another benchmark is writing into {directory}; wait for its end, or choose another {option}"
    advice = f"choose a writable directory with {option}"
    lock = acquire_lock(directory / "lock", busy, ArtefactError, advice, patient)
    try:
        yield
    finally:
        lock.release()


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
