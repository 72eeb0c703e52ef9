"""Statistics over runs: pure functions of numbers, randomness as an argument.

Learning curves are reported by mean ± standard deviation, as in the paper, and by what ten runs can bear: median,
interquartile mean and bootstrap intervals (Agarwal et al. 2021), and the worst seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ddopg.envs.tasks import TASKS
from ddopg.experiments.bench.suites import SUITES

DRAWS = 2000
LEVEL = 0.95

_IN_SUITES = [task for suite in SUITES.values() for task in suite]
SOLVED = {task.env: task.solved for task in _IN_SUITES} | {
    name: spec.solved for name, spec in TASKS.items() if spec.solved is not None
}
"""Task → mean return that we call solved (`docs/tasks.md`, `docs/benchmark.md`)."""
REFERENCES = {task.env: (task.nothing, task.best) for task in _IN_SUITES} | {
    name: spec.references for name, spec in TASKS.items() if spec.references is not None
}
"""Task → returns of doing nothing and of the best policy known: 0 and 1 of a normalised score."""

Curve = Sequence[Sequence[float]]  # (step, mean return) at every mark
Statistic = Callable[[np.ndarray], np.ndarray]  # (…, n) → (…)


class Summary(NamedTuple):
    """What is said about the runs of one method on one task."""

    runs: int
    mean: float  # of the last values
    sd: float  # sample standard deviation; NaN for a single run
    median: float
    iqm: float
    interval: tuple[float, float]  # of the IQM
    worst: float
    area: float  # mean over runs and marks
    solved: int | None  # how many runs, None where nothing is called solved
    steps: float  # median over all runs of the steps to solved, ∞ for a run that never is
    stays: float  # share of later marks that are still solved, over all runs; NaN if there are none


def summarise(curves: Sequence[Curve], threshold: float | None, rng: np.random.Generator) -> Summary:
    """Summarise the runs of one method on one task.

    Args:
        curves: the learning curves, all on one grid.
        threshold: the mean return that counts as solved; None if nothing does.
        rng: of the bootstrap.
    """
    table = np.asarray(curves, np.float64)  # (runs, marks, 2)
    last = table[:, -1, 1]
    first = [steps_to_solved(curve, threshold) for curve in curves]
    return Summary(
        runs=len(last),
        mean=float(last.mean()),
        sd=standard_deviation(last),
        median=float(np.median(last)),
        iqm=float(iqm(last)),
        interval=stratified_bootstrap([last], iqm, rng),
        worst=float(last.min()),
        area=float(table[:, :, 1].mean()),
        solved=None if threshold is None else sum(map(math.isfinite, first)),
        steps=median_with_infinity(first),
        stays=stays_solved(curves, threshold),
    )


def standard_deviation(values: np.ndarray) -> float:
    """√(Σ(x − x̄)²/(n − 1)); NaN for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def iqm(values: np.ndarray) -> np.ndarray:
    """Interquartile mean over the last axis: the mean of what is left when ⌊n/4⌋ values are cut from each end."""
    ordered = np.sort(values, axis=-1)
    n = ordered.shape[-1]
    cut = n // 4
    return ordered[..., cut : n - cut].mean(axis=-1)


