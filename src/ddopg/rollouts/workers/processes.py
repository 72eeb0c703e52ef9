"""A pool of local processes, one thread each."""

from __future__ import annotations

from multiprocessing import connection

from ddopg.rollouts.workers import DIED, ONE_THREAD, Message
from ddopg.support.processes import PROGRESS, Function, Worker, WorkerDied


class ProcessPool:
    """At most `places` local processes, started when they are needed; one that dies is replaced.

    Args:
        function: what the processes do with each request.
        places: how many pieces of work make sense at the same time.
    """

    def __init__(self, function: Function, places: int) -> None:
        self.places, self._function = places, function
        self._idle: list[Worker] = []
        self._busy: dict[Worker, int] = {}  # with the key of what each does
        self._ready: list[Worker] = []

    def submit(self, key: int, content: bytes) -> None:
        """Give the work to a process that has none."""
        worker = self._take_idle() or Worker(self._function, ONE_THREAD)
        self._busy[worker] = key
        worker.send_bytes(content)

    def wait(self) -> Message:
        """Wait for the next message of any of them; those that speak at the same time are heard in turn."""
        if not self._ready:
            speaking = connection.wait(list(self._busy))  # type: ignore[arg-type]  # anything with a fileno
            self._ready = [worker for worker in self._busy if worker in speaking]
        worker = self._ready.pop(0)
        key = self._busy[worker]
        try:
            kind, content = worker.receive()
        except WorkerDied as death:
            del self._busy[worker]
            worker.kill()
            return Message(key, DIED, f"the worker {death}\n".encode())
        if kind != PROGRESS:
            del self._busy[worker]
            self._idle.append(worker)
        return Message(key, kind, content)

    def close(self) -> None:
        """End the processes."""
        for worker in (*self._idle, *self._busy):
            worker.stop()
        self._idle.clear()
        self._busy.clear()
        self._ready.clear()

    def _take_idle(self) -> Worker | None:
        while self._idle:
            worker = self._idle.pop(0)
            if worker.alive:
                return worker
            worker.kill()
        return None
