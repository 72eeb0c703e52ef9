"""The settings of the rivals: a grid, or a sample of it, on seeds that no report uses (2800-2899).

    python benchmarks/tune_peers.py run --kinds ppo trpo --sample 8 --seeds 2800 2801 --workers 2
    python benchmarks/tune_peers.py run --kinds ppo --tasks swimmer --finalists 4 --scale 7 --seeds 2810 2811
    python benchmarks/tune_peers.py table

The second line is a second round: the best of the first, and what it started from, with a longer budget.

Score: mean return over all marks of the budget and all seeds, the paper's "maximal accumulated average return".
Data: benchmarks/peers-tuning/KIND/records.jsonl, one line per run; runs that are there are not run again.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from ddopg import baselines
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.stats import normalise
from ddopg.support.records import change, to_dict

HERE = Path(__file__).parent / "peers-tuning"
TASKS = ("cartpole", "mountaincar", "swimmer")
TUNING_SEEDS = range(2800, 2900)
EPISODES = {"cartpole": 20, "mountaincar": 10, "swimmer": 20}
BUDGETS = {
    "reinforce": (20_000, 40_000, 100_000),
    "ppo": (10_000, 20_000, 30_000),
    "trpo": (10_000, 20_000, 30_000),
    "sac": (3_000, 5_000, 5_000),
    "cmaes": (6_000, 30_000, 100_000),
    "ars": (6_000, 30_000, 100_000),
    "random": (6_000, 30_000, 100_000),
}
"""Kind → environment steps on cartpole, mountaincar and swimmer; --scale multiplies them."""

GRIDS = {
    "reinforce": {
        "batch": (500, 1000, 2000, 5000),
        "learning_rate": (0.01, 0.03, 0.1),
        "hidden": ((), (16, 16)),
        "squash": (False, True),
        "discount": (0.99, 0.999),
        "std": (0.5, 1.0),
        "scaling": ("none", "quantile", "whiten"),
    },
    "ppo": {
        "batch": (500, 1000, 2000),
        "clip": (0.1, 0.2, 0.4),
        "learning_rate": (3e-4, 1e-3, 3e-3),
        "hidden": ((16, 16), (64, 64)),
        "discount": (0.99, 0.999),
        "trace": (0.9, 0.95, 1.0),
        "std": (0.5, 1.0),
        "whiten": (False, True),
    },
    "trpo": {
        "batch": (500, 1000, 2000, 5000),
        "max_kl": (0.01, 0.03, 0.1),
        "learning_rate": (1e-3, 3e-3),
        "hidden": ((16, 16), (64, 64)),
        "discount": (0.99, 0.999),
        "trace": (0.9, 0.95, 1.0),
        "std": (0.5, 1.0),
        "whiten": (False, True),
    },
    "sac": {
        "learning_rate": (3e-4, 1e-3, 3e-3),
        "hidden": ((64, 64), (256, 256)),
        "minibatch": (64, 256),
        "learning_starts": (100, 500),
        "discount": (0.98, 0.99, 0.999),
        "tau": (0.005, 0.02),
        "state_dependent": (False, True),
        "whiten": (False, True),
    },
    "cmaes": {
        "step": (0.5, 1.0, 2.0),
        "population": (0, 6),
        "scaling": ("none", "quantile", "whiten"),
        "probes": (0, 4),
    },
    "ars": {
        "directions": (2, 4, 8),
        "step": (0.1, 0.3, 1.0),
        "noise": (0.3, 1.0),
        "scaling": ("none", "quantile", "whiten"),
    },
    "random": {
        "spread": (0.7, 1.5, 3.0),
        "repeats": (1, 3),
        "scaling": ("none", "quantile", "whiten"),
        "probes": (0, 4),
    },
}


def candidates(kind, sample, fixed):
    """The kind's defaults, and that many other points of its grid (of what `fixed` leaves of it), drawn once and for
    all; 0 takes the whole grid."""
    grid = {**GRIDS[kind], **{name: (value,) for name, value in fixed.items()}}
    names, values = zip(*grid.items(), strict=True)
    points = [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]
    if sample:
        order = np.random.default_rng(0).permutation(len(points))
        points = [points[i] for i in order[:sample]]
    start = baselines.KINDS[kind].settings()
    settings = [start, *(change(start, completed(kind, point)) for point in points)]
    return list(dict.fromkeys(settings))


def completed(kind, point):
    """The point of the grid with what follows from it."""
    if kind == "ars":
        return {**point, "top": max(1, point["directions"] // 2)}
    if kind in ("ppo", "trpo"):
        return {**point, "minibatch": 50 if kind == "ppo" else 125}
    return point


def finalists(kind, task, number):
    """The kind's defaults, and the best settings of the first round on that task."""
    start = baselines.KINDS[kind].settings()
    found = ranking(scores(kind)[task, first_budget(kind, task)])[:number]
    return list(dict.fromkeys([start, *(settings_of(kind, key) for key in found)]))


