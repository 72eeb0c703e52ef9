"""Draw learning curves from the saved data.

python benchmarks/picture.py default docs/images/default.png           # the default preset on every task
python benchmarks/picture.py trajectory docs/images/trajectory.png     # the preset `trajectory` on the paper's tasks
python benchmarks/picture.py others docs/images/others.png             # the same on tasks that it was not tuned for
python benchmarks/picture.py front docs/images/front.png               # the default beside rivals, for a narrow page
"""

import argparse
from pathlib import Path

import numpy as np
from default import FRESH_SEEDS, TASKS, find_runs
from trajectory import BUDGETS, OTHERS, groups

from ddopg.experiments.bench.stats import SOLVED
from ddopg.experiments.figures import benchmark, curves, runs
from ddopg.experiments.figures.curves import BLUE, GREEN, ORANGE, RED, SKY, Band, Look

FLOOR = {
    "cartpole": 0,
    "mountaincar": -430,
    "swimmer": -50,
    "Reacher-v5": -60,
    "MountainCarContinuous-v0": -10,
    "LunarLanderContinuous-v3": -250,
}
COLUMNS = 5  # panels that fit into one row


def draw(path, runs):
    """One panel per task: median, middle half and worst seed."""
    columns = len(runs) if len(runs) <= COLUMNS else 4
    lines = -(-len(runs) // columns)
    picture = curves.make_picture(11, 0.6 + 2.8 * lines)
    panels = np.ravel(picture.subplots(lines, columns))
    for axes in panels[len(runs) :]:
        axes.remove()
    for axes, (env, rows) in zip(panels, runs.items(), strict=False):
        steps, values = curves.stack_curves(rows)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        curves.draw(axes, Band(steps, middle, low, high), Look("median, middle half of the seeds", BLUE), 0.2)
        axes.plot(steps, values.min(0), color=RED, lw=1, label="worst of the seeds at each mark")
        if env in SOLVED:
            curves.draw_threshold(axes, SOLVED[env])
        axes.set_title(f"{env} ({len(rows)} seeds)", fontsize=12 if len(runs) == 3 else 8)
        axes.set(xlabel="environment steps", ylim=(FLOOR.get(env), None))
        axes.xaxis.set_major_formatter(curves.format_thousands)
        axes.tick_params(labelsize=10 if len(runs) == 3 else 8)
        axes.grid(alpha=0.25)
    for axes in panels[: len(runs) : columns]:
        axes.set_ylabel("return of the incumbent\n(fresh episodes)")
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    curves.save(picture, path)


FRONT = {
    "ddopg": Look("ddopg", RED, "-", 3.0),
    "cmaes": Look("CMA-ES", BLUE, "-", 2.2),
    "sac-tuned": Look("SAC", SKY, "-", 2.2),
    "ppo-paper": Look("PPO", GREEN, "-", 2.2),
    "trpo-paper": Look("TRPO", ORANGE, "-", 2.2),
}


def draw_front(path):
    """Median and middle half of the seeds, one task below the other: letters stay legible on a telephone."""
    found = runs.collect(benchmark.plan_jobs(quick=False), Path(__file__).parent / "figures" / "benchmark")
    found |= {(env, "ddopg"): rows for (env,), rows in find_runs("report", "env").items()}
    picture = curves.make_picture(6.2, 8.6)
    for axes, env in zip(picture.subplots(3, 1), BUDGETS, strict=True):
        for method, look in reversed(FRONT.items()):
            steps, values = curves.stack_curves(found[env, method])
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
            curves.draw(axes, Band(steps, middle, low, high), look, 0.15)
        axes.axhline(SOLVED[env], color="0.5", lw=1, ls=":")
        axes.text(0.01, SOLVED[env], "solved", transform=axes.get_yaxis_transform(), va="top", fontsize=11)
        axes.set(xscale="log", xlim=(100 if env == "cartpole" else 1000, None), ylim=benchmark.RANGES[env])
        axes.set_title(env, fontsize=15)
        axes.xaxis.set_major_formatter(curves.format_thousands)
        axes.tick_params(labelsize=12)
        axes.grid(alpha=0.25)
    picture.axes[1].set_ylabel("return of the policy handed over, median and middle half", fontsize=13)
    picture.axes[2].set_xlabel("environment steps", fontsize=13)
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(
        handles[::-1], labels[::-1], loc="outside upper center", ncols=5, frameon=False, fontsize=12
    )
    curves.save(picture, path)


def collect(what):
    """Task → its runs; of the default those with all seeds."""
    if what == "default":
        found = find_runs("report", "env")
        return {env: found[env,] for env in TASKS if len(found.get((env,), ())) == len(FRESH_SEEDS)}
    budgets = {env: budget for env, (budget, _) in OTHERS.items()} if what == "others" else BUDGETS
    saved = dict(groups("others" if what == "others" else "report", "env", "budget"))
    return {env: saved[env, budget] for env, budget in budgets.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["default", "trajectory", "others", "front"])
    parser.add_argument("path", type=Path)
    options = parser.parse_args()
    if options.what == "front":
        draw_front(options.path)
    else:
        draw(options.path, collect(options.what))
