"""The rivals on the suite `small-budget`: `run` adds what benchmarks/small-budget/records.jsonl does not hold yet.

    python benchmarks/small_budget.py run                # the whole plan, stage by stage; goes on where it stopped
    python benchmarks/small_budget.py run --stages 1 2   # some of its stages
    python benchmarks/small_budget.py plan               # what there is, and what is missing
    python benchmarks/small_budget.py cost               # CPU seconds per step of ddopg and the rivals, side by side

Every rival has seeds of its own, from 5400 on, and each is run once. The same jobs, one by one:
`ddopg bench --suite small-budget --methods NAME … --seeds 5400-5409 --out benchmarks/small-budget`.
"""

import argparse
import json
import platform
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ddopg import baselines
from ddopg.envs.adapter import make
from ddopg.experiments.bench import benchmark, jobs, workers
from ddopg.experiments.bench.suites import find_suite

OUT = Path(__file__).parent / "small-budget"
SUITE = "small-budget"

SHORT = (
    "Pendulum-v1",
    "InvertedPendulum-v5",
    "MountainCarContinuous-v0",
    "InvertedDoublePendulum-v5",
    "Reacher-v5",
)
MIDDLE = ("cartpole", "swingup", "LunarLanderContinuous-v3")
COMPILED = ("mountaincar", "swimmer")
LONG = ("Swimmer-v5", "Hopper-v5", "HalfCheetah-v5", "BipedalWalker-v3")
ARMS = ("ddopg/TwoJointArm-v0", "ddopg/SevenJointArm-v0")
SEARCHES = ("cmaes", "ars", "random")
MODELS = ("pgpe", "turbo", "optuna-gp")
GRADIENTS = ("ppo-tuned", "trpo-tuned")


class Stage(NamedTuple):
    """Jobs of one kind; seeds are outermost."""

    methods: tuple[str, ...]
    envs: tuple[str, ...]  # all tasks of the suite, if there are none
    seeds: range


PLAN = (
    Stage(SEARCHES, (*SHORT, *MIDDLE, *COMPILED), range(5400, 5405)),
    Stage((*SEARCHES, *MODELS), ARMS, range(5400, 5402)),
    Stage(("sac-zoo",), SHORT, range(5400, 5402)),
    Stage(MODELS, SHORT, range(5400, 5402)),
    Stage(SEARCHES, LONG, range(5400, 5401)),
    Stage(("sac-zoo",), SHORT, range(5402, 5403)),
    Stage(("sac-zoo",), MIDDLE, range(5400, 5402)),
    Stage((*SEARCHES, "pgpe"), (), range(5400, 5410)),
    Stage(MODELS, (), range(5400, 5405)),
    Stage(("tqc-zoo",), SHORT, range(5400, 5403)),
    Stage(GRADIENTS, (), range(5400, 5410)),
    Stage(("sac-zoo", "tqc-zoo"), (), range(5400, 5405)),
    Stage(MODELS, (), range(5405, 5410)),
)
"""In the order in which it is run: what is cheap, and what tells most, comes first."""


def plan_stage(stage):
    return jobs.plan_suite(find_suite(SUITE, stage.envs), stage.methods, stage.seeds)


def choose_stages(numbers):
    return [PLAN[number - 1] for number in numbers or range(1, len(PLAN) + 1)]


def collect_jobs(stages):
    """Every job once, in the order of the stages."""
    return list({job.key: job for stage in stages for job in plan_stage(stage)}.values())


def print_plan(stages):
    finished = benchmark.read_finished(OUT)
    for stage in stages:
        planned = plan_stage(stage)
        there = sum(job.key in finished for job in planned)
        where = ", ".join(stage.envs) or "all tasks"
        print(f"{there:4} of {len(planned):4}  {' '.join(stage.methods)}  ({where})")


COST_TASK, FIRST, END, COST_SEED = "Pendulum-v1", 1_000, 4_000, 5499
COMPARED = ("ddopg", *SEARCHES, *MODELS, *GRADIENTS, "sac-zoo", "tqc-zoo")


def measure_costs():
    """CPU seconds of this process, one method after the other: other work of the machine counts little."""
    methods = {}
    for name in COMPARED:
        methods[name] = measure_cost(name)
        print(name, methods[name], flush=True)
    what = (
        f"CPU seconds per 1,000 steps on {COST_TASK}, in one process, one run each; environment, imports and "
        f"compilation are included, evaluation is not. The second column is the mean from step {FIRST:,} to {END:,}. "
        f"Python {platform.python_version()}, {platform.machine()}."
    )
    (OUT / "cost.json").write_text(json.dumps({"what": what, "methods": methods}, indent=1) + "\n")


def measure_cost(name):
    method = baselines.find_method(name)
    learner = baselines.load_learner(method.kind)
    started, marks = time.process_time(), []
    for checkpoint in learner(make(COST_TASK), COST_SEED, method.settings_for(COST_TASK)):
        if checkpoint.steps >= (FIRST, END)[len(marks)]:
            marks.append((checkpoint.steps, time.process_time() - started))
        if len(marks) == 2:
            break
    (first, at_first), (end, at_end) = marks
    return {
        "first": round(1000 * at_first / first, 3),
        "later": round(1000 * (at_end - at_first) / (end - first), 3),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "plan", "cost"])
    parser.add_argument("--stages", nargs="+", type=int, default=[])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    stages = choose_stages(options.stages)
    if options.what == "cost":
        measure_costs()
        return
    if options.what == "run":
        execute = partial(workers.run_locally, workers=options.workers)
        failures = benchmark.complete(collect_jobs(stages), OUT, execute)
        for failure in failures:
            print(f"failed: {failure.job}: {failure.reason.strip().splitlines()[-1]}")
    print_plan(stages)


if __name__ == "__main__":
    main()
