"""One writer at a time: a lock on a file, which falls with its process, however that ends."""

from __future__ import annotations

import os
from pathlib import Path


class FileLock:
    """Held from its making to its release. On a system without such locks it holds nothing."""

    def __init__(self, path: Path, patient: bool = False) -> None:
        """Raises BlockingIOError where another process holds it; who is patient waits for the other."""
        self._file = -1
        try:
            import fcntl
        except ImportError:
            return
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others in; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
