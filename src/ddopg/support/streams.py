"""Standard output and error that never stop the work: a reader that has left, a full disk, an encoding too small."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class PatientStream:
    """A text stream whose `write` and `flush` never raise; everything else is the stream's own.

    What the encoding cannot hold is written as an escape, such as `\\xb1`. After the first error nothing more is
    written; `failure` keeps it.

    Example:
        >>> import io
        >>> small = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        >>> print("1 ± 2", file=PatientStream(small), flush=True)
        >>> small.buffer.getvalue()
        b'1 \\\\xb1 2\\n'
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text, if that is possible."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            self.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Flush what was written, if that is possible."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        """Let the descriptor lead nowhere, so that the rest, in the buffer and of child processes, goes there."""
        self.failure = self.failure or error
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def patient_output() -> Iterator[PatientStream | None]:
    """Within the block nothing that is printed can stop the work.

    Yields:
        What stands for standard output, or None where the process was started without one.
    """
    _open_missing_descriptors()
    before = sys.stdout, sys.stderr
    output, errors = (None if stream is None else PatientStream(stream) for stream in before)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, errors)
    try:
        yield output
    finally:
        for stream in (output, errors):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def _open_missing_descriptors() -> None:
    """Let a closed standard descriptor lead nowhere; the next file opened would get its number, and the output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
