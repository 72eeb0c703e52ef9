"""How the paper is to be read: the preset `paper` with one reading changed at a time, and what it reaches.

    python benchmarks/readings.py compare --workers 2     # readings, on tuning seeds
    python benchmarks/readings.py reach   --workers 2     # the preset on fresh seeds
    python benchmarks/readings.py table                   # print everything from the saved data

Data: benchmarks/readings/*/records.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
import math
from functools import partial
from pathlib import Path

from trajectory import PAPER_SEEDS, line, paired_difference

from ddopg.config import preset
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import jobs, workers
from ddopg.support.records import change, to_dict

HERE = Path(__file__).parent / "readings"
TUNING = {"cartpole": (20_000, 100), "mountaincar": (30_000, 30)}  # task: budget, episodes per evaluation
REACH = {"cartpole": 100_000, "mountaincar": 200_000, "swimmer": 500_000}  # the budgets of Fig. 2
TUNING_SEEDS = range(2100, 2120)
FRESH_SEEDS = range(5140, 5160)
FIGURE = Path(__file__).parent / "figures" / "benchmark"  # holds the runs on the paper's seeds

AS_PRINTED = {
    "policy.squash": False,
    "selection.replacement": True,
    "selection.keep_last": 0,
    "surrogate.length_scale": (math.exp(1.5),),
    "search.start": "last",
    "incumbent.rule": "rollout",
    "design.spread": 1.0,
}
READINGS = {
    "paper": {},
    "as printed": AS_PRINTED,
    "search from the last policy": {"search.start": "last"},
    "no current trajectories": {"selection.keep_last": 0},
    "25 current trajectories": {"selection.keep_last": 25},
    "40 current trajectories": {"selection.keep_last": 40},
    "25 current, draws without replacement": {"selection.keep_last": 25, "selection.replacement": False},
    "25 current, first policies spread by 0.5": {"selection.keep_last": 25, "design.spread": 0.5},
    "25 current, first policies spread by 1": {"selection.keep_last": 25, "design.spread": 1.0},
    "raw actions": {"policy.squash": False},
    "log Σ = 3 as deviation": {"surrogate.length_scale": (math.exp(3.0),)},
    "incumbent: best single rollout": {"incumbent.rule": "rollout"},
    "Z = N": {"surrogate.estimator": "importance_sampling"},
    "falling to zero (ε = 1e-8)": {"surrogate.epsilon": 1e-8},
    "hidden layers of 32": {"policy.hidden": (32, 32)},
}


def make_reading_job(env, label, seed):
    settings = to_dict(change(preset("paper"), READINGS[label]))
    return jobs.Job(env, label, "ddopg", settings, seed, *TUNING[env])


def plan_comparison(envs, labels):
    return [make_reading_job(env, label, seed) for env in envs for seed in TUNING_SEEDS for label in labels]


def plan_reach(envs):
    return [jobs.make_job(env, "ddopg-paper", s, REACH[env], 100) for s in FRESH_SEEDS for env in envs]


def print_tables():
    found = bench.read_finished(HERE / "comparison")

    def pick(env, label):
        wanted = [make_reading_job(env, label, seed).key for seed in TUNING_SEEDS]
        return [found[key] for key in wanted if key in found]

    for env in TUNING:
        base = pick(env, "paper")
        for label in READINGS:
            some = pick(env, label)
            if some:
                print(f"| {label} | {env} | {line(env, some)} | {paired_difference(some, base)} |")
    for env, budget in REACH.items():
        for name, place, seeds in (("paper's", FIGURE, PAPER_SEEDS), ("fresh", HERE / "reach", FRESH_SEEDS)):
            found = bench.read_finished(place)
            wanted = [jobs.make_job(env, "ddopg-paper", seed, budget, 100).key for seed in seeds]
            some = [found[key] for key in wanted if key in found]
            if some:
                print(f"| {env} | {budget:,} | {name} | {line(env, some)} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["compare", "reach", "table"])
    parser.add_argument("--envs", nargs="+", default=None)
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    execute = partial(workers.run_locally, workers=options.workers)
    if options.what == "compare":
        wanted = plan_comparison(options.envs or list(TUNING), options.readings)
        bench.complete(wanted, HERE / "comparison", execute)
    elif options.what == "reach":
        bench.complete(plan_reach(options.envs or list(REACH)), HERE / "reach", execute)
    print_tables()


if __name__ == "__main__":
    main()
