"""A job: one method on one task with one seed and one budget, and the record that running it gives.

All methods are evaluated here, in the same way: the deterministic policy plays fresh episodes at every 2 % of the
budget. At each of these marks the latest policy known by then is evaluated. Every environment step counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ddopg import baselines
from ddopg._version import __version__
from ddopg.errors import DDOPGError, RolloutError, require
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.suites import SuiteTask
from ddopg.support.records import to_dict

if TYPE_CHECKING:
    from ddopg.baselines.base import Checkpoint

MARKS = 50  # evaluations per run
PACKAGES = (
    "jax",
    "gymnasium",
    "mujoco",
    "stable-baselines3",
    "sb3-contrib",
    "sbx-rl",
    "torch",
    "cma",
    "evosax",
    "botorch",
    "optuna",
)

Report = Callable[[float], None]


class Job(NamedTuple):
    """Plain values only: a job travels as JSON."""

    env: str
    method: str
    kind: str
    settings: dict[str, Any]
    seed: int
    budget: int
    episodes: int  # per evaluation

    @property
    def key(self) -> str:
        """A digest of everything that defines the result: other settings are another job."""
        text = json.dumps(self._asdict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.env} · {self.method} · seed {self.seed} · {self.budget:,} steps"


def plan_jobs(
    envs: Iterable[str], methods: Sequence[str], seeds: Iterable[int], budget: int, episodes: int
) -> list[Job]:
    """Make the jobs of all combinations, seeds outermost: a benchmark stopped early has some seeds of everything.

    Args:
        envs: the tasks.
        methods: names of methods, see `baselines.METHODS`.
        seeds: of the runs.
        budget: environment steps of every run.
        episodes: per evaluation.

    Returns:
        The jobs, in the order in which they should run.

    Raises:
        UnknownNameError: if there is no such method.
    """
    return _combine([(env, budget, episodes, "") for env in envs], methods, seeds)


def plan_suite(tasks: Iterable[SuiteTask], methods: Sequence[str], seeds: Iterable[int]) -> list[Job]:
    """Make the jobs of tasks with their own budgets and episodes; the order is that of `plan_jobs`.

    Args:
        tasks: of a suite, see `suites.find_suite`.
        methods: names of methods, see `baselines.METHODS`.
        seeds: of the runs.

    Returns:
        The jobs, in the order in which they should run.

    Raises:
        UnknownNameError: if there is no such method.
    """
    planned = [(task.env, task.budget, task.episodes, task.controller) for task in tasks]
    return _combine(planned, methods, seeds)


def _combine(
    tasks: Sequence[tuple[str, int, int, str]], methods: Sequence[str], seeds: Iterable[int]
) -> list[Job]:
    return [
        make_job(env, name, seed, budget, episodes, controller)
        for seed in seeds
        for env, budget, episodes, controller in tasks
        for name in methods
    ]


def check_jobs(jobs: Sequence[Job], held: Collection[str] = ()) -> None:
    """Refuse jobs that could not work, before anything runs.

    Args:
        jobs: of a benchmark.
        held: keys of jobs that have been run; their tasks need not be there.

    Raises:
        ConfigError: if there is none, one is there twice, or a budget, a seed or a number of episodes is impossible.
        DDOPGError: if a task cannot be made, or its spaces do not fit.
    """
    from ddopg.envs.adapter import make, problem_from_env

    require(len(jobs) > 0, "a benchmark needs at least one task, one method and one seed; got none of one")
    require(
        len({job.key for job in jobs}) == len(jobs),
        "a benchmark holds every job once; leave out tasks, methods or seeds that are given twice",
    )
    for job in jobs:
        require(job.budget >= 1, f"the budget must be at least 1 step, got {job.budget}")
        require(job.episodes >= 1, f"an evaluation needs at least 1 episode, got {job.episodes}")
        require(job.seed >= 0, f"seeds must be integers and not negative, got {job.seed}")
    for env in dict.fromkeys(job.env for job in jobs if job.key not in held):
        problem_from_env(make(env))


def make_job(env: str, name: str, seed: int, budget: int, episodes: int, controller: str = "") -> Job:
    """Make the job of a named method.

    Args:
        env: the task.
        name: of the method, see `baselines.METHODS`.
        seed: of the run.
        budget: environment steps.
        episodes: per evaluation.
        controller: `module:name` of a controller, which methods that can tune one take in the place of a policy of
            their own.

    Returns:
        The job, with the settings of the method for that task.

    Raises:
        UnknownNameError: if there is no such method.
    """
    method = baselines.find_method(name)
    tunes = controller and method.kind in baselines.TUNE_CONTROLLERS
    kind = baselines.own_kind(controller, method.kind) if tunes else method.kind
    return Job(env, name, kind, to_dict(method.settings_for(env)), seed, budget, episodes)


def find_key(record: Record) -> str:
    """Find the key of the job that a record is of: settings that have come since it was written have their defaults.

    Args:
        record: of a finished job.

    Returns:
        The key of that job now; the recorded one where its settings cannot be read any more.
    """
    try:
        settings = _complete_settings(record["kind"], json.dumps(record["settings"]))
    except DDOPGError:
        return record["key"]
    return Job(**{name: record[name] for name in Job._fields} | {"settings": settings}).key


@cache
def _complete_settings(kind: str, settings: str) -> dict[str, Any]:
    """All settings of an algorithm, from those that a record holds as JSON. Most records share theirs with others."""
    return to_dict(baselines.read_settings(kind, json.loads(settings)))


def run(job: Job, report: Report = lambda share: None) -> Record:
    """Learn and evaluate.

    Args:
        job: what to run.
        report: is told which share of the budget is used.

    Returns:
        The record: the job, versions, times, and the learning curve.

    Raises:
        RolloutError: if the environment fails, or a return is not finite.
    """
    from ddopg.envs.adapter import make
    from ddopg.support.compilation import keep_compiled_programs

    keep_compiled_programs()
    started, started_cpu = time.perf_counter(), time.process_time()
    settings = baselines.read_settings(job.kind, job.settings)
    judge = Judge(job.env, job.seed, job.episodes)
    checkpoints = baselines.load_learner(job.kind)(make(job.env), job.seed, settings)
    curve, steps = measure_learning_curve(checkpoints, job.budget, judge.evaluate, report)
    return {
        "key": job.key,
        **job._asdict(),
        "version": __version__,
        "packages": _read_versions(),
        "steps": steps,
        "seconds": round(time.perf_counter() - started, 2),
        "evaluation_seconds": round(judge.seconds, 2),
        "cpu_seconds": round(time.process_time() - started_cpu, 2),
        "curve": [[mark, round(value, 3)] for mark, value in curve],
    }


def place_marks(budget: int) -> list[int]:
    """Place the marks of a learning curve: every 2 % of the budget."""
    return [int(mark) for mark in np.linspace(0, budget, MARKS + 1)[1:]]


def measure_learning_curve(
    checkpoints: Iterator[Checkpoint],
    budget: int,
    value: Callable[[Checkpoint], float],
    report: Report = lambda share: None,
) -> tuple[list[tuple[int, float]], int]:
    """Follow a learner to the end of its budget and evaluate it at every mark.

    Args:
        checkpoints: what the learner gives, the first one before any step.
        budget: environment steps.
        value: evaluates a checkpoint.
        report: is told which share of the budget is used.

    Returns:
        (mark, value of the latest checkpoint at or before it) for each mark, and the steps used in the end.
    """
    marks, curve = place_marks(budget), []
    known = next(checkpoints)
    assert known.steps == 0, "the first checkpoint is free"
    while known.steps < budget:
        after = next(checkpoints)
        while marks and marks[0] < after.steps:
            curve.append((marks.pop(0), value(known)))
        known = after
        report(min(known.steps / budget, 1.0))
    return curve + [(mark, value(known)) for mark in marks], known.steps


class Judge:
    """Mean returns on episodes that nobody learns from; an unchanged policy is not judged twice.

    Runs with the same seed share their episodes, whatever the method; runs with other seeds have others, so that
    one easy set of episodes does not shift all results.
    """

    def __init__(self, env: str, seed: int, episodes: int) -> None:
        from ddopg.core.seeding import FIRST_EVALUATION_SEED
        from ddopg.envs.adapter import make

        self.env, self.seconds = make(env), 0.0
        first = FIRST_EVALUATION_SEED + seed * episodes
        self.seeds = range(first, first + episodes)
        self._latest, self._value = b"", 0.0

    def evaluate(self, checkpoint: Checkpoint) -> float:
        """Evaluate the deterministic policy of a checkpoint.

        Args:
            checkpoint: the policy and its parameters.

        Returns:
            Its mean return.

        Raises:
            RolloutError: if that is not finite.
        """
        from ddopg.rollouts.playing import evaluate

        content = checkpoint.theta.tobytes()
        if content != self._latest:
            started = time.perf_counter()
            returns = evaluate(self.env, checkpoint.policy, checkpoint.theta, self.seeds)
            self._latest, self._value = content, float(np.mean(returns))
            self.seconds += time.perf_counter() - started
        require(
            math.isfinite(self._value),
            f"the mean return of the policy after {checkpoint.steps} steps is {self._value}, expected a finite "
            "number; the environment or the policy overflows",
            RolloutError,
        )
        return self._value


def _read_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
