"""Where jobs run: local processes, or a Ray cluster. Both turn a list of jobs into a stream of events.

A job that raises gives a `Failed`, and so does one whose process dies; the others go on. Jobs and records travel as
JSON text.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from ddopg.experiments.bench.jobs import Job, run
from ddopg.experiments.bench.records import Record
from ddopg.rollouts.workers import Pool
from ddopg.rollouts.workers.processes import ProcessPool
from ddopg.rollouts.workers.ray_cluster import RayPool
from ddopg.support.processes import Report

Place = Callable[[], Pool]
"""Opens a pool of `work`."""


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


def use_processes(workers: int) -> Place:
    """Run jobs in that many processes of this machine."""
    return partial(ProcessPool, work, workers)


def use_ray(address: str, workers: int | None = None) -> Place:
    """Run jobs on an existing Ray cluster, one CPU each.

    Args:
        address: of the cluster.
        workers: jobs at a time; as many as the cluster has CPUs, if not given.

    Returns:
        What opens the pool.
    """
    return partial(RayPool, work, address, workers)


def run_locally(jobs: Sequence[Job], workers: int) -> Iterator[Event]:
    """Run jobs in that many processes; a process that dies is replaced."""
    return run_all(jobs, use_processes(workers))


def run_all(jobs: Sequence[Job], place: Place, again: int = 0) -> Iterator[Event]:
    """Run a list of jobs; see `run_from`."""
    waiting = list(reversed(jobs))
    return run_from(lambda: waiting.pop() if waiting else None, place, again)


def run_from(source: Callable[[], Job | None], place: Place, again: int = 0) -> Iterator[Event]:
    """Run jobs that come one by one.

    Args:
        source: gives the next job, or None if there is none for now. It is asked again after every event, once that
            has been consumed.
        place: opens the pool in which jobs run.
        again: how many times a job whose process died is begun anew before it counts as failed: the machine may be at
            fault.

    Returns:
        An iterator over what happens; it ends when no job runs and the source has none.
    """
    running: dict[int, Job] = {}
    deaths: Counter[int] = Counter()
    numbers = itertools.count()
    with closing(place()) as pool:
        while True:
            while len(running) < pool.places and (job := source()) is not None:
                number = next(numbers)
                running[number] = job
                pool.submit(number, _to_json(list(job)))
            if not running:
                return
            key, kind, content = pool.wait()
            if kind == "died" and deaths[key] < again:
                deaths[key] += 1
                pool.submit(key, _to_json(list(running[key])))
                yield Progressed(running[key], 0.0)
            elif kind == "progress":
                yield Progressed(running[key], float(content))
            elif kind == "done":
                yield Done(running.pop(key), json.loads(content))
            else:
                yield Failed(running.pop(key), content.decode())


def work(content: bytes, report: Report) -> bytes:
    """Do what `run` does, from JSON to JSON."""
    return _to_json(run(Job(*json.loads(content)), report))


def _to_json(content: Any) -> bytes:
    return json.dumps(content).encode()
