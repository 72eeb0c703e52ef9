"""Where jobs run: local processes, or a Ray cluster. Both turn a list of jobs into a stream of events.

A job that raises gives a `Failed`, and so does one whose process dies; the others go on. Jobs and records travel as
JSON text.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, NamedTuple

from ddopg.errors import ConfigError, MissingPackageError
from ddopg.experiments.jobs import Job, run
from ddopg.experiments.records import Record

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Jobs run side by side, so each takes one thread; what the user has set stays."""


class Progressed(NamedTuple):
    """A job has used this share of its budget."""

    job: Job
    share: float


class Done(NamedTuple):
    """A job is finished."""

    job: Job
    record: Record


class Failed(NamedTuple):
    """A job raised, or its process died."""

    job: Job
    reason: str  # a traceback, or how the process ended


Event = Progressed | Done | Failed


def run_locally(jobs: Sequence[Job], workers: int) -> Iterator[Event]:
    """Jobs in that many processes; a process that dies is replaced."""
    waiting = list(reversed(jobs))
    return run_from(lambda: waiting.pop() if waiting else None, workers)


def run_from(source: Callable[[], Job | None], workers: int) -> Iterator[Event]:
    """The same for jobs that come one by one: `source` gives the next, or None where there is none for now. It is
    asked again after every job that ends, once its event has been consumed."""
    crew: list[Worker] = []
    try:
        while True:
            while len(crew) < workers and (job := source()) is not None:
                crew.append(Worker(job))
            if not crew:
                return
            for ready in connection.wait([worker.pipe for worker in crew]):
                worker = next(worker for worker in crew if worker.pipe is ready)
                event = worker.event()
                yield event
                if isinstance(event, Progressed):
                    continue
                following = source() if worker.alive else None
                if following is not None:
                    worker.give(following)
                else:
                    crew.remove(worker)
                    worker.stop()
    finally:
        for worker in crew:
            worker.stop()


class Worker:
    """A process that runs one job after the other, seen from outside."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self._process = context.Process(target=serve, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()  # else the death of the process would not end the pipe
        self.alive = True
        self.give(job)

    def give(self, job: Job) -> None:
        """Start a job."""
        self.job = job
        with suppress(OSError):  # it may have died meanwhile; `event` will say so
            _send(self.pipe, list(job))

    def event(self) -> Event:
        """What it says, or that it died."""
        try:
            what, content = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self._process.join()
            self.alive = False
            return Failed(self.job, f"the worker process died (exit code {self._process.exitcode})\n")
        return {"progress": Progressed, "done": Done, "failed": Failed}[what](self.job, content)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.join()
        self.pipe.close()


def serve(pipe: connection.Connection) -> None:
    """The process' own side: take jobs until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            job = Job(*json.loads(pipe.recv_bytes()))
        except EOFError:
            return
        try:
            _send(pipe, ["done", run(job, lambda share: _send(pipe, ["progress", share]))])
        except Exception:
            _send(pipe, ["failed", traceback.format_exc()])


def run_on_ray(jobs: Sequence[Job], address: str) -> Iterator[Event]:
    """The same jobs on an existing Ray cluster, one CPU each; ddopg must be installed on its nodes."""
    ray = _import_ray()
    try:
        _knock(address)
        ray.init(address=address, runtime_env={"env_vars": ONE_THREAD}, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot reach a Ray cluster at {address!r}: {error}; start one with ray start"
        ) from error
    try:
        task = ray.remote(num_cpus=1, max_retries=0)(run_text)
        running = {task.remote(json.dumps(list(job))): job for job in jobs}
        while running:
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            job = running.pop(ready)
            try:
                yield Done(job, json.loads(ray.get(ready)))
            except ray.exceptions.RayError as error:
                yield Failed(job, f"{error}\n")
    finally:
        ray.shutdown()


def run_text(job: str) -> str:
    """`run` from JSON to JSON."""
    return json.dumps(run(Job(*json.loads(job))))


def _send(pipe: connection.Connection, content: Any) -> None:
    pipe.send_bytes(json.dumps(content).encode())


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _knock(address: str) -> None:
    """Ask at HOST:PORT whether anybody is there: Ray itself would try for minutes before it says no."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("--ray needs the package ray", "ray") from error
    return ray