def stratified_bootstrap(
    strata: Sequence[np.ndarray],
    statistic: Statistic,
    rng: np.random.Generator,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> tuple[float, float]:
    """Percentile interval of a statistic of all runs together; runs are redrawn within each stratum (task).

    Args:
        strata: the values of the runs of each task.
        statistic: (…, n) → (…).
        rng: draws the runs.
        level: of the interval.
        draws: how many times runs are redrawn.

    Returns:
        The lower and the upper end.
    """
    redrawn = [_redraw(values, rng, draws) for values in strata]
    found = statistic(np.concatenate(redrawn, axis=-1))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def steps_to_solved(curve: Curve, threshold: float | None) -> float:
    """The first mark at which the value reaches the threshold; ∞ if none does."""
    if threshold is None:
        return math.inf
    return next((float(step) for step, value in curve if value >= threshold), math.inf)


def stays_solved(curves: Sequence[Curve], threshold: float | None) -> float:
    """Share of the marks after each run's first solved one that are solved too; NaN if there are none."""
    later = [
        value >= threshold
        for curve in curves
        for first in [steps_to_solved(curve, threshold)]
        for step, value in curve
        if threshold is not None and step > first
    ]
    return float(np.mean(later)) if later else math.nan


def median_with_infinity(values: Sequence[float]) -> float:
    """The median, where ∞ is a value: of an even number, ∞ if either middle one is."""
    ordered, n = sorted(values), len(values)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return high if math.isinf(high) else (low + high) / 2


def normalise(values: np.ndarray, env: str) -> np.ndarray:
    """(return − do nothing) / (best known − do nothing).

    Args:
        values: returns on one task.
        env: the task, one of `REFERENCES`.

    Returns:
        Their scores: 0 is doing nothing, 1 the best known.
    """
    nothing, best = REFERENCES[env]
    return (values - nothing) / (best - nothing)


def probability_of_improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """P(X > Y) + P(X = Y)/2 of a run X of ours and a run Y of theirs, averaged over the tasks.

    Args:
        ours: the values of our runs, task by task.
        theirs: the values of theirs, of the same tasks.

    Returns:
        1 if every run of ours is better than every one of theirs on the same task, ½ if they are alike.

    Example:
        >>> import numpy as np
        >>> probability_of_improvement([np.array([1.0, 3.0])], [np.array([2.0, 3.0])])
        0.375
    """
    return float(np.mean([_compare(x, y) for x, y in zip(ours, theirs, strict=True)]))


def bootstrap_improvement(
    ours: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    rng: np.random.Generator,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> tuple[float, float]:
    """Percentile interval of `probability_of_improvement`; the runs of both are redrawn within each task.

    Args:
        ours: the values of our runs, task by task.
        theirs: the values of theirs, of the same tasks.
        rng: draws the runs.
        level: of the interval.
        draws: how many times runs are redrawn.

    Returns:
        The lower and the upper end.
    """
    found = np.mean(
        [_compare(_redraw(x, rng, draws), _redraw(y, rng, draws)) for x, y in zip(ours, theirs, strict=True)],
        axis=0,
    )
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def performance_profile(strata: Sequence[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """Share of runs with a score above each threshold, averaged over the tasks.

    Args:
        strata: the scores of the runs of each task.
        thresholds: scores, (K,).

    Returns:
        The shares, (K,): a line that falls from 1 to 0; one above another is better everywhere.

    Example:
        >>> import numpy as np
        >>> performance_profile([np.array([0.2, 0.9]), np.array([0.6])], np.array([0.0, 0.5, 0.8])).tolist()
        [1.0, 0.75, 0.25]
    """
    return np.mean([(values[:, None] > thresholds).mean(axis=0) for values in strata], axis=0)


def bootstrap_profile(
    strata: Sequence[np.ndarray],
    thresholds: np.ndarray,
    rng: np.random.Generator,
    level: float = LEVEL,
    draws: int = 500,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile band of `performance_profile`; runs are redrawn within each task.

    Args:
        strata: the scores of the runs of each task.
        thresholds: scores, (K,).
        rng: draws the runs.
        level: of the band, at each threshold by itself.
        draws: how many times runs are redrawn.

    Returns:
        Its lower and its upper edge, (K,) each.
    """
    shares = [
        (_redraw(values, rng, draws)[:, :, None] > thresholds).mean(axis=1) for values in strata
    ]  # (draws, K) each
    low, high = np.quantile(np.mean(shares, axis=0), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def resample_curve(curve: Curve, marks: Sequence[float], before: float) -> np.ndarray:
    """The values of a learning curve at other marks: what was known then.

    Args:
        curve: (step, value) at its own marks.
        marks: environment steps, none beyond the last of the curve.
        before: the value before the first mark of the curve.

    Returns:
        At each mark, the value of the curve at its latest mark by then.

    Example:
        >>> resample_curve([(10, 1.0), (20, 2.0)], [5, 15, 20], before=0.0).tolist()
        [0.0, 1.0, 2.0]
    """
    steps, values = np.asarray(curve, np.float64).T
    assert marks[-1] <= steps[-1], "a curve says nothing beyond its end"
    return np.concatenate([[before], values])[np.searchsorted(steps, marks, side="right")]


def _compare(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """P(X > Y) + P(X = Y)/2 over the last axes, (…, n) and (…, m) → (…)."""
    left, right = x[..., :, None], y[..., None, :]
    return ((left > right) + 0.5 * (left == right)).mean(axis=(-2, -1))


def _redraw(values: np.ndarray, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Draw runs with replacement, (draws, n)."""
    return values[rng.integers(len(values), size=(draws, len(values)))]
