"""The numbers behind the paper's Figs. 3 to 5: every variant, and differences between pairs of them.

    ddopg figure ablation-history; ddopg figure ablation-lengthscale; ddopg figure ablation-temperature
    python benchmarks/ablations.py

Data: benchmarks/figures/ablation-*/records.jsonl, which the figures complete and draw. A difference is that of the
mean over the curve, or of the end, paired by seed, with its 95 % bootstrap interval.
"""

from itertools import combinations
from pathlib import Path

import numpy as np
from trajectory import area, line, paired_difference

from ddopg.experiments.figures import history, lengthscale, runs, temperature
from ddopg.experiments.figures.ablation import ENV, name_method

DATA = Path(__file__).parent / "figures"


def end(row):
    return float(row["curve"][-1][1])


def print_figure(settings):
    groups = runs.collect(settings.plan_jobs(False), DATA / settings.name)
    found = {v.look.label: groups.get((ENV, name_method(v)), []) for v in settings.variants}
    print(
        f"\n{settings.name}: variant | solved | median steps | worst | stays | end | mean end | mean over the curve"
    )
    for label, rows in found.items():
        if rows:
            means = f"{np.mean([end(row) for row in rows]):.0f} | {np.mean([area(row) for row in rows]):.0f}"
            print(f"| {label} | {line(ENV, rows)} | {means} |")
    for one, other in combinations(found, 2):
        if found[one] and found[other]:
            over, last = (paired_difference(found[one], found[other], value) for value in (area, end))
            print(f"{one} − {other}: over the curve {over}, at the end {last}")


if __name__ == "__main__":
    for figure in (history, lengthscale, temperature):
        print_figure(figure.SETTINGS)
