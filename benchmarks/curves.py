"""Learning curves as data: one JSON line per run with its configuration, seed and version; runs already there are
not run again. Used by the scripts beside it.

The incumbent is evaluated on fresh episodes at every 2 % of the budget; at a mark counts what was known by then, and
every environment step used for learning is counted, the initial design and re-checks included.
"""

import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import numpy as np

import ddopg
from ddopg.config import from_dict, to_dict
from ddopg.envs.gym_adapter import make
from ddopg.rollout import FIRST_EVALUATION_SEED

SOLVED = {"cartpole": 950.0, "mountaincar": -65.0, "swimmer": 450.0}
PAPER_SEEDS = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)


def run(label, config, env_name, steps, seed, episodes=100):
    """One learning run and the mean return of its incumbent at every 2 % of the budget."""
    env, started = make(env_name), time.perf_counter()
    agent = ddopg.DDOPG(env, config=config, seed=seed)
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes)
    marks = [int(mark) for mark in np.linspace(0, steps, 51)[1:]]
    curve, earlier, known = [], [agent.state.incumbent.theta], {}

    def value(theta):
        if theta.tobytes() not in known:
            known.clear()
            known[theta.tobytes()] = float(np.mean(ddopg.evaluate(env, agent.policy, theta, seeds)))
        return known[theta.tobytes()]

    def record(agent, info):
        earlier[:] = [earlier[-1], agent.state.incumbent.theta]
        while marks and marks[0] <= info.steps:
            mark = marks.pop(0)
            curve.append((mark, round(value(earlier[1] if info.steps == mark else earlier[0]), 3)))

    agent.learn(total_timesteps=steps, callback=record)
    return {
        "label": label,
        "env": env_name,
        "seed": seed,
        "version": ddopg.__version__,
        "budget": steps,
        "episodes": episodes,
        "config": to_dict(config),
        "rollouts": agent.state.memory.size,
        "steps": agent.state.steps,
        "seconds": round(time.perf_counter() - started, 1),
        "curve": curve,
    }


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def complete(path, jobs, workers=1):
    """Run the jobs (label, config, env, steps, seed, episodes) that the file does not hold yet; return its rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["label"], row["env"], row["seed"], row["budget"]) for row in read(path)}
    jobs = [job for job in jobs if (job[0], job[2], job[4], job[3]) not in done]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for future in as_completed([pool.submit(_job, *job) for job in jobs]):
            with path.open("a") as file:
                file.write(json.dumps(future.result()) + "\n")
    return read(path)


def _job(label, config, *rest):
    return run(label, from_dict(config), *rest)


def summarise(rows):
    """Seeds solved, steps to solved, how much of the rest stays solved, and the end."""
    solved = SOLVED.get(rows[0]["env"], np.inf)
    curves = [np.array(row["curve"]) for row in rows]
    first = [next((int(s) for s, v in curve if v >= solved), None) for curve in curves]
    reached = sorted(s for s in first if s is not None)
    later = [v >= solved for curve, s in zip(curves, first, strict=True) if s for t, v in curve if t > s]
    ends = np.sort([curve[-1, 1] for curve in curves])
    everyone = sorted(np.inf if s is None else s for s in first)
    return {
        "runs": len(rows),
        "solved": len(reached),
        "median": float(np.median(everyone)),
        "worst": float(everyone[-1]),
        "stays": float(np.mean(later)) if later else float("nan"),
        "end": (float(ends[0]), float(np.median(ends)), float(ends[-1])),
        "area": float(np.mean([curve[:, 1].mean() for curve in curves])),
    }


def interval(values, rng, level=0.95, draws=10_000):
    """Bootstrap interval of the mean."""
    means = np.mean(rng.choice(np.asarray(values, float), (draws, len(values))), axis=1)
    return tuple(np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
