"""Local processes, one thread each. Messages are bytes on a socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing import connection

from ddopg.rollouts.workers import ONE_THREAD, Function, Message, name_of, named

PATIENCE = 5.0  # seconds in which a worker must have ended when it is asked to


class Processes:
    """At most that many processes, started when they are needed; one that dies is replaced."""

    def __init__(self, function: Function, places: int) -> None:
        self.places, self._function = places, function
        self._workers: list[Worker] = []
        self._ready: list[Worker] = []

    def submit(self, key: int, content: bytes) -> None:
        """Give the work to a process that has none."""
        for dead in [worker for worker in self._workers if worker.key is None and not worker.alive]:
            self._remove(dead)
        worker = next((worker for worker in self._workers if worker.key is None), None)
        if worker is None:
            worker = Worker(self._function)
            self._workers.append(worker)
        worker.give(key, content)

    def wait(self) -> Message:
        """The next message of any of them; those that speak at the same time are heard in turn."""
        if not self._ready:
            busy = [worker for worker in self._workers if worker.key is not None]
            pipes = connection.wait([worker.pipe for worker in busy])
            self._ready = [worker for worker in busy if worker.pipe in pipes]
        worker = self._ready.pop(0)
        message = worker.message()
        if message.kind == "died":
            self._remove(worker)
        return message

    def close(self) -> None:
        """End the processes."""
        for worker in list(self._workers):
            self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.stop()


class Worker:
    """A process that does one thing after the other, seen from outside."""

    def __init__(self, function: Function) -> None:
        near, far = socket.socketpair()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with far:
            # A session of its own: Ctrl-C is for the parent, which decides what it means.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(far.fileno()), name_of(function)],
                stdin=subprocess.PIPE,
                pass_fds=[far.fileno()],
                env={**ONE_THREAD, **os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self.pipe = connection.Connection(near.detach())
        self.key: int | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def give(self, key: int, content: bytes) -> None:
        """Start a piece of work."""
        self.key = key
        with suppress(OSError):  # it may have died meanwhile; `message` will say so
            self.pipe.send_bytes(content)

    def message(self) -> Message:
        """What it says, or that it died."""
        key = self.key
        assert key is not None
        try:
            kind, _, content = self.pipe.recv_bytes().partition(b" ")
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
            code = self._process.returncode
            return Message(key, "died", f"the worker process died (exit code {code})\n".encode())
        if kind != b"progress":
            self.key = None
        return Message(key, kind.decode(), content)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.pipe.close()


def serve(pipe: connection.Connection, function: Function) -> None:
    """The process' own side: do what comes until the pipe ends."""
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:
            return
        try:
            answer = b"done " + function(
                content, lambda share: pipe.send_bytes(f"progress {share!r}".encode())
            )
        except Exception:
            answer = b"failed " + traceback.format_exc().encode()
        pipe.send_bytes(answer)


def main(descriptor: str, name: str) -> None:
    """Serve the function of that name."""
    lifeline = os.dup(0)  # it ends with the parent; the function must not read from it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=_die_with_parent, args=(lifeline,), daemon=True).start()
    serve(connection.Connection(int(descriptor)), named(name))


def _die_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
