"""Draw the default's learning curves from the saved data.

python benchmarks/picture.py docs/images/default.png             # the three tasks
python benchmarks/picture.py docs/images/others.png --others     # tasks it was not tuned for
"""

import argparse
from pathlib import Path

import numpy as np
from default import BUDGETS, OTHERS, groups
from matplotlib.figure import Figure

from ddopg.experiments.stats import SOLVED

FLOOR = {
    "cartpole": 0,
    "mountaincar": -430,
    "swimmer": -50,
    "Reacher-v5": -60,
    "MountainCarContinuous-v0": -10,
}


def draw(path, runs):
    """One panel per task: median, middle half and worst seed."""
    figure = Figure(figsize=(11, 3.4), dpi=130, layout="constrained")
    for axes, (env, rows) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
        steps = np.array(rows[0]["curve"])[:, 0]
        values = np.array([np.array(row["curve"])[:, 1] for row in rows])
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        axes.fill_between(
            steps, low, high, alpha=0.2, lw=0, color="tab:blue", label="middle half of the seeds"
        )
        axes.plot(steps, middle, color="tab:blue", lw=2, label="median")
        axes.plot(steps, values.min(0), color="tab:red", lw=1, label="worst of the seeds at each mark")
        if env in SOLVED:
            axes.axhline(SOLVED[env], color="0.5", lw=1, ls="--", label="solved")
        axes.set_title(f"{env} ({len(rows)} seeds)", fontsize=12 if len(runs) == 3 else 8)
        axes.set(xlabel="environment steps", ylim=(FLOOR.get(env), None))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
        axes.tick_params(labelsize=10 if len(runs) == 3 else 8)
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("return of the incumbent\n(fresh episodes)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--others", action="store_true")
    options = parser.parse_args()
    budgets = {env: budget for env, (budget, _) in OTHERS.items()} if options.others else BUDGETS
    saved = dict(groups("others" if options.others else "report", "env", "budget"))
    draw(options.path, {env: saved[env, budget] for env, budget in budgets.items()})
