"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ddopg.errors import ArtefactError


def write_atomically(
    path: Path, data: bytes, advice: str = "choose a directory that exists and is writable"
) -> Path:
    """The whole file or nothing, whatever happens meanwhile; what was there before is kept until then."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ArtefactError(f"cannot write {path}: {error.strerror or error}; {advice}") from error
    return path
