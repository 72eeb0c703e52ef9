"""Draw the default's learning curves from the saved data.

python benchmarks/picture.py docs/images/default.png             # the three tasks
python benchmarks/picture.py docs/images/others.png --others     # tasks it was not tuned for
"""

import argparse
from pathlib import Path

import numpy as np
from default import BUDGETS, OTHERS, groups

from ddopg.experiments.bench.stats import SOLVED
from ddopg.experiments.figures import curves
from ddopg.experiments.figures.curves import BLUE, RED, Band, Look

FLOOR = {
    "cartpole": 0,
    "mountaincar": -430,
    "swimmer": -50,
    "Reacher-v5": -60,
    "MountainCarContinuous-v0": -10,
}


def draw(path, runs):
    """One panel per task: median, middle half and worst seed."""
    picture = curves.make_picture(11, 3.4)
    for axes, (env, rows) in zip(picture.subplots(1, len(runs)), runs.items(), strict=True):
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
    picture.axes[0].set_ylabel("return of the incumbent\n(fresh episodes)")
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    curves.save(picture, path)


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
