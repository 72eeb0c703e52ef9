"""The preset `critic`: what it reaches on cartpole and on standard tasks that the default does not learn.

    python benchmarks/critic.py run --workers 2     # ten fresh seeds per task, seed by seed
    python benchmarks/critic.py table               # print the table from the saved data

Data: benchmarks/critic/records.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

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
FRESH_SEEDS = range(5190, 5200)  # each was run once, after the preset was frozen; 5160–5189 saw earlier ones
METHOD = "ddopg-critic"


def plan(envs):
    return [make_job(env, METHOD, seed, *TASKS[env]) for seed in FRESH_SEEDS for env in envs]


def print_table():
    found = bench.read_finished(HERE)
    for env, (budget, _) in TASKS.items():
        curves = [np.array(found[job.key]["curve"]) for job in plan([env]) if job.key in found]
        if not curves:
            continue
        ends = np.sort([curve[-1, 1] for curve in curves])
        half = np.sort([curve[len(curve) // 2 - 1, 1] for curve in curves])
        spans = " | ".join(
            f"{values[0]:.4g} / {np.median(values):.4g} / {values[-1]:.4g}" for values in (half, ends)
        )
        print(f"| {env} | {budget:,} | {len(curves)} | {spans} |")


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
