"""The comparison at the end: the best setting and the preset, both run again on seeds that no trial has seen.

The best of many noisy values is too good on average. So the scores on fresh seeds are compared, seed by seed. If the
95 % bootstrap interval of the mean difference holds 0, the setting is not shown to be better.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ddopg._version import __version__
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.stats import stratified_bootstrap
from ddopg.experiments.bench.workers import Failed
from ddopg.experiments.tuning.ranges import Plain, find_start
from ddopg.experiments.tuning.study import Plan, count_states, read_values
from ddopg.experiments.tuning.trials import score_curve
from ddopg.support.files import write_atomically
from ddopg.support.records import flatten, to_dict

PRESET_FILE = "preset.json"
SHOWN = 5  # trials in the table
TUNED = "tuned"
BETTER, WORSE, OPEN, SAME = (
    "better than the preset",
    "worse than the preset",
    "not better than the preset (the interval holds 0)",
    "the preset itself: no trial beat it",
)


class Difference(NamedTuple):
    """Score of the tuned setting less the preset's, on fresh seeds."""

    mean: float
    interval: tuple[float, float]
    seeds: tuple[int, ...]

    @property
    def verdict(self) -> str:
        """The difference in words."""
        low, high = self.interval
        return BETTER if low > 0 else WORSE if high < 0 else OPEN


def find_changes(plan: Plan, best: FrozenTrial) -> dict[str, Plain]:
    """Find in what the best trial differs from the preset."""
    tuned = flatten(to_dict(plan.apply(read_values(best, plan.space))))
    own = flatten(to_dict(plan.apply({})))
    return {name: value for name, value in tuned.items() if value != own[name]}


def make_jobs(plan: Plan, changes: dict[str, Plain], fresh: Sequence[int]) -> list[Job]:
    """Make the jobs of the comparison: the preset and the tuned setting on every fresh seed.

    Args:
        plan: what was tuned.
        changes: of the tuned setting.
        fresh: seeds that no trial has seen.
    """
    sides = {_name_preset(plan): {}, TUNED: changes}
    return [
        Job(plan.env, name, plan.kind, to_dict(plan.apply(some)), seed, plan.steps, plan.episodes)
        for seed in fresh
        for name, some in sides.items()
    ]


def compare(
    plan: Plan, jobs: Sequence[Job], out: Path, execute: bench.Execute, quiet: bool
) -> tuple[Difference | None, list[Failed]]:
    """Run what is missing of the comparison, and compare seed by seed.

    Args:
        plan: what was tuned.
        jobs: of both settings.
        out: the directory of the records.
        execute: runs jobs and gives their events.
        quiet: show no progress.

    Returns:
        The difference, or None if a run failed; and the runs that failed.
    """
    failures = bench.complete(jobs, out, execute, quiet, patient=True)
    if failures:
        return None, failures
    found = bench.read_finished(out)
    scores = {(job.method, job.seed): score_curve(found[job.key]["curve"], plan.score) for job in jobs}
    fresh = tuple(dict.fromkeys(job.seed for job in jobs))
    pairs = np.array([scores[TUNED, seed] - scores[_name_preset(plan), seed] for seed in fresh])
    rng = np.random.default_rng(bench.BOOTSTRAP_SEED)
    return Difference(float(pairs.mean()), stratified_bootstrap([pairs], _mean, rng), fresh), []


def write(
    path: Path, study: optuna.Study, plan: Plan, changes: dict[str, Plain], difference: Difference | None
) -> Path:
    """Write the preset file, with where it comes from; `ddopg train --config` reads it.

    Args:
        path: of the file.
        study: the finished study.
        plan: what was tuned.
        changes: of the tuned setting.
        difference: on fresh seeds, if there was a comparison.

    Returns:
        The path.
    """
    best, count = study.best_trial, count_states(study)
    note: dict[str, Any] = {
        "by": "ddopg tune",
        "version": __version__,
        "study": study.study_name,
        "env": plan.env,
        "steps": plan.steps,
        "episodes": plan.episodes,
        "score": plan.score,
        "trial": best.number,
        "value": best.value,
        "seeds": list(plan.seeds),
        "scores": [best.intermediate_values[place] for place in range(len(plan.seeds))],
        "trials": {s.name.lower(): count[s] for s in (TrialState.COMPLETE, TrialState.PRUNED)},
    }
    if difference is not None:
        note |= {
            "verdict": difference.verdict,
            "difference": difference.mean,
            "interval": list(difference.interval),
            "fresh_seeds": list(difference.seeds),
        }
    elif not changes:
        note["verdict"] = SAME
    text = json.dumps({"preset": plan.preset, "changes": changes, "note": note}, indent=2)
    return write_atomically(path, text.encode() + b"\n")


def print_trials(study: optuna.Study, plan: Plan, console: Console) -> None:
    """Print the best trials: value, worst seed, and what they tried."""
    count = count_states(study)
    failed = sum("failure" in t.user_attrs for t in study.get_trials(deepcopy=False))
    complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    title = (
        f"{plan.env}, {plan.steps:,} steps, {len(plan.seeds)} seeds: {count[TrialState.COMPLETE]} trials complete, "
        f"{count[TrialState.PRUNED]} ended early{f', {failed} of them by a failing run' if failed else ''}"
    )
    shown = sorted(complete, key=lambda t: -(t.value or 0.0))[:SHOWN]
    own = find_start(plan.preset, plan.space)
    values = [read_values(trial, plan.space) for trial in shown]
    console.print(Text(title), soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for trial, value in zip(shown, values, strict=True):
        table.add_column(f"trial {trial.number}{' = preset' if value == own else ''}", justify="right")
    table.add_row(f"IQM of the {plan.score}", *(f"{trial.value:.4g}" for trial in shown))
    table.add_row("worst seed", *(f"{min(trial.intermediate_values.values()):.4g}" for trial in shown))
    for name in plan.space:
        table.add_row(name, *(_format_value(value[name]) for value in values))
    console.print(table)


def print_verdict(difference: Difference, plan: Plan, console: Console) -> None:
    """Print the verdict in one sentence; it may be a no."""
    low, high = difference.interval
    colour = {BETTER: "green", WORSE: "red"}.get(difference.verdict, "yellow")
    what = "mean over the curve" if plan.score == "area" else "at the end"
    console.print(
        f"[bold {colour}]{difference.verdict}[/] on {len(difference.seeds)} fresh seeds: "
        f"{difference.mean:+.4g} [{low:+.4g}, {high:+.4g}] (return, {what}; mean of the differences seed by seed)",
        highlight=False,
        soft_wrap=True,
    )


def _mean(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=-1)


def _name_preset(plan: Plan) -> str:
    return f"preset {plan.preset}"


def _format_value(value: Plain) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
