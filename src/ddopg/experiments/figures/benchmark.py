"""Fig. 2: DD-OPG against policy gradients on the three tasks, and a second picture with every other rival.

The runs are those of `ddopg bench` with the same task, method, seed and budget: records made by it count here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from ddopg.experiments.bench.benchmark import Execute
from ddopg.experiments.bench.jobs import MARKS, Job, make_job
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.stats import SOLVED
from ddopg.experiments.bench.workers import Failed
from ddopg.experiments.figures import curves, runs
from ddopg.experiments.figures.curves import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, Band, Look

NAME = "benchmark"
RANGES = {"cartpole": (0, 1060), "mountaincar": (-430, -30), "swimmer": (-150, 580)}
"""Task → returns that are shown, from about doing nothing to the best known."""

Groups = Mapping[tuple[str, str], Sequence[Record]]


class Part(NamedTuple):
    """Methods that get the same budgets."""

    methods: tuple[str, ...]
    budgets: dict[str, int]  # task → environment steps
    seeds: tuple[int, ...] = runs.SEEDS
    episodes: int = 100  # per evaluation


def _make_budgets(cartpole: int, mountaincar: int, swimmer: int) -> dict[str, int]:
    return {"cartpole": cartpole, "mountaincar": mountaincar, "swimmer": swimmer}


GRADIENTS = ("reinforce-paper", "trpo-paper", "ppo-paper", "reinforce-tuned", "trpo-tuned", "ppo-tuned")
OURS = ("ddopg-paper", "ddopg-released")
SEARCHES = ("cmaes", "ars", "random", "cmaes-mlp", "ars-mlp", "random-mlp")

SETTINGS = (
    Part(("ddopg-trajectory", *SEARCHES), _make_budgets(20_000, 50_000, 200_000)),
    Part((*OURS, *GRADIENTS), _make_budgets(100_000, 200_000, 500_000)),
    Part(("sac", "sac-tuned"), _make_budgets(30_000, 50_000, 100_000), runs.SEEDS[:5]),
)
"""The slow learners' budgets are long enough to see their end, SAC's and ours what they need."""

QUICK = (
    Part(("ddopg-trajectory", "cmaes", "ars", "random"), {"cartpole": 2_000}, runs.SEEDS[:2], 20),
    Part((*OURS, *GRADIENTS[:3]), {"cartpole": 10_000}, runs.SEEDS[:2], 20),
    Part(("sac-tuned",), {"cartpole": 1_000}, runs.SEEDS[:2], 20),
)

PAPER = {
    "ddopg-trajectory": Look("DD-OPG, preset trajectory", RED, "-", 2.4),
    "ddopg-released": Look("DD-OPG as released", PINK),
    "ddopg-paper": Look("DD-OPG of the paper", BLACK, "-", 1.8),
    "reinforce-paper": Look("REINFORCE", BLUE),
    "trpo-paper": Look("TRPO", ORANGE),
    "ppo-paper": Look("PPO", GREEN),
}
IN_PARAMETER_SPACE = {
    "ddopg-trajectory": PAPER["ddopg-trajectory"],
    "cmaes": Look("CMA-ES", BLUE),
    "ars": Look("ARS", GREEN),
    "random": Look("random search", ORANGE),
    "cmaes-mlp": Look("CMA-ES, network", BLUE, ":"),
    "ars-mlp": Look("ARS, network", GREEN, ":"),
    "random-mlp": Look("random, network", ORANGE, ":"),
}
IN_ACTION_SPACE = {
    "ddopg-trajectory": PAPER["ddopg-trajectory"],
    "reinforce-tuned": Look("REINFORCE, tuned", BLUE),
    "trpo-tuned": Look("TRPO, tuned", ORANGE),
    "ppo-tuned": Look("PPO, tuned", GREEN),
    "sac-tuned": Look("SAC, tuned", SKY),
    "sac": Look("SAC", SKY, ":"),
}


def plan_jobs(quick: bool) -> list[Job]:
    """List all runs, seeds outermost."""
    return [
        make_job(env, method, seed, budget, part.episodes)
        for part in (QUICK if quick else SETTINGS)
        for seed in part.seeds
        for env, budget in part.budgets.items()
        for method in part.methods
    ]


def run(data: Path, quick: bool, execute: Execute, quiet: bool) -> list[Failed]:
    """Run what is missing; the small version does without the methods whose packages are not installed."""
    wanted = runs.keep_installed(plan_jobs(quick)) if quick else plan_jobs(quick)
    return runs.complete(wanted, data, execute, quiet)


def plot(data: Path, out: Path, quick: bool) -> list[Path]:
    """Draw the paper's figure, and a second one with all rivals."""
    wanted = runs.keep_installed(plan_jobs(quick), tell=False) if quick else plan_jobs(quick)
    groups = runs.collect(wanted, data)
    curves.require_data(groups, NAME, data)
    tasks = [env for env in RANGES if any(job.env == env for job in wanted)]
    missing = {env: count_unfinished(wanted, groups, env) for env in tasks}
    spans = {env: [job.budget for job in wanted if job.env == env] for env in tasks}
    return [
        curves.save(draw_paper_picture(groups, tasks, missing), out / f"{NAME}.png"),
        curves.save(draw_rivals_picture(groups, tasks, missing, spans), out / f"{NAME}-rivals.png"),
    ]


