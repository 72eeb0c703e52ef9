"""Worker processes: one kind of process and one protocol for all work that is done outside this process.

A worker serves one function of the top level of a module, which it imports by name. A request is bytes; so is the
result. Every message on the socket between the two processes is its length (8 bytes, big-endian) and its content; a
reply is a kind, a space and the content: `progress 0.5`, `done RESULT` or `failed TRACEBACK`.

`Worker` is the process seen from outside. The process itself runs `python -m ddopg.support.processes`.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from ddopg.support.streams import patient_output

PATIENCE = 5.0  # seconds in which a process that is asked to end must have ended

POLL = 1.0  # seconds after which the watcher of a process sees at the latest that it has ended
WATCHED = "watched"  # the argument by which a process is told that it needs a watcher
PR_SET_PDEATHSIG = 1  # of Linux's prctl
MAX_DESCRIPTOR = 1024  # file descriptors that a process may have when it starts

PROGRESS, DONE, FAILED = "progress", "done", "failed"

Report = Callable[[float], None]
"""Tells the other side which share of the work is done."""

Function = Callable[[bytes, Report], bytes]
"""What a worker serves: from a request to a result. It belongs to the top level of a module."""


class Reply(NamedTuple):
    """A message from a worker."""

    kind: str  # PROGRESS, DONE or FAILED
    content: bytes  # a share of the work as text, the result, or a traceback


class WorkerDied(Exception):
    """The process ended before it replied; `exit_code` is negative where a signal killed it."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"process died (exit code {exit_code})")
        self.exit_code = exit_code


