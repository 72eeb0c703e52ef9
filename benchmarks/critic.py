"""The preset `critic`: what it reaches on cartpole and on standard tasks that the default does not learn.

    python benchmarks/critic.py run --workers 2     # ten fresh seeds per task, seed by seed
    python benchmarks/critic.py table               # print the table from the saved data

Data: benchmarks/critic/records.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from default import line

from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import make_job

HERE = Path(__file__).parent / "critic"
TASKS = {  # budget, episodes per evaluation
    "cartpole": (4_000, 100),
    "Pendulum-v1": (10_000, 30),
    "InvertedDoublePendulum-v5": (10_000, 10),
    "InvertedPendulum-v5": (10_000, 10),
    "Reacher-v5": (20_000, 30),
    "MountainCarContinuous-v0": (20_000, 10),
    "mountaincar": (30_000, 30),
    "swimmer": (60_000, 20),
    "LunarLanderContinuous-v3": (50_000, 20),
}
FRESH_SEEDS = range(5210, 5220)  # each was run once, after the preset was frozen
EARLIER_SEEDS = range(5190, 5200)  # of the version before; 5160–5189 and 5200–5203 saw others
METHOD = "ddopg-critic"


def plan(envs, seeds=FRESH_SEEDS):
    return [make_job(env, METHOD, seed, *TASKS[env]) for seed in seeds for env in envs]


def print_table():
    found = bench.read_finished(HERE)
    for version, seeds in (("now", FRESH_SEEDS), ("before", EARLIER_SEEDS)):
        for env, (budget, _) in TASKS.items():
            rows = [found[job.key] for job in plan([env], seeds) if job.key in found]
            if rows:
                print(f"| {version} | {env} | {budget:,} | {len(rows)} | {describe(env, rows)} |")


def describe(env, rows):
    """Worst, median and best seed half-way; then when it was solved, whether it stayed, and the end."""
    half = np.sort([row["curve"][len(row["curve"]) // 2 - 1][1] for row in rows])
    return f"{half[0]:.4g} / {np.median(half):.4g} / {half[-1]:.4g} | {line(env, rows)}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--envs", nargs="+", default=list(TASKS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.what == "run":
        bench.complete(plan(options.envs), HERE, partial(workers.run_locally, workers=options.workers))
    print_table()


if __name__ == "__main__":
    main()