def count_unfinished(wanted: Sequence[Job], groups: Groups, env: str) -> dict[str, str]:
    """Count the runs on a task: method → "runs there/runs planned", for methods of which some are missing."""
    planned: dict[str, int] = {}
    for job in wanted:
        if job.env == env:
            planned[job.method] = planned.get(job.method, 0) + 1
    there = {method: len(groups.get((env, method), ())) for method in planned}
    return {m: f"{there[m]}/{number}" for m, number in planned.items() if there[m] < number}


def draw_paper_picture(groups: Groups, tasks: Sequence[str], missing: Mapping[str, Mapping[str, str]]) -> Any:
    """Draw mean ± sd against steps, linear as in the paper."""
    picture = curves.make_picture(11, 4.2)
    panels = picture.subplots(1, len(tasks), squeeze=False)[0]
    for axes, env in zip(panels, tasks, strict=True):
        bands = _compute_bands(groups, env, PAPER, curves.mean_and_deviation)
        _draw_panel(axes, env, bands, PAPER, missing[env])
        axes.set_xlim(0, None)
    panels[0].set_ylabel("return, mean ± sd over the seeds")
    _draw_legend(picture, panels)
    return picture


def draw_rivals_picture(
    groups: Groups,
    tasks: Sequence[str],
    missing: Mapping[str, Mapping[str, str]],
    spans: Mapping[str, Sequence[int]],
) -> Any:
    """Draw IQM and its interval against steps on a logarithmic axis.

    Search in parameter space is above, tuned learners in action space are below.

    Args:
        groups: (task, method) → records.
        tasks: one column each.
        missing: task → method → "runs there/runs planned".
        spans: task → budgets, for the axes.
    """
    picture = curves.make_picture(11, 7.6)
    rows: Any = picture.subfigures(2, 1)
    for row, looks in zip(rows, (IN_PARAMETER_SPACE, IN_ACTION_SPACE), strict=True):
        panels = row.subplots(1, len(tasks), squeeze=False)[0]
        for axes, env in zip(panels, tasks, strict=True):
            axes.set_xscale("log")
            bands = _compute_bands(groups, env, looks, curves.iqm_and_interval)
            _draw_panel(axes, env, bands, looks, missing[env])
            axes.set_xlim(min(spans[env]) / MARKS, 1.2 * max(spans[env]))
        panels[0].set_ylabel("return, IQM and 95 % interval")
        _draw_legend(row, panels)
    return picture


def _compute_bands(groups: Groups, env: str, looks: Mapping[str, Look], band_of: Any) -> dict[str, Band]:
    return {method: band_of(groups[env, method]) for method in looks if (env, method) in groups}


def _draw_panel(
    axes: Axes,
    env: str,
    bands: Mapping[str, Band],
    looks: Mapping[str, Look],
    missing: Mapping[str, str],
) -> None:
    for method in reversed(list(bands)):  # the first of the looks on top
        curves.draw(axes, bands[method], looks[method], shade=0.13)
    curves.draw_threshold(axes, SOLVED[env])
    axes.set(xlabel="environment steps", ylim=RANGES[env])
    axes.set_title(env, fontsize=11)
    axes.xaxis.set_major_formatter(curves.format_thousands)
    axes.grid(alpha=0.25)
    told = [f"{method} {count}" for method, count in missing.items() if method in looks]
    if told:
        note = "seeds so far:\n" + "\n".join(told)
        axes.text(
            0.98, 0.03, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=6.5, color="0.35"
        )


def _draw_legend(picture: Any, panels: Sequence[Axes]) -> None:
    """One legend for all panels, in the order of the looks."""
    found = {label: h for axes in panels for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    order = [look.label for looks in (PAPER, IN_PARAMETER_SPACE, IN_ACTION_SPACE) for look in looks.values()]
    labels = sorted(found, key=order.index)
    picture.legend(
        [found[label] for label in labels], labels, loc="outside lower center", ncols=4, frameon=False
    )
