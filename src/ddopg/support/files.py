"""Files that are there whole or not at all."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ddopg.errors import ArtefactError, DDOPGError

ADVICE = "choose a directory that exists and is writable, and has room"
STALE = 3600.0  # seconds after which a draft that nobody has finished counts as left by a kill
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def write_atomically(path: Path, data: bytes, advice: str = ADVICE, tidy: bool = True) -> Path:
    """The whole file or nothing, whatever happens meanwhile; what was there before is kept until then.

    Args:
        path: of the file.
        data: its content.
        advice: the end of the message, what the user can do.
        tidy: look for old drafts of the same file, which takes milliseconds in a directory of thousands of files.

    Returns:
        The path.

    Raises:
        ArtefactError: where something cannot be written; the old file is as it was.
    """
    with replace_when_done(path, advice, tidy) as draft:
        draft.write_bytes(data)
    return path


@contextmanager
def replace_when_done(path: Path, advice: str = ADVICE, tidy: bool = True) -> Iterator[Path]:
    """Write a file under another name within the block; at its end it takes the place of the old one.

    A process that is killed meanwhile leaves the old file and a draft, `.NAME.PROCESS.draft`. Who writes the same
    file an hour later removes the draft.

    Args:
        path: of the file; its directory is made if it is not there.
        advice: the end of the message, what the user can do.
        tidy: look for old drafts of the same file.

    Yields:
        Where to write.

    Raises:
        ArtefactError: where something cannot be written; the old file is as it was.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as directory:
        ...     with replace_when_done(Path(directory) / "words.txt") as draft:
        ...         _ = draft.write_text("hello")
        ...     (Path(directory) / "words.txt").read_text()
        'hello'
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    except DDOPGError:
        raise
    except OSError as error:
        raise ArtefactError(f"cannot write {path}: {error.strerror or error}; {advice}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    if tidy:
        remove_stale_drafts(path, path)


def remove_stale_drafts(path: Path, written: Path) -> None:
    """Remove what kills left beside a file or a directory, if it is more than an hour old.

    Times are compared as the file system has them; a clock that was set back removes nothing.

    Args:
        path: of the file or the directory; its drafts are `.NAME.PROCESS.draft`.
        written: what was written just now.
    """
    with suppress(OSError):
        now = written.stat().st_mtime
        for draft in path.parent.glob(f".{glob.escape(path.name)}.*.draft*"):
            if now - max(part.stat().st_mtime for part in (draft, *draft.rglob("*"))) > STALE:
                shutil.rmtree(draft) if draft.is_dir() else draft.unlink()


def exchange(one: Path, other: Path) -> bool:
    """Let two files or directories take each other's place, in one step.

    Returns:
        Whether it was done. Where the system cannot (only Linux can, and not every file system), nothing has changed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as directory:
        ...     old, new = Path(directory) / "old.txt", Path(directory) / "new.txt"
        ...     _ = old.write_text("hello"), new.write_text("good morning")
        ...     done = exchange(old, new)
        ...     old.read_text() == ("good morning" if done else "hello")
        True
    """
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):  # another system
        return False
    return renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
