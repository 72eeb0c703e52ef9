"""How an iteration grows with the memory: `python benchmarks/growth.py` writes growth/results.json and a plot.

Swimmer's sizes (1,000 steps, 13 observations, 2 actions), the preset `trajectory` and its run store, at 100, 1,000
and 10,000 stored rollouts. The rollouts are random walks: what is measured does not depend on what they show. Each
size is a process of its own, so that its memory can be read. Medians of the wall clock, in milliseconds, in the best
of three rounds: the machine itself is slower at times.

    python benchmarks/growth.py [--sizes 100 1000 10000] [--redraw]
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import gymnasium as gym
import numpy as np

import ddopg
from ddopg.core import algorithm
from ddopg.core.algorithm import Info
from ddopg.core.memory import add
from ddopg.rollouts.scheduling import ask_ahead
from ddopg.storage.database import STORE

OUT = Path(__file__).parent / "growth"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
SIZES, ROUNDS = (100, 1_000, 10_000), 3
HORIZON, OBSERVATIONS, ACTIONS, MORE = 1_000, 13, 2, 25


def learner(directory):
    return ddopg.DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,)),
        action_space=gym.spaces.Box(-50, 50, (ACTIONS,)),
        horizon=HORIZON,
        seed=0,
        run_directory=directory,
        preset="trajectory",
    )


def walk(agent, proposal, rng):
    """A trajectory of the policy's actions on a random walk of observations."""
    observations = np.cumsum(0.05 * rng.standard_normal((HORIZON, OBSERVATIONS)), axis=0, dtype=np.float32)
    actions = agent.policy.act(proposal.theta, observations)
    return ddopg.make_trajectory(
        proposal.theta, observations, actions, rng.standard_normal(HORIZON), horizon=HORIZON
    )


def fill(directory, size):
    """A store of that many rollouts, without the search in between."""
    agent, rng = learner(directory), np.random.default_rng(0)
    while agent.state.memory.size < size:
        agent.state, proposals = algorithm.ask(agent.state, agent.policy, agent.config)
        for proposal in proposals:
            trajectory = walk(agent, proposal, rng)
            agent.state = agent.state._replace(
                memory=add(agent.state.memory, trajectory),
                pending=agent.state.pending[1:],
                steps=agent.state.steps + HORIZON,
                param_sensitivity=np.ones_like(agent.state.param_sensitivity),
            )
            info = Info(**dict.fromkeys(Info._fields, 0.0) | {"outcome": "", "remark": ""})
            agent.store.tell(proposal, agent.state, info)
    agent.close()


def measured(directory, size):
    """One size: resume, and some iterations."""
    fill(directory, size)
    started = time.perf_counter()
    agent = ddopg.DDOPG.resume(directory)
    opened = time.perf_counter() - started
    rng, tells, stores, asks = np.random.default_rng(1), [], [], []
    original = agent.store.tell

    def clocked(*arguments):
        begun = time.perf_counter()
        original(*arguments)
        stores.append(time.perf_counter() - begun)

    agent.store.tell = clocked
    for _ in range(MORE):
        begun = time.perf_counter()
        agent.state = ask_ahead(agent.state, agent.policy, agent.config, 1)  # as `learn` does
        (proposal,) = agent.pending
        asks.append(time.perf_counter() - begun)
        trajectory = walk(agent, proposal, rng)
        begun = time.perf_counter()
        agent.tell(proposal, trajectory)
        tells.append(time.perf_counter() - begun)
    agent.close()
    first = 5  # of them compile
    return {
        "rollouts": size,
        "ask_ms": round(1e3 * median(asks[first:]), 2),
        "tell_ms": round(1e3 * median(tells[first:]), 2),
        "of_which_store_ms": round(1e3 * median(stores[first:]), 2),
        "resume_s": round(opened, 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "table_of_pairs_mb": round(agent._cache.values.nbytes / 2**20, 1),
        "store_mb": round((directory / STORE).stat().st_size / 2**20),
    }


def draw(results):
    from matplotlib.figure import Figure

    rows = results["sizes"]
    sizes = [row["rollouts"] for row in rows]
    picture = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    left.plot(sizes, [row["tell_ms"] for row in rows], "o-", color="#0072B2", label="a tell, all of it")
    left.plot(
        sizes, [row["of_which_store_ms"] for row in rows], "s--", color="#D55E00", label="of which the store"
    )
    left.plot(sizes, [row["ask_ms"] for row in rows], "^:", color="#009E73", label="an ask")
    left.set(xscale="log", ylim=(0, None), xlabel="stored rollouts of 1,000 steps", ylabel="milliseconds")
    right.plot(
        sizes, [row["memory_mb"] for row in rows], "o-", color="#0072B2", label="memory of the process"
    )
    right.plot(sizes, [row["store_mb"] for row in rows], "s--", color="#D55E00", label="run.sqlite")
    right.set(xscale="log", yscale="log", xlabel="stored rollouts of 1,000 steps", ylabel="megabytes")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    picture.savefig(PICTURE, dpi=130)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--redraw", action="store_true", help="draw what is there")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as place:
            print(json.dumps(measured(Path(place) / "run", options.one)))
        return
    path = OUT / "results.json"
    if not options.redraw:
        found = {size: [] for size in options.sizes}
        for size in ROUNDS * options.sizes:
            command = [sys.executable, __file__, "--one", str(size)]
            found[size].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            print(found[size][-1])
        rows = [min(some, key=lambda row: row["tell_ms"]) for some in found.values()]
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        OUT.mkdir(exist_ok=True)
        results = {"version": ddopg.__version__, "machine": machine, "sizes": rows}
        path.write_text(json.dumps(results, indent=2) + "\n")
    draw(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
