"""What is said of methods on all tasks of a suite together: pure functions of records.

Scores are normalised task by task. Where runs of a task have budgets of different length, all are compared at the
shortest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ddopg.experiments.bench.jobs import place_marks
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.stats import (
    REFERENCES,
    SOLVED,
    bootstrap_improvement,
    iqm,
    median_with_infinity,
    normalise,
    probability_of_improvement,
    resample_curve,
    steps_to_solved,
    stratified_bootstrap,
)

Groups = Mapping[str, Mapping[str, Sequence[Record]]]  # task → method → records of its runs
Interval = tuple[float, float]


class Scores(NamedTuple):
    """The runs of one method: scores at the marks of each task, (runs, marks), and what they took."""

    method: str
    by_task: dict[str, np.ndarray]
    seconds: dict[str, np.ndarray]  # of learning, without evaluation, per run
    steps_to_solved: dict[str, list[float]]

    @property
    def last(self) -> list[np.ndarray]:
        """The scores at the end, task by task."""
        return [scores[:, -1] for scores in self.by_task.values()]

    @property
    def area(self) -> list[np.ndarray]:
        """The mean scores over the learning curve, task by task."""
        return [scores.mean(axis=1) for scores in self.by_task.values()]


class Overall(NamedTuple):
    """What is said of one method on several tasks."""

    method: str
    tasks: int
    runs: tuple[int, int]  # the fewest and the most on a task
    iqm: float
    interval: Interval
    area: float  # IQM of the mean over the curve
    area_interval: Interval
    solved: float  # share of the runs that are solved at any mark, averaged over the tasks
    worst: float  # of the worst run of all
    worst_mean: float  # of the worst run of each task, averaged over the tasks
    seconds: float  # of a run, summed over the tasks; medians of the runs


def compare_at(groups: Groups) -> dict[str, int]:
    """Find the steps at which the runs of each task are compared: the shortest budget.

    Args:
        groups: records by task and method.

    Returns:
        Task → environment steps.
    """
    return {
        env: min(record["budget"] for records in methods.values() for record in records)
        for env, methods in groups.items()
    }


def collect_scores(groups: Groups, method: str, tasks: Sequence[str]) -> Scores:
    """Collect the scores of one method.

    Args:
        groups: records by task and method.
        method: its name.
        tasks: those on which it has runs.

    Returns:
        Its scores at the marks of `compare_at`.
    """
    ends = compare_at(groups)
    by_task, seconds, solved = {}, {}, {}
    for env in tasks:
        records, marks = groups[env][method], place_marks(ends[env])
        nothing, _ = REFERENCES[env]
        values = np.array([resample_curve(record["curve"], marks, nothing) for record in records])
        by_task[env] = normalise(values, env)
        seconds[env] = np.array([record["seconds"] - record["evaluation_seconds"] for record in records])
        curves = [list(zip(marks, row, strict=True)) for row in values]
        solved[env] = [steps_to_solved(curve, SOLVED.get(env)) for curve in curves]
    return Scores(method, by_task, seconds, solved)


def summarise_scores(scores: Scores, seed: int = 0) -> Overall:
    """Summarise one method.

    Args:
        scores: of its runs.
        seed: of the bootstrap.

    Returns:
        The summary.
    """
    last, area = scores.last, scores.area
    counts = [len(values) for values in last]
    return Overall(
        scores.method,
        len(last),
        (min(counts), max(counts)),
        float(iqm(np.concatenate(last))),
        stratified_bootstrap(last, iqm, np.random.default_rng(seed)),
        float(iqm(np.concatenate(area))),
        stratified_bootstrap(area, iqm, np.random.default_rng(seed)),
        float(np.mean([np.isfinite(steps).mean() for steps in scores.steps_to_solved.values()])),
        float(min(values.min() for values in last)),
        float(np.mean([values.min() for values in last])),
        float(sum(np.median(seconds) for seconds in scores.seconds.values())),
    )


def compare_scores(ours: Scores, theirs: Scores, seed: int = 0) -> tuple[float, Interval]:
    """Find the probability that a run of ours ends better than one of theirs, on the tasks that both have.

    Args:
        ours: of one method.
        theirs: of another.
        seed: of the bootstrap.

    Returns:
        The probability, and its interval.
    """
    common = [env for env in ours.by_task if env in theirs.by_task]
    mine = [ours.by_task[env][:, -1] for env in common]
    other = [theirs.by_task[env][:, -1] for env in common]
    return probability_of_improvement(mine, other), bootstrap_improvement(
        mine, other, np.random.default_rng(seed)
    )


def find_covered(groups: Groups, method: str) -> list[str]:
    """List the tasks with a scale on which a method has runs, in their order."""
    return [env for env, methods in groups.items() if methods.get(method) and env in REFERENCES]


def find_median_steps(scores: Scores, env: str) -> float:
    """Find the median over the runs of the first mark that is solved; ∞ for a run that never is."""
    return median_with_infinity(scores.steps_to_solved[env])
