"""The default preset: what it reaches on the tasks of the suite, without a linear path, and what each part is worth.

    python benchmarks/default.py report   --workers 2     # ten fresh seeds per task, seed by seed
    python benchmarks/default.py report --envs swingup ddopg/TwoJointArm-v0   # others of the suite
    python benchmarks/default.py networks --workers 2     # a network without a linear path, on the paper's tasks
    python benchmarks/default.py ablate                   # with and without each part, on tuning seeds
    python benchmarks/default.py search                   # the same for the parts of the search, without a critic
    python benchmarks/default.py table                    # print everything from the saved data

Data: benchmarks/default/*/records.jsonl, one line per run. Runs that are there are not run again.
"""

import argparse
import importlib
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
from trajectory import line, paired_difference

from ddopg.config import preset
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import jobs, stats, workers
from ddopg.experiments.bench.suites import find_suite
from ddopg.support.records import change, to_dict

HERE = Path(__file__).parent / "default"
TASKS = {  # budget, episodes per evaluation
    "cartpole": (4_000, 100),
    "mountaincar": (30_000, 30),
    "swimmer": (60_000, 20),
    "Pendulum-v1": (10_000, 100),
    "InvertedPendulum-v5": (10_000, 20),
    "InvertedDoublePendulum-v5": (10_000, 20),
    "MountainCarContinuous-v0": (20_000, 20),
    "Reacher-v5": (20_000, 100),
    "LunarLanderContinuous-v3": (50_000, 20),
    "Swimmer-v5": (100_000, 10),
    "Hopper-v5": (100_000, 20),
    "HalfCheetah-v5": (100_000, 10),
}
FRESH_SEEDS = range(5420, 5430)  # each was run once, after the preset was frozen
NETWORKS = {"cartpole": (10_000, 100), "mountaincar": (20_000, 30), "swimmer": (60_000, 20)}
NETWORK_SEEDS = range(5380, 5390)
ABLATED = {
    "cartpole": (4_000, 100),
    "mountaincar": (20_000, 20),
    "Pendulum-v1": (5_000, 30),
    "LunarLanderContinuous-v3": (50_000, 20),
}
TUNING_SEEDS = range(2600, 2620)

ALONE = replace(preset("trajectory"), search=preset("default").search)
VARIANTS = {  # changes of the configuration; a dotted name of a module is a constant of the code
    "default": {},
    "without a critic": to_dict(ALONE),
    "networks half as wide": {"critic.hidden": (64, 64), "policy.hidden": (32, 32)},
    "one update per step in the end": {"critic.updates": 1.0, "ddopg.core.value_learning.EARLY_GAIN": 8.0},
    "all rollouts say who leads, not the better half": {"ddopg.core.sharing.better_half": lambda some: some},
    "no half of the steps while search or actor are young": {"ddopg.core.sharing.YOUNG": 0},
    "an actor that has learnt gets no more": {"ddopg.core.sharing.actor_has_learnt": lambda memory: False},
    "the actor of now, no average of it": {"ddopg.core.critic.AVERAGED": 1e-9},
    "no rollout without noise after a record": {"ddopg.core.proposals._is_record": lambda memory: False},
    "four constant policies for every action": {"design.constants_per_action": 0},
    "two updates per step from the start": {"ddopg.core.value_learning.EARLY_GAIN": 1.0},
    "always a half for the actor": {
        "ddopg.core.sharing.LEAST_SHARE": 0.5,
        "ddopg.core.sharing.SEARCH_KEEPS": 0.5,
        "ddopg.core.sharing.SHARE_BESIDE_PROGRESS": 0.5,
    },
    "without checks of the average": {"incumbent.recheck_share": 0.0},
    "always every other rollout of the actor with noise": {"ddopg.core.proposals.PLAIN_EVERY": 2},
    "the critic as control variate, no rollouts of the actor": {
        "surrogate.estimator": "doubly_robust",
        "ddopg.core.proposals.is_turn_of_critic": lambda state: False,
    },
    "the critic as control variate too": {"surrogate.estimator": "doubly_robust"},
}
SEARCHED = {"cartpole": (4_000, 100), "mountaincar": (20_000, 20), "swimmer": (60_000, 20)}
SEARCH_VARIANTS = {  # of the search alone
    "the search alone": {},
    "with a limit of the step": {"search.radius": 0.7},
    "without the initial-state correction": {"surrogate.initial_state_correction": False},
    "without restarts from the best": {"restart.threshold": 0.0},
    "without random policies": {"exploration.random": 0.0},
    "without checks": {"incumbent.recheck_share": 0.0},
    "without annealing and checks": {"incumbent.recheck_share": 0.0, "annealing.episodes": 0.0},
}


def job(env, label, seed, budget, episodes, changes=None):
    own = {name: value for name, value in (changes or {}).items() if not name.startswith("ddopg.")}
    settings = own if "policy" in own else to_dict(change(preset("default"), own))
    return jobs.Job(env, label, "ddopg", settings, seed, budget, episodes)


def report(envs):
    planned = [
        jobs.make_job(env, "ddopg", s, *TASKS[env]) for s in FRESH_SEEDS for env in envs if env in TASKS
    ]
    others = [task for task in find_suite("small-budget") if task.env in set(envs) - set(TASKS)]
    return planned + jobs.plan_suite(others, ["ddopg"], FRESH_SEEDS)


