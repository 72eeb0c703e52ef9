"""The default preset: what it reaches on the three tasks, and what each ingredient is worth.

    python benchmarks/default.py report  --workers 2     # the frozen default on the reporting seeds
    python benchmarks/default.py ablate  --workers 2     # with and without each ingredient, on tuning seeds
    python benchmarks/default.py table                   # print both from the saved data

Data: benchmarks/default/*.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
import dataclasses
from pathlib import Path

import curves
import numpy as np

from ddopg.config import preset, to_dict

HERE = Path(__file__).parent / "default"
BUDGETS = {"cartpole": 4_000, "mountaincar": 30_000, "swimmer": 60_000}
LONG = {"cartpole": 20_000, "mountaincar": 60_000, "swimmer": 200_000}
FRESH_SEEDS = range(5000, 5020)
TUNING_SEEDS = range(2600, 2620)

VARIANTS = {
    "default": {},
    "without per-decision weights": {"surrogate": {"decisions": 0}},
    "without the decay of gains": {"search": {"decay": 0.0}},
    "without constant policies first": {"design": {"constants": 0}},
    "without fresh policies": {"exploration": {"fresh": 0.0}},
    "without jumps": {"search": {"jump": 0.0}},
    "without the local unit (‖R‖∞ instead)": {"surrogate": {"unit": "bound"}},
    "without Σ from the data (σ = 0.3)": {"surrogate": {"ess_share": 0.0, "length_scale": (0.3,)}},
    "without a limit of the step": {"search": {"radius": 0.0}},
    "without the ESS penalty": {"surrogate": {"penalty": 0.0}},
    "without the start correction": {"surrogate": {"start_correction": False}},
    "softmax selection instead of the latest": {"selection": {"rule": "softmax"}},
    "natural gradient": {"search": {"natural": 0.1}},
    "SGHMC": {"search": {"optimiser": "sghmc", "learning_rate": 0.02, "noise": 1e-3}},
    "expected improvement": {"surrogate": {"objective": "expected_improvement"}},
    "probability of improvement": {"surrogate": {"objective": "probability_of_improvement"}},
    "upper confidence": {"surrogate": {"objective": "upper_confidence"}},
}


def changed(config, changes):
    for part, values in changes.items():
        config = dataclasses.replace(config, **{part: dataclasses.replace(getattr(config, part), **values)})
    return config


def report(workers, envs):
    """Short runs on the paper's seeds and twenty others, long ones on the paper's."""
    config = to_dict(preset("default"))
    for env in envs:
        short = [("default", config, env, BUDGETS[env], s, 100) for s in (*curves.PAPER_SEEDS, *FRESH_SEEDS)]
        long = [("default", config, env, LONG[env], s, 100) for s in curves.PAPER_SEEDS]
        curves.complete(HERE / f"report-{env}.jsonl", short + long, workers)


def ablate(workers, envs, labels):
    for env in envs:
        episodes = 30 if env == "mountaincar" else 100
        jobs = [
            (label, to_dict(changed(preset("default"), VARIANTS[label])), env, BUDGETS[env], seed, episodes)
            for label in labels
            for seed in TUNING_SEEDS
        ]
        curves.complete(HERE / f"ablation-{env}.jsonl", jobs, workers)


def table(envs):
    for env in envs:
        rows = curves.read(HERE / f"report-{env}.jsonl")
        for budget in sorted({row["budget"] for row in rows}):
            for name, seeds in (("paper's seeds", curves.PAPER_SEEDS), ("5000-5019", FRESH_SEEDS)):
                some = [row for row in rows if row["budget"] == budget and row["seed"] in seeds]
                if some:
                    print(f"{env} {budget:,} {name}: {line(some)}")
        print()
        rows = curves.read(HERE / f"ablation-{env}.jsonl")
        base = {row["seed"]: np.mean(row["curve"], axis=0)[1] for row in rows if row["label"] == "default"}
        for label in VARIANTS:
            some = [row for row in rows if row["label"] == label]
            if some:
                pairs = [
                    np.mean(row["curve"], axis=0)[1] - base[row["seed"]]
                    for row in some
                    if row["seed"] in base
                ]
                low, high = curves.interval(pairs, np.random.default_rng(0))
                print(f"| {label} | {env} | {line(some)} | {np.mean(pairs):+.0f} [{low:+.0f}, {high:+.0f}] |")
        print()


def line(rows):
    s = curves.summarise(rows)
    ends = " / ".join(f"{value:.0f}" for value in s["end"])
    return f"{s['solved']}/{s['runs']} | {s['median']:,.0f} | {s['worst']:,.0f} | {s['stays']:.3f} | {ends}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["report", "ablate", "table"])
    parser.add_argument("--envs", nargs="+", default=list(BUDGETS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.what == "report":
        report(options.workers, options.envs)
    elif options.what == "ablate":
        ablate(options.workers, options.envs, options.variants)
    table(options.envs)


if __name__ == "__main__":
    main()
