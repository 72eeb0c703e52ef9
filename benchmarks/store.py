"""What the run store costs: `python benchmarks/store.py` writes benchmarks/store/results.json and prints it.

Cartpole with the preset `trajectory`. First one run with the store and one without; then stores of 100, 1,000 and
10,000 rollouts: how long it takes to open and resume them, and to tell one more. Medians; milliseconds on the wall,
and of the processor where the name says so (on a busy machine they differ).
"""

import json
import os
import platform
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import ddopg
from ddopg.core.algorithm import Info
from ddopg.core.memory import add
from ddopg.core.state import Proposal
from ddopg.rollouts import rollout
from ddopg.storage.database import STORE

OUT = Path(__file__).parent / "store" / "results.json"
SIZES = (100, 1_000, 10_000)
EPISODES, WARM, MORE = 300, 60, 30


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        results = {
            "version": ddopg.__version__,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            "tell_without_store": tells(None),
            "tell_with_store": tells(Path(place) / "run"),
            "stores": [grown(Path(place) / str(size), size) for size in SIZES],
        }
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    print(OUT.read_text())


def tells(directory: Path | None) -> dict[str, float]:
    """Median of a whole `tell`, and of the part that is the store's."""
    agent = ddopg.DDOPG("cartpole", seed=16, run_directory=directory, preset="trajectory")
    times = timed(agent, EPISODES)
    return {name: round(median(values[WARM:]), 3) for name, values in times.items()}


def timed(agent: ddopg.DDOPG, episodes: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"tell": [], "tell_processor": []}

    def clocked(name, function, *arguments) -> None:
        started = time.perf_counter(), time.process_time()
        function(*arguments)
        times.setdefault(name, []).append(1e3 * (time.perf_counter() - started[0]))
        times.setdefault(f"{name}_processor", []).append(1e3 * (time.process_time() - started[1]))

    if agent.store is not None:
        agent.store.tell = partial(clocked, "store", agent.store.tell)
    for _ in range(episodes):
        (proposal, *_) = agent.pending or agent.ask()
        trajectory = rollout(agent.env, agent.policy, proposal.theta, proposal.seed)
        clocked("tell", agent.tell, proposal, trajectory)
    return times


def grown(directory: Path, size: int) -> dict[str, float]:
    """A store of that many rollouts of 100 steps: opened, and told a few more."""
    fill(directory, size)
    started = time.perf_counter()
    agent = ddopg.DDOPG.resume(directory)
    opened = time.perf_counter() - started
    times = timed(agent, MORE)
    agent.close()
    return {
        "rollouts": size,
        "megabytes": round((directory / STORE).stat().st_size / 2**20, 1),
        "resume": round(1e3 * opened, 1),
        **{name: round(median(values[-20:]), 3) for name, values in times.items()},
    }


def fill(directory: Path, size: int) -> None:
    """Real rows without the learning between them, and without waiting for the disk."""
    agent = ddopg.DDOPG("cartpole", seed=16, run_directory=directory, preset="trajectory")
    agent.store._connection.execute("PRAGMA synchronous = OFF")
    infos: list[Info] = []
    agent.learn(total_episodes=20, callback=lambda agent, info: infos.append(info))
    last = infos[-1]
    template, rng, state = agent.state.memory.trajectories[0], np.random.default_rng(0), agent.state
    for number in range(state.memory.size, size):
        trajectory = template._replace(
            observations=rng.standard_normal(template.observations.shape).astype(np.float32),
            rewards=rng.standard_normal(template.rewards.shape),
            alive=np.ones_like(template.alive),
        )
        memory = add(state.memory, trajectory)
        state = state._replace(memory=memory, steps=state.steps + 100, asked=number + 1)
        state = state._replace(memory=memory._replace(longest=100))
        told = last._replace(rollout=number + 1, steps=state.steps, return_=memory.returns[-1], length=100)
        agent.store.tell(Proposal(number, template.theta, template.seed), state, told)
    agent.close()


if __name__ == "__main__":
    main()