def networks(envs):
    plain = {"policy.linear_path": False}
    some = [env for env in envs if env in NETWORKS]
    return [
        job(env, "without a linear path", s, *NETWORKS[env], plain) for s in NETWORK_SEEDS for env in some
    ]


def search(envs, labels):
    """The search alone, with and without each part."""
    return [
        jobs.Job(env, label, "ddopg", to_dict(change(ALONE, SEARCH_VARIANTS[label])), seed, *SEARCHED[env])
        for env in SEARCHED
        for label in SEARCH_VARIANTS
        for seed in TUNING_SEEDS
        if env in envs and label in labels
    ]


def ablate(envs, labels):
    """One variant after the other."""
    for env in (env for env in envs if env in ABLATED):
        for label in (label for label in labels if label in VARIANTS):
            planned = [job(env, label, s, *ABLATED[env], VARIANTS[label]) for s in TUNING_SEEDS]
            complete_variant(planned, label)


def complete_variant(planned, label):
    """Run what is missing, in this process: some variants change constants of the code."""
    with constants(VARIANTS[label]):
        bench.complete(planned, HERE / "ablation", run_here)


def run_here(planned):
    for one in planned:
        yield workers.Done(one, jobs.run(one))


@contextmanager
def constants(changes):
    """Constants of the code have other values within the block, in programs that were compiled before, too."""
    places = {name: name.rpartition(".")[::2] for name in changes if name.startswith("ddopg.")}
    modules = {name: (importlib.import_module(module), field) for name, (module, field) in places.items()}
    before = {name: getattr(*place) for name, place in modules.items()}
    try:
        for name, place in modules.items():
            setattr(*place, changes[name])
        jax.clear_caches()
        yield
    finally:
        for name, place in modules.items():
            setattr(*place, before[name])
        jax.clear_caches()


def find_runs(name, *keys):
    found = {}
    for record in bench.read_finished(HERE / name).values():
        found.setdefault(tuple(record[key] for key in keys), []).append(record)
    return found


AIMS = {
    "cartpole": "50 of 50, 600, 0.98, worst 950",
    "mountaincar": "50 of 50, 4,000, 0.97, worst −65",
    "swimmer": "59 of 60, 20,000, end 490, worst 440",
    "Pendulum-v1": "−160, worst −250",
    "InvertedPendulum-v5": "1,000 on all",
    "InvertedDoublePendulum-v5": "9,000, worst 5,000",
    "MountainCarContinuous-v0": "93, worst 90",
    "Reacher-v5": "−6, worst −9",
    "LunarLanderContinuous-v3": "200, worst 100",
    "Swimmer-v5": "330, worst 200",
    "Hopper-v5": "1,500",
    "HalfCheetah-v5": "3,000",
}


def show(value):
    """A number as the pages have it."""
    if not np.isfinite(value):
        return "never"
    return (f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}").replace("-", "−")


def spread(values, bold=""):
    """Worst, median and best."""
    low, middle, high = np.min(values), np.median(values), np.max(values)
    return f"{show(low)} / {bold}{show(middle)}{bold} / {show(high)}"


def row(env, budget, rows):
    """A row of the page about the default."""
    threshold, curves = stats.SOLVED.get(env), [record["curve"] for record in rows]
    summary = stats.summarise(curves, threshold, np.random.default_rng(0))
    half, ends = ([curve[i][1] for curve in curves] for i in (len(curves[0]) // 2 - 1, -1))
    median = partial(np.median, axis=-1)
    low, high = stats.stratified_bootstrap([np.array(ends)], median, np.random.default_rng(0))
    seconds = np.median([record["seconds"] - record["evaluation_seconds"] for record in rows])
    stays = f"{summary.stays:.2f}" if summary.solved else "–"
    solved = f"{summary.solved} of {len(rows)} at {show(threshold)}, {show(summary.steps)}"
    cells = (
        env,
        f"{budget:,}",
        len(rows),
        spread(half),
        spread(ends, "**"),
        f"{show(low)} to {show(high)}",
        solved,
        stays,
        f"{seconds:.0f} s",
        AIMS.get(env, "–"),
    )
    return f"| {' | '.join(map(str, cells))} |"


def print_tables():
    for name in ("report", "networks"):
        for (env, budget), rows in find_runs(name, "env", "budget").items():
            print(row(env, budget, rows))
    for name, variants in (("ablation", VARIANTS), ("search", SEARCH_VARIANTS)):
        found = find_runs(name, "env", "method")
        for env in TASKS:
            for label in variants:
                if rows := found.get((env, label)):
                    difference = paired_difference(rows, found[env, next(iter(variants))])
                    print(f"| {label} | {env} | {len(rows)} | {line(env, rows)} | {difference} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["report", "networks", "ablate", "search", "table"])
    parser.add_argument("--envs", nargs="+", default=list(TASKS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS | SEARCH_VARIANTS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    execute = partial(workers.run_locally, workers=options.workers)
    if options.what == "report":
        bench.complete(report(options.envs), HERE / "report", execute)
    elif options.what == "networks":
        bench.complete(networks(options.envs), HERE / "networks", execute)
    elif options.what == "search":
        bench.complete(search(options.envs, options.variants), HERE / "search", execute)
    elif options.what == "ablate":
        ablate(options.envs, options.variants)
    print_tables()


if __name__ == "__main__":
    main()