def first_budget(kind, task):
    return BUDGETS[kind][TASKS.index(task)]


def run(kinds, tasks, seeds, settings_for, scale, count):
    for kind in kinds:
        jobs = [
            Job(
                task,
                kind,
                kind,
                to_dict(settings),
                seed,
                int(scale * first_budget(kind, task)),
                EPISODES[task],
            )
            for task in tasks
            for seed in seeds
            for settings in settings_for(kind, task)
        ]
        for failure in bench.complete(jobs, HERE / kind, lambda some: workers.run_locally(some, count)):
            print("failed:", failure.job, failure.job.settings, failure.reason.splitlines()[-1])


def scores(kind):
    """(task, budget) → settings, as their difference from the kind's defaults in JSON → the scores of its runs."""
    groups, default = {}, to_dict(baselines.KINDS[kind].settings())
    for record in bench.read_finished(HERE / kind).values():
        key = json.dumps({k: v for k, v in record["settings"].items() if v != default[k]})
        score = float(np.mean(record["curve"], axis=0)[1])
        groups.setdefault((record["env"], record["budget"]), {}).setdefault(key, []).append(score)
    return groups


def settings_of(kind, key):
    """The settings that `scores` calls so."""
    return change(baselines.KINDS[kind].settings(), json.loads(key))


def ranking(rows):
    """Settings, best first."""
    return sorted(rows, key=lambda key: -np.mean(rows[key]))


def winner(kind, task):
    """The best settings of the last round on that task, which is the one with the longest budget."""
    rounds = {budget: rows for (env, budget), rows in scores(kind).items() if env == task}
    return settings_of(kind, ranking(rounds[max(rounds)])[0])


def table(kinds, shown):
    for kind in kinds:
        groups = scores(kind)
        for (task, budget), rows in sorted(groups.items()):
            ordered = ranking(rows)
            rank = ordered.index("{}") + 1 if "{}" in rows else None
            print(f"\n{kind} on {task}, {budget:,} steps: {len(rows)} settings; the start is number {rank}")
            for key in ordered[:shown]:
                print(
                    f"  {np.mean(rows[key]):8.1f}  ({len(rows[key])} seeds, worst {min(rows[key]):.1f})  {key}"
                )
        together(kind, groups, shown)


def together(kind, groups, shown):
    """One setting for all tasks: the mean normalised score of the first round."""
    first = {task: groups.get((task, first_budget(kind, task)), {}) for task in TASKS}
    common = set.intersection(*(set(rows) for rows in first.values()))
    means = {
        key: np.mean([normalise(np.mean(rows[key]), task) for task, rows in first.items()]) for key in common
    }
    for key in sorted(means, key=means.get, reverse=True)[:shown]:
        print(f"  all tasks {means[key]:6.3f}  {key}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--kinds", nargs="+", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(TUNING_SEEDS)[:3])
    parser.add_argument("--sample", type=int, default=0, help="points of the grid; 0 takes all")
    parser.add_argument("--fix", nargs="+", default=[], metavar="NAME=JSON", help="settings that are decided")
    parser.add_argument(
        "--finalists", type=int, default=0, help="instead of a grid, that many of the first round"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the budgets")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shown", type=int, default=3)
    options = parser.parse_args()
    if not set(options.seeds) <= set(TUNING_SEEDS):
        parser.error(f"tuning seeds lie in {TUNING_SEEDS.start}-{TUNING_SEEDS.stop - 1}, got {options.seeds}")
    if options.what == "run":
        fixed = {name: json.loads(value) for name, value in (f.split("=") for f in options.fix)}

        def settings_for(kind, task):
            if options.finalists:
                return finalists(kind, task, options.finalists)
            return candidates(kind, options.sample, fixed)

        run(options.kinds, options.tasks, options.seeds, settings_for, options.scale, options.workers)
    table(options.kinds, options.shown)


if __name__ == "__main__":
    main()
