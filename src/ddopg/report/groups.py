"""Groups of runs that differ only in their seed, and statistics over the learning curves of a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ddopg.config import PRESETS, Config
from ddopg.core.types import Description, Evaluation
from ddopg.envs.adapter import SHORT_NAMES
from ddopg.experiments.bench.benchmark import BOOTSTRAP_SEED
from ddopg.experiments.bench.stats import SOLVED, median_with_infinity, steps_to_solved, summarise
from ddopg.experiments.figures.curves import iqm_and_interval
from ddopg.report.numbers import round_number, round_numbers
from ddopg.storage.reading import Reading
from ddopg.support.records import flatten

LEAST_SEEDS = 3  # for an interval
MARKS = 60  # of the grid on which seeds are put together


def group_runs(readings: Sequence[Reading]) -> list[list[int]]:
    """Put runs of the same problem, policy class and configuration into one group, whatever their seeds.

    Args:
        readings: the runs.

    Returns:
        The indices of the runs of each group; groups of one task stand side by side.
    """
    found: dict[Any, list[int]] = {}
    for i, reading in enumerate(readings):
        about = reading.about
        own = about.own_policy, about.policy_home, about.parameters
        found.setdefault((name_task(reading), about.problem, about.config, own), []).append(i)
    tasks = [name_task(reading) for reading in readings]
    return sorted(found.values(), key=lambda members: tasks.index(tasks[members[0]]))


def summarise_group(readings: Sequence[Reading], members: Sequence[int]) -> dict[str, Any]:
    """Describe one group for the page.

    Args:
        readings: all runs of the page.
        members: the indices of those in the group.

    Returns:
        Plain values: task, policy class of the user's own, preset, changes, seeds, and the statistics of all seeds
        together.
    """
    own = [readings[i] for i in members]
    task, (preset, changes) = name_task(own[0]), find_nearest_preset(own[0].about.config)
    evaluated = [i for i in members if readings[i].evaluations]
    seeds = [reading.state.seed for reading in own]
    return {
        "task": task,
        "policy": _name_own_policy(own[0].about),
        "preset": preset,
        "changes": changes,
        "runs": list(members),
        "seeds": seeds,
        "twice": sorted({seed for seed in seeds if seeds.count(seed) > 1}),
        "versions": sorted({reading.about.version for reading in own}),
        "solved": SOLVED.get(task),
        "together": _combine_seeds(readings, evaluated, SOLVED.get(task)),
    }


def _name_own_policy(about: Description) -> str:
    """A policy class of the user's own by its name, or that it is one; nothing for a configured one."""
    return about.policy_home or ("own policy class" if about.own_policy else "")


def name_task(reading: Reading) -> str:
    """Name the task of a run: the short name of its environment, else its id, else that there is none."""
    name = reading.about.environment
    short = {identifier: short for short, identifier in SHORT_NAMES.items()}
    return short.get(name, name) if name else "own rollouts (ask and tell)"


def find_nearest_preset(config: Config) -> tuple[str, dict[str, list[Any]]]:
    """Find the preset with the fewest differences from a configuration.

    Args:
        config: of a run.

    Returns:
        The name of the preset, and what differs: dotted name → [value of the preset, value of the run].
    """
    found = {name: find_differences(preset, config) for name, preset in PRESETS.items()}
    name = min(found, key=lambda name: len(found[name]))
    return name, found[name]


def find_differences(usual: Any, config: Any) -> dict[str, list[Any]]:
    """Compare two configurations.

    Args:
        usual: the one to compare with, such as a preset.
        config: the other one.

    Returns:
        What differs: dotted name → [usual value, other value].
    """
    known = flatten(usual)
    return {name: [known[name], value] for name, value in flatten(config).items() if value != known[name]}


def read_at_marks(evaluations: Sequence[Evaluation], marks: np.ndarray) -> list[list[float]]:
    """Read a learning curve at given numbers of steps.

    Args:
        evaluations: of one run, in order.
        marks: environment steps, none before the first evaluation.

    Returns:
        (mark, mean return of the latest evaluation at or before it) for each mark.
    """
    steps = np.array([row.steps for row in evaluations])
    at = np.searchsorted(steps, marks, side="right") - 1
    return [[float(mark), evaluations[k].mean] for mark, k in zip(marks, at, strict=True)]


def find_common_end(lasts: Sequence[int], horizon: int) -> int:
    """Find how far the learning curves of some seeds can be put together.

    Args:
        lasts: the steps of the last evaluation of each seed.
        horizon: of an episode.

    Returns:
        The steps of the longest run if less than an episode lies between all of them, else those of the shortest.
    """
    return max(lasts) if max(lasts) - min(lasts) < horizon else min(lasts)


def _combine_seeds(
    readings: Sequence[Reading], members: Sequence[int], threshold: float | None
) -> dict[str, Any] | None:
    """IQM and interval where all seeds have been evaluated; None for fewer than three."""
    curves = [readings[i].evaluations for i in members]
    if len(curves) < LEAST_SEEDS:
        return None
    horizon = readings[members[0]].about.problem.horizon
    first, last = (
        max(curve[0].steps for curve in curves),
        find_common_end([curve[-1].steps for curve in curves], horizon),
    )
    if first >= last:
        return None
    marks = np.unique(np.linspace(first, last, MARKS).astype(int))
    table = [read_at_marks(curve, marks) for curve in curves]
    if not np.isfinite(table).all():
        return None
    band = iqm_and_interval([{"curve": curve} for curve in table])
    found = summarise(table, threshold, np.random.default_rng(BOOTSTRAP_SEED))
    worst = min(range(len(table)), key=lambda i: table[i][-1][1])
    first_solved = [steps_to_solved([(row.steps, row.mean) for row in curve], threshold) for curve in curves]
    return {
        "steps": round_numbers(band.steps),
        "iqm": round_numbers(band.middle),
        "low": round_numbers(band.low),
        "high": round_numbers(band.high),
        "runs": len(curves),
        "worst_run": members[worst],
        "at": round_number(last),
        "mean": round_number(found.mean),
        "sd": round_number(found.sd),
        "worst": round_number(found.worst),
        "iqm_last": round_number(found.iqm),
        "interval": round_numbers(found.interval),
        "solved_runs": None if threshold is None else sum(map(math.isfinite, first_solved)),
        "median_steps": round_number(median_with_infinity(first_solved)),
    }
