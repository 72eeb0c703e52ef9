"""How an iteration grows with the memory: `python benchmarks/growth.py` writes growth/results.json and a plot.

Swimmer's sizes (1,000 steps, 13 observations, 2 actions) and a run store, at 100, 1,000 and 10,000 stored rollouts,
with the preset `trajectory`, and with `default`: a critic and networks, all in turns. The rollouts are random walks:
what is measured does not depend on what they show. Each size is a process of its own, so that its memory can be
read. Medians of the processor time, in milliseconds, in the best round: the machine may be in use.

    python benchmarks/growth.py [--sizes 100 1000 10000] [--presets trajectory default] [--rounds 3] [--redraw]
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

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import jax
import numpy as np

import ddopg
from ddopg.core import algorithm, critic
from ddopg.core.algorithm import Info
from ddopg.core.memory import add
from ddopg.rollouts.scheduling import ask_ahead
from ddopg.storage.database import STORE

OUT = Path(__file__).parent / "growth"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
SIZES, PRESETS = (100, 1_000, 10_000), ("trajectory", "default")
HORIZON, OBSERVATIONS, ACTIONS, MORE = 1_000, 13, 2, 25
TURNS = ("noisy", "explore", "critic", "check")  # purposes of the stored rollouts, where there is a critic


def learner(directory, preset):
    return ddopg.DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,)),
        action_space=gym.spaces.Box(-50, 50, (ACTIONS,)),
        horizon=HORIZON,
        seed=0,
        run_directory=directory,
        preset=preset,
    )


def walk(agent, proposal, rng):
    """A trajectory of the policy's actions on a random walk of observations."""
    observations = np.cumsum(0.05 * rng.standard_normal((HORIZON, OBSERVATIONS)), axis=0, dtype=np.float32)
    actions = agent.policy.act(proposal.theta, observations)
    return ddopg.make_trajectory(
        proposal.theta, observations, actions, rng.standard_normal(HORIZON), horizon=HORIZON
    )


def fill(directory, size, preset):
    """A store of that many rollouts, without the search in between."""
    agent, rng = learner(directory, preset), np.random.default_rng(0)
    while agent.state.memory.size < size:
        agent.state, proposals = algorithm.ask(agent.state, agent.policy, agent.config)
        for proposal in proposals:
            trajectory = walk(agent, proposal, rng)
            number = agent.state.memory.size
            if agent.config.critic.updates and number >= agent.config.design.policies:
                proposal = proposal._replace(purpose=TURNS[number % len(TURNS)])
            agent.state = agent.state._replace(
                memory=add(agent.state.memory, trajectory, purpose=proposal.purpose),
                pending=agent.state.pending[1:],
                steps=agent.state.steps + HORIZON,
                param_sensitivity=np.ones_like(agent.state.param_sensitivity),
            )
            info = Info(**dict.fromkeys(Info._fields, 0.0) | {"outcome": "", "remark": ""})
            agent.store.tell(proposal, agent.state, info)
    agent.close()


def measured(directory, size, preset):
    """One size: resume, and some iterations."""
    fill(directory, size, preset)
    started = time.process_time()
    agent = ddopg.DDOPG.resume(directory)
    opened = time.process_time() - started
    rng, spent = np.random.default_rng(1), {"ask": [], "tell": [], "store": [], "update": []}

    def clocked(function, name):
        def run(*arguments):
            begun = time.process_time()
            result = function(*arguments)
            if name == "update":
                jax.block_until_ready(result)
            spent[name].append(time.process_time() - begun)
            return result

        return run

    agent.store.tell = clocked(agent.store.tell, "store")
    critic.update = clocked(critic.update, "update")
    ask, tell = clocked(ask_ahead, "ask"), clocked(agent.tell, "tell")
    for _ in range(MORE):
        agent.state = ask(agent.state, agent.policy, agent.config, 1)  # as `learn` does
        (proposal,) = agent.pending
        tell(proposal, walk(agent, proposal, rng))
    agent.close()
    first = 5  # of them compile
    of = {name: 1e3 * np.array(some[first:] or [0.0]) for name, some in spent.items()}
    return {
        "preset": preset,
        "rollouts": size,
        "ask_ms": round(median(of["ask"]), 2),
        "tell_ms": round(median(of["tell"]), 2),
        "of_which_store_ms": round(median(of["store"]), 2),
        "of_which_updates_ms": round(median(of["update"]), 2),
        "tell_without_updates_ms": round(median(of["tell"] - of["update"]), 2),
        "resume_s": round(opened, 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "store_mb": round((directory / STORE).stat().st_size / 2**20),
    }


def draw(results):
    from matplotlib.figure import Figure

    picture = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    for preset, line in zip(PRESETS, ("-", "--"), strict=True):
        rows = [row for row in results["sizes"] if row["preset"] == preset]
        sizes = [row["rollouts"] for row in rows]
        for axes, name, mark, colour, label in (
            (left, "tell_without_updates_ms", "o", "#0072B2", "a tell without the critic's updates"),
            (left, "of_which_store_ms", "s", "#D55E00", "of which the store"),
            (left, "ask_ms", "^", "#009E73", "an ask"),
            (right, "memory_mb", "o", "#0072B2", "memory of the process"),
            (right, "store_mb", "s", "#D55E00", "run.sqlite"),
        ):
            said = f"{label}, {preset}" if axes is right or preset == PRESETS[0] else f"… {preset}"
            axes.plot(sizes, [row[name] for row in rows], mark + line, color=colour, label=said)
    left.set(xscale="log", ylim=(0, None), xlabel="stored rollouts of 1,000 steps", ylabel="milliseconds")
    right.set(xscale="log", yscale="log", xlabel="stored rollouts of 1,000 steps", ylabel="megabytes")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=7)
    picture.savefig(PICTURE, dpi=130)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=PRESETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--redraw", action="store_true", help="draw what is there")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as place:
            print(json.dumps(measured(Path(place) / "run", options.one, options.presets[0])))
        return
    path = OUT / "results.json"
    if not options.redraw:
        found = {(preset, size): [] for preset in options.presets for size in options.sizes}
        for preset, size in options.rounds * list(found):
            command = [sys.executable, __file__, "--one", str(size), "--presets", preset]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found[preset, size].append(json.loads(done.stdout))
            print(found[preset, size][-1], flush=True)
        rows = [min(some, key=lambda row: row["tell_without_updates_ms"]) for some in found.values()]
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        OUT.mkdir(exist_ok=True)
        results = {"version": ddopg.__version__, "machine": machine, "sizes": rows}
        path.write_text(json.dumps(results, indent=2) + "\n")
    draw(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
