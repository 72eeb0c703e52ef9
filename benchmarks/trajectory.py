"""The preset `trajectory`: what it reaches on the three tasks and on others, and what each ingredient is worth.

    python benchmarks/trajectory.py report  --workers 2     # the preset on the reporting seeds, short and long
    python benchmarks/trajectory.py others  --workers 2     # five Gymnasium tasks, nothing changed
    python benchmarks/trajectory.py ablate  --workers 2     # with and without each ingredient, on tuning seeds
    python benchmarks/trajectory.py table                   # print everything from the saved data

Data: benchmarks/trajectory/*/records.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from ddopg.config import preset
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import stats, workers
from ddopg.experiments.bench.jobs import Job
from ddopg.support.records import change, to_dict

HERE = Path(__file__).parent / "trajectory"
BUDGETS = {"cartpole": 4_000, "mountaincar": 30_000, "swimmer": 60_000}
LONG = {"cartpole": 20_000, "mountaincar": 60_000, "swimmer": 200_000}
OTHERS = {  # task: budget, episodes per evaluation
    "Pendulum-v1": (20_000, 30),
    "InvertedPendulum-v5": (20_000, 5),
    "MountainCarContinuous-v0": (30_000, 10),
    "Swimmer-v5": (100_000, 3),
    "Reacher-v5": (20_000, 30),
}
PAPER_SEEDS = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
FRESH_SEEDS = {  # run once; an earlier version was the same on swimmer, its seeds count as well
    "cartpole": range(5060, 5080),
    "mountaincar": range(5060, 5080),
    "swimmer": range(5000, 5060),
}
LATER_SEEDS = {  # run once, when rollouts were compiled and the search faster, which round differently
    "cartpole": range(5080, 5100),
    "mountaincar": range(5080, 5100),
    "swimmer": range(5080, 5140),
}
TUNING_SEEDS = range(2600, 2620)

VARIANTS = {
    "trajectory": {},
    "without per-decision weights": {"surrogate.decisions": 0},
    "without the saturation penalty": {"search.saturation_penalty": 0.0},
    "without constant policies first": {"design.constants": 0},
    "without random policies": {"exploration.random": 0.0},
    "without restarts from the best": {"restart.threshold": 0.0},
    "without annealing and re-checks": {"annealing.episodes": 0.0, "incumbent.recheck_share": 0.0},
    "without re-checks": {"incumbent.recheck_share": 0.0},
    "with ‖R‖∞ as objective scale": {"surrogate.objective_scale": "bound"},
    "without Σ from the data (σ = 0.3)": {"surrogate.ess_share": 0.0, "surrogate.length_scale": (0.3,)},
    "a third of the longest step": {"search.radius": 0.23},
    "without a limit of the step": {"search.radius": 0.0},
    "without the ESS penalty": {"surrogate.penalty": 0.0},
    "without the initial-state correction": {"surrogate.initial_state_correction": False},
    "softmax selection instead of the latest": {"selection.rule": "softmax"},
    "natural gradient, momentum": {"search.fisher_damping": 0.1, "search.optimiser": "momentum"},
    "SGHMC": {"search.optimiser": "sghmc", "search.learning_rate": 0.02, "search.sghmc_temperature": 1e-3},
    "expected improvement": {"surrogate.objective": "expected_improvement"},
    "probability of improvement": {"surrogate.objective": "probability_of_improvement"},
    "upper confidence": {"surrogate.objective": "upper_confidence"},
}


def job(env, label, seed, budget, episodes=100):
    settings = to_dict(change(preset("trajectory"), VARIANTS[label]))
    return Job(env, label, "ddopg", settings, seed, budget, episodes)


def report(envs):
    """Short runs on the paper's seeds and on fresh ones, long ones on the paper's."""
    short = [
        job(env, "trajectory", s, BUDGETS[env])
        for env in envs
        for s in (*PAPER_SEEDS, *FRESH_SEEDS[env], *LATER_SEEDS[env])
    ]
    return short + [job(env, "trajectory", s, LONG[env]) for env in envs for s in PAPER_SEEDS]


def others(envs):
    return [job(env, "trajectory", s, *OTHERS[env]) for s in PAPER_SEEDS for env in OTHERS]


def ablate(envs, labels):
    return [
        job(env, label, seed, BUDGETS[env], 30 if env == "mountaincar" else 100)
        for env in envs
        for label in labels
        for seed in TUNING_SEEDS
    ]


def groups(name, *keys):
    """The saved runs, grouped by some of their fields."""
    found = {}
    for record in bench.read_finished(HERE / name).values():
        found.setdefault(tuple(record[key] for key in keys), []).append(record)
    return sorted(found.items())


def table():
    for (env, budget), rows in groups("report", "env", "budget"):
        kinds = {
            "paper's seeds": PAPER_SEEDS,
            "fresh seeds": FRESH_SEEDS[env],
            "later seeds": LATER_SEEDS[env],
        }
        for name, seeds in kinds.items():
            some = [row for row in rows if row["seed"] in seeds]
            if some:
                print(f"| {env} | {budget:,} | {name} | {line(env, some)} |")
    for (env, budget), rows in groups("others", "env", "budget"):
        print(f"| {env} | {budget:,} | {line(env, rows)} |")
    for (env,), rows in groups("ablation", "env"):
        base = [row for row in rows if row["method"] == "trajectory"]
        for label in VARIANTS:
            some = [row for row in rows if row["method"] == label]
            if some:
                print(f"| {label} | {env} | {line(env, some)} | {paired_difference(some, base)} |")


def area(row):
    """The mean over the curve."""
    return float(np.mean(row["curve"], axis=0)[1])


def paired_difference(rows, base, value=area):
    """How much a value of each run differs from that of the same seed in `base`: the mean and its 95 % interval."""
    values = {row["seed"]: value(row) for row in base}
    pairs = np.array([value(row) - values[row["seed"]] for row in rows if row["seed"] in values])
    low, high = stats.stratified_bootstrap([pairs], partial(np.mean, axis=-1), np.random.default_rng(0))
    return f"{pairs.mean():+.0f} [{low:+.0f}, {high:+.0f}]"


def line(env, rows):
    """Solved, median and worst steps to solved, stays solved, and worst, median and best end."""
    threshold, curves = stats.SOLVED.get(env), [row["curve"] for row in rows]
    s = stats.summarise(curves, threshold, np.random.default_rng(0))
    first = [stats.steps_to_solved(curve, threshold) for curve in curves]
    ends = [curve[-1][1] for curve in curves]
    end = f"{min(ends):.4g} / {s.median:.4g} / {max(ends):.4g}"
    return (
        end
        if threshold is None
        else (f"{s.solved}/{s.runs} | {s.steps:,.0f} | {max(first):,.0f} | {s.stays:.3f} | {end}")
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["report", "others", "ablate", "table"])
    parser.add_argument("--envs", nargs="+", default=list(BUDGETS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    execute = partial(workers.run_locally, workers=options.workers)
    if options.what == "report":
        bench.complete(report(options.envs), HERE / "report", execute)
    elif options.what == "others":
        bench.complete(others(options.envs), HERE / "others", execute)
    elif options.what == "ablate":
        bench.complete(ablate(options.envs, options.variants), HERE / "ablation", execute)
    table()


if __name__ == "__main__":
    main()