class Worker:
    """A process that serves one function, seen from outside.

    It has a session of its own, so that Ctrl-C reaches only the parent, which decides what it means. It ends when the
    parent ends, whatever it is doing, and when this object is garbage. What it prints goes to standard error. It
    finds the modules that this process finds.

    Args:
        function: what it serves; imported there by its name.
        variables: environment variables for the process, where the user has not set them.

    Example:
        >>> worker = Worker(echo)
        >>> worker.send_bytes(b"hello")
        >>> worker.receive(timeout=60)
        Reply(kind='done', content=b'hello')
        >>> worker.stop()
        >>> worker.alive
        False
    """

    def __init__(self, function: Function, variables: Mapping[str, str] | None = None) -> None:
        near, far = socket.socketpair()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with far:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "ddopg.support.processes",
                    str(far.fileno()),
                    function_name(function),
                    *([] if _kernel_watches() else [WATCHED]),
                ],
                stdin=subprocess.PIPE,
                pass_fds=[far.fileno()],
                env={**(variables or {}), **os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._socket = near
        self._end = weakref.finalize(self, _end, self._process, near)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`: readable when there is a reply, or when the process has died."""
        return self._socket.fileno()

    def send_bytes(self, content: bytes, timeout: float | None = None) -> None:
        """Send a request. If the process has died meanwhile, `receive` says so."""
        with suppress(OSError):
            _write(self._socket, content, _deadline(timeout))

    def receive(self, timeout: float | None = None) -> Reply:
        """Wait for the next reply.

        Args:
            timeout: in seconds; None waits for ever.

        Raises:
            TimeoutError: the reply is not there in time; it may still come.
            WorkerDied: there will be no reply.
        """
        try:
            kind, _, content = _read(self._socket, _deadline(timeout)).partition(b" ")
        except TimeoutError:
            raise
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
            raise WorkerDied(self._process.returncode) from None
        return Reply(kind.decode(), content)

    def call(self, content: bytes, timeout: float | None = None) -> Reply:
        """Send a request and wait for its reply.

        If anything comes in between (the time limit, the death of the process, Ctrl-C), the process is killed: a late
        reply can never be taken for that of the next request.

        Args:
            content: the request.
            timeout: in seconds, for both; None waits for ever.

        Raises:
            TimeoutError: the reply is not there in time.
            WorkerDied: the process ended before it replied.
        """
        until = _deadline(timeout)
        try:
            self.send_bytes(content, timeout)
            return self.receive(None if until is None else until - time.monotonic())
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask the process to end, and kill it if it does not."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._end()


def function_name(function: Function) -> str:
    """The name by which another process imports the function, MODULE:FUNCTION."""
    return f"{function.__module__}:{function.__qualname__}"


def import_function(name: str) -> Any:
    """Import the function that has this name; the inverse of `function_name`."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def echo(content: bytes, report: Report) -> bytes:
    """Return the request: the smallest function that a worker can serve."""
    return content


def serve(connection: socket.socket, function: Function) -> None:
    """Run the worker's own side: answer requests until the other side is gone."""

    def reply(kind: str, content: bytes) -> None:
        _write(connection, kind.encode() + b" " + content, None)

    while True:
        try:
            content = _read(connection, None)
        except (EOFError, OSError):
            return
        try:
            result = function(content, lambda share: reply(PROGRESS, repr(share).encode()))
        except Exception:
            reply(FAILED, traceback.format_exc().encode())
        else:
            reply(DONE, result)


def main(descriptor: str, name: str, watched: str = "") -> None:
    """Serve the function of that name on the socket of that descriptor.

    A thread sees the end of the parent, but not while compiled code holds the interpreter. So the kernel ends this
    process, or, where it does not (`watched`), a process that does nothing but watch.
    """
    lifeline = os.dup(0)  # it ends with the parent; the function must not read from it
    if watched or not _ask_kernel_to_kill():
        _start_watcher(lifeline)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # standard output belongs to the parent
    os.set_inheritable(int(descriptor), False)  # a child of the function must not keep it open
    threading.Thread(target=_die_with_parent, args=(lifeline,), daemon=True).start()
    with patient_output():  # a reader of standard error that has left must not fail the function
        serve(socket.socket(fileno=int(descriptor)), import_function(name))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _write(connection: socket.socket, content: bytes, until: float | None) -> None:
    _limit(connection, until)
    connection.sendall(len(content).to_bytes(8) + content)


def _read(connection: socket.socket, until: float | None) -> bytes:
    return _read_exactly(connection, int.from_bytes(_read_exactly(connection, 8, until)), until)


def _read_exactly(connection: socket.socket, size: int, until: float | None) -> bytes:
    parts, chunk = bytearray(), memoryview(bytearray(min(size, 2**20)))
    while len(parts) < size:
        _limit(connection, until)
        received = connection.recv_into(chunk, min(size - len(parts), len(chunk)))
        if not received:
            raise EOFError
        parts += chunk[:received]
    return bytes(parts)


def _limit(connection: socket.socket, until: float | None) -> None:
    if until is not None:  # never 0, which would mean "do not wait" and not "no time left"
        connection.settimeout(max(until - time.monotonic(), 1e-3))
    elif connection.gettimeout() is not None:
        connection.settimeout(None)


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    connection.close()


def _kernel_watches() -> bool:
    """Whether the kernel can end a worker that this thread starts: Linux, where the thread lasts as long as we do.

    What Linux calls the death of the parent is the end of the thread that started the process.
    """
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread()


def _ask_kernel_to_kill() -> bool:
    """Ask the kernel to kill this process when its parent ends; the answer is whether it will."""
    with suppress(OSError, AttributeError):
        import ctypes

        return ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0
    return False


def _start_watcher(lifeline: int) -> None:
    """Start a process that kills this one when the parent is gone, and ends when this one has ended."""
    worker = os.getpid()
    if os.fork():
        return
    try:
        os.closerange(0, lifeline)
        os.closerange(lifeline + 1, MAX_DESCRIPTOR)
        while os.getppid() == worker:
            if select.select([lifeline], [], [], POLL)[0]:
                os.kill(worker, signal.SIGKILL)
                break
    finally:
        os._exit(0)


def _die_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
