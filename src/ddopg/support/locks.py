"""One writer at a time: a lock on a file, which falls with its process, however that ends."""

from __future__ import annotations

from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from ddopg.errors import DDOPGError, cannot_write_into


def acquire_lock(
    path: Path,
    busy: str,
    error: type[DDOPGError],
    advice: str = "choose a writable directory",
    wait: bool = False,
) -> BaseFileLock:
    """Take the lock, and hold it until its `release`, or until it is gone; the file stays.

    Args:
        path: the file of the lock, made if it is not there.
        busy: the message for the case that another writer holds it.
        error: what to raise.
        advice: the end of the message for the case that the file cannot be made.
        wait: wait for the other writer instead of raising.

    Raises:
        DDOPGError: of the kind `error`, where another writer holds it or the file cannot be made.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from ddopg.errors import StoreError
        >>> with TemporaryDirectory() as directory:
        ...     lock = acquire_lock(Path(directory) / "run.lock", "somebody is at work", StoreError)
        ...     lock.release()
    """
    lock = FileLock(path, thread_local=False)  # whoever collects the garbage may release it
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout as timeout:
        raise error(busy) from timeout
    except OSError as refusal:
        raise error(cannot_write_into(path.parent, refusal, advice)) from refusal
    return lock
