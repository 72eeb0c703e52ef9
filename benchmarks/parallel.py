"""What n rollouts at a time bring and cost: `python benchmarks/parallel.py` writes parallel/results.json.

Wall clock: the pendulum of Gymnasium with a pause of 5 ms in every step, 200 steps and so a second per rollout, as a
slow simulator or a machine would take; 48 rollouts in 1, 2, 4 and 8 local processes, and on a Ray cluster if one is
given.

Overhead: what a rollout of a stepped environment costs more in another process, one at a time, than in this one. Both
play the same episodes in turn. Seconds of processors are counted, of both processes, for the machine may be in use.

Learning: cartpole, 4,000 steps, 20 seeds, with 1, 4 and 8 rollouts under way. The run is the same wherever it is
played, so it is played in this process. The incumbent is evaluated at every 2 % of the budget on 100 fresh episodes;
the area is the mean over these marks.

    python benchmarks/parallel.py [--ray ADDRESS] [--only clock|overhead|learning]
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

import ddopg
from ddopg.baselines.base import Checkpoint
from ddopg.core.state import Proposal
from ddopg.experiments.bench.jobs import Judge, measure_learning_curve
from ddopg.experiments.bench.stats import SOLVED, steps_to_solved, stratified_bootstrap, summarise
from ddopg.rollouts import Here, Locally, OnRay
from ddopg.rollouts.scheduling import open_runner
from ddopg.support.records import to_dict

OUT = Path(__file__).parent / "parallel" / "results.json"
PENDULUM, PAUSE, ROLLOUTS = "parallel:PausingPendulum-v0", 0.005, 48
TASKS = {"cartpole": 4_000}  # its budget in steps
STEPPED, OVERHEAD_ROLLOUTS = ("mountaincar", "Pendulum-v1"), 300
SEEDS, UNDER_WAY, EPISODES = range(2300, 2320), (1, 4, 8), 100


class Pausing(gym.Wrapper):
    def step(self, action):
        time.sleep(PAUSE)
        return self.env.step(action)


if "PausingPendulum-v0" not in gym.registry:
    gym.register(
        "PausingPendulum-v0",
        lambda **options: Pausing(gym.make("Pendulum-v1", **options)),
        max_episode_steps=200,
    )


def clocked(place):
    """Seconds of a whole `learn`, and of its part after the initial design, where the window is full."""
    agent, times = ddopg.DDOPG(PENDULUM, seed=0, preset="trajectory"), []
    started = time.perf_counter()
    agent.learn(
        total_episodes=ROLLOUTS, parallel=place, callback=lambda *_: times.append(time.perf_counter())
    )
    design = agent.config.design.policies
    return {
        "place": type(place).__name__,
        "n": place.n,
        "rollouts": agent.state.told,
        "steps": agent.state.steps,
        "seconds": round(times[-1] - started, 2),
        "seconds_after_design": round(times[-1] - times[design - 1], 2),
    }


def overhead(task):
    """Processor milliseconds of one rollout here, and in a local process with what both processes do for it."""
    agent, spent = ddopg.DDOPG(task, seed=0, preset="trajectory"), {"here": [], "there": []}
    spec, theta = agent._rollout_spec(time_limit=None), np.zeros(agent.policy.size, np.float32)
    with open_runner(Here(1), spec) as here, open_runner(Locally(1), spec) as there:
        for seed in range(OVERHEAD_ROLLOUTS + 2):  # the first two make the environment and fill caches
            for place, runner in (("here", here), ("there", there)):
                workers = runner._pool._idle if place == "there" else []
                begun = processor_seconds(workers)
                runner.submit(Proposal(seed, theta, seed))
                runner.wait()
                spent[place].append(1e3 * (processor_seconds(workers) - begun))
    found = {place: float(np.median(some[2:])) for place, some in spent.items()}
    more = np.subtract(spent["there"][2:], spent["here"][2:])
    return {"env": task, "rollouts": OVERHEAD_ROLLOUTS, **found, "more": float(np.median(more))}


def processor_seconds(workers):
    """Of this process and of those processes (Linux: a process has a clock, whose number its own number gives)."""
    return time.process_time() + sum(time.clock_gettime((~worker.pid << 3) | 2) for worker in list(workers))


def curve_of(task, seed, n):
    """Marks and values of one run with n rollouts under way."""
    agent, known = ddopg.DDOPG(task, seed=seed, preset="trajectory"), []

    def note(agent, info=None):
        known.append(Checkpoint(agent.state.steps, agent.policy, agent.state.incumbent.theta))

    note(agent)
    agent.learn(TASKS[task], callback=note, parallel=Here(n))
    curve, _ = measure_learning_curve(iter(known), TASKS[task], Judge(task, seed, EPISODES).evaluate)
    return curve


def learning(task):
    """All seeds, for each n; differences are seed by seed."""
    rows, areas = [], {}
    for n in UNDER_WAY:
        curves = [curve_of(task, seed, n) for seed in SEEDS]
        areas[n] = np.array([np.mean([value for _, value in curve]) for curve in curves])
        summary = summarise(curves, SOLVED[task], np.random.default_rng(0))
        solved = [steps_to_solved(curve, SOLVED[task]) for curve in curves]
        less = areas[n] - areas[UNDER_WAY[0]]
        rows.append(
            {
                "n": n,
                "area": round(float(areas[n].mean()), 1),
                "worst_area": round(float(areas[n].min()), 1),
                "area_less_that_of_one": round(float(less.mean()), 1),
                "interval": _rounded(stratified_bootstrap([less], _mean, np.random.default_rng(0))),
                "last": round(summary.mean, 1),
                "worst_last": round(summary.worst, 1),
                "solved": summary.solved,
                "median_steps_to_solved": _or_never(summary.steps),
                "areas": _rounded(areas[n]),
                "steps_to_solved": list(map(_or_never, solved)),
            }
        )
    return {"steps": TASKS[task], "seeds": list(SEEDS), "eval_episodes": EPISODES, "runs": rows}


def _mean(values):
    return values.mean(axis=-1)


def _rounded(numbers):
    return [round(float(number), 1) for number in numbers]


def _or_never(steps):
    return int(steps) if np.isfinite(steps) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", help="address of a Ray cluster")
    parser.add_argument("--only", choices=["clock", "overhead", "learning"])
    options = parser.parse_args()
    about = {"version": ddopg.__version__, "config": to_dict(ddopg.preset("trajectory"))}
    results = {} if options.only == "overhead" else about  # what is there was measured with its own
    if options.only in (None, "clock"):
        places = [Here(1), *map(Locally, (1, 2, 4, 8))]
        places += [OnRay(n, options.ray) for n in (1, 2, 4, 8)] if options.ray else []
        results["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        results["clock"] = {
            "env": "Pendulum-v1",
            "pause_s": PAUSE,
            "seed": 0,
            "runs": list(map(clocked, places)),
        }
    if options.only in (None, "overhead"):
        machine = f"{platform.machine()}, in use: load {os.getloadavg()[0]:.1f}"
        rows = list(map(overhead, STEPPED))
        results["overhead_ms"] = {"version": ddopg.__version__, "machine": machine, "rollouts": rows}
        print(json.dumps(rows, indent=1))
    if options.only in (None, "learning"):
        results["learning"] = {task: learning(task) for task in TASKS}
    before = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(before | results, indent=1) + "\n")


if __name__ == "__main__":
    main()
