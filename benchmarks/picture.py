"""Draw the default's learning curves from the saved data: python benchmarks/picture.py docs/images/default.png"""

import sys
from pathlib import Path

import numpy as np
from default import BUDGETS, groups
from matplotlib.figure import Figure

from ddopg.experiments.stats import SOLVED

FLOOR = {"cartpole": 0, "mountaincar": -430, "swimmer": -50}


def draw(path):
    figure = Figure(figsize=(11, 3.4), dpi=130, layout="constrained")
    runs = dict(groups("report", "env", "budget"))
    for axes, (env, solved) in zip(figure.subplots(1, 3), SOLVED.items(), strict=True):
        rows = runs[env, BUDGETS[env]]
        steps = np.array(rows[0]["curve"])[:, 0]
        values = np.array([np.array(row["curve"])[:, 1] for row in rows])
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        axes.fill_between(
            steps, low, high, alpha=0.2, lw=0, color="tab:blue", label="middle half of the seeds"
        )
        axes.plot(steps, middle, color="tab:blue", lw=2, label="median")
        axes.plot(steps, values.min(0), color="tab:red", lw=1, label="worst of the seeds at each mark")
        axes.axhline(solved, color="0.5", lw=1, ls="--", label="solved")
        axes.set(title=f"{env} ({len(rows)} seeds)", xlabel="environment steps", ylim=(FLOOR[env], None))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("return of the incumbent\n(100 fresh episodes)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
