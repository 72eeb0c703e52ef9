"""The rivals on the suite `small-budget`: `run` adds what benchmarks/small-budget/records.jsonl does not hold yet.

    python benchmarks/small_budget.py run                # the whole plan, stage by stage; goes on where it stopped
    python benchmarks/small_budget.py run --stages 1 2   # some of its stages
    python benchmarks/small_budget.py plan               # what there is, what is missing, and how long that takes
    python benchmarks/small_budget.py cost               # CPU seconds per step of ddopg and the rivals, side by side

Every rival has seeds of its own, from 5400 on, and each is run once. The same jobs, one by one:
`ddopg bench --suite small-budget --methods NAME … --seeds 5400-5409 --out benchmarks/small-budget`.
"""

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ddopg import baselines
from ddopg.envs.adapter import make
from ddopg.experiments.bench import benchmark, jobs, workers
from ddopg.experiments.bench.suites import find_suite
from ddopg.rollouts.workers import ONE_THREAD

OUT = Path(__file__).parent / "small-budget"
SUITE = "small-budget"

OTHERS = ("ppo-tuned", "trpo-tuned", "pgpe", "turbo", "optuna-gp", "ars", "cmaes", "random")


class Stage(NamedTuple):
    """Jobs on all tasks of the suite; seeds are outermost, and within a seed short budgets come first."""

    methods: tuple[str, ...]
    seeds: range


PLAN = (
    Stage(("sac-zoo",), range(5400, 5401)),
    Stage(OTHERS, range(5400, 5402)),
    Stage(("sac-zoo",), range(5401, 5402)),
    Stage(("tqc-zoo",), range(5400, 5402)),
    Stage(("sac-zoo",), range(5402, 5405)),
    Stage(OTHERS, range(5402, 5405)),
    Stage(("tqc-zoo",), range(5402, 5405)),
    Stage(OTHERS, range(5405, 5410)),
)
"""In the order in which it is run: all tasks and rivals first, then more seeds; five of SAC and TQC in the end."""


def plan_stage(stage):
    planned = jobs.plan_suite(find_suite(SUITE), stage.methods, stage.seeds)
    return sorted(planned, key=lambda job: (job.seed, job.budget))


def choose_stages(numbers):
    return [PLAN[number - 1] for number in numbers or range(1, len(PLAN) + 1)]


def collect_jobs(stages):
    """Every job once, in the order of the stages."""
    return list({job.key: job for stage in stages for job in plan_stage(stage)}.values())


def print_plan(stages):
    finished = benchmark.read_finished(OUT)
    rates = measure_rates(finished.values())
    for stage in stages:
        planned = plan_stage(stage)
        missing = [job for job in planned if job.key not in finished]
        hours = sum(job.budget * find_rate(job, rates) for job in missing) / 3600
        seeds = f"{stage.seeds[0]} to {stage.seeds[-1]}" if len(stage.seeds) > 1 else f"{stage.seeds[0]}"
        there = f"{len(planned) - len(missing):4} of {len(planned):4}"
        left = f"{hours:4.1f}" if np.isfinite(hours) else "   ?"
        print(f"{there}  {left} hours of a core to go  {' '.join(stage.methods)}  (seeds {seeds})")


def measure_rates(records):
    """(kind, task) → seconds per environment step of the finished runs, their evaluations included: the medians."""
    found = {}
    for record in records:
        seconds = record.get("cpu_seconds", record["seconds"])
        kind = record["kind"].partition(baselines.OWN)[0]
        found.setdefault((kind, record["env"]), []).append(seconds / record["steps"])
    return {key: float(np.median(values)) for key, values in found.items()}


def find_rate(job, rates):
    """That of the method on the task; if it has not been run there, the median over the other tasks."""
    kind = job.kind.partition(baselines.OWN)[0]
    others = [rate for (other, _), rate in rates.items() if other == kind]
    return rates.get((kind, job.env), float(np.median(others)) if others else float("nan"))


COST_TASK, FIRST, END, COST_SEED = "Pendulum-v1", 1_000, 4_000, 5499
COMPARED = (
    "ddopg",
    "cmaes",
    "ars",
    "random",
    "pgpe",
    "turbo",
    "optuna-gp",
    "ppo-tuned",
    "trpo-tuned",
    "sac-zoo",
    "tqc-zoo",
)


def measure_costs():
    """CPU seconds of this process, one method after the other: other work of the machine counts little."""
    os.environ.update(ONE_THREAD)  # XLA reads it with the first computation
    methods = {}
    for name in COMPARED:
        methods[name] = measure_cost(name)
        print(name, methods[name], flush=True)
    what = (
        f"CPU seconds per 1,000 steps on {COST_TASK}, in one process with one thread, one run each; environment, "
        "imports and compilation are included, evaluation is not. "
        f"The second column is the mean from step {FIRST:,} to {END:,}. Python {platform.python_version()}."
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
