"""Learning curves of the presets, as data: one JSON line per run, with its configuration, seed and version.

    python benchmarks/presets.py --env cartpole --steps 8000 --presets paper released --out benchmarks/presets

The incumbent is evaluated on 100 fresh episodes at every 2 % of the budget; every environment step used for
learning is counted, the initial design included. A run that is in the file already is not run again.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import ddopg
from ddopg.artefact import policy_for
from ddopg.config import preset, to_dict
from ddopg.envs.gym_adapter import make, problem_of

PAPER_SEEDS = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
EVALUATION_SEEDS = range(2**31, 2**31 + 100)


def run(name, env_name, steps, seed):
    """One learning run: (environment steps, mean return of the incumbent) at every 2 % of the budget."""
    env, started = make(env_name), time.perf_counter()
    agent = ddopg.DDOPG(env, preset=name, seed=seed)
    policy = policy_for(problem_of(env), agent.config)
    marks = [int(mark) for mark in np.linspace(0, steps, 51)[1:]]
    curve, earlier = [], [agent.state.incumbent.theta]

    def record(agent, info):
        """At a mark counts what was known by then: the incumbent before the rollout that went beyond it."""
        earlier.append(agent.state.incumbent.theta)
        known = {
            mark: earlier[-1] if info.steps == mark else earlier[-2] for mark in marks if mark <= info.steps
        }
        returns = {theta.tobytes(): None for theta in known.values()}
        for mark, theta in known.items():
            if returns[theta.tobytes()] is None:
                returns[theta.tobytes()] = float(
                    np.mean(ddopg.evaluate(env, policy, theta, EVALUATION_SEEDS))
                )
            curve.append((mark, round(returns[theta.tobytes()], 3)))
            marks.remove(mark)

    agent.learn(total_timesteps=steps, callback=record)
    return {
        "env": env_name,
        "preset": name,
        "seed": seed,
        "version": ddopg.__version__,
        "budget": steps,
        "config": to_dict(agent.config),
        "rollouts": agent.state.memory.size,
        "seconds": round(time.perf_counter() - started, 1),
        "curve": curve,
    }


def summarise(rows, solved):
    """Seeds solved, steps to solved, how much of the rest stays solved, and the end."""
    curves = [np.array(row["curve"]) for row in rows]
    first = [next((int(s) for s, v in curve if v >= solved), None) for curve in curves]
    reached = sorted(s for s in first if s is not None)
    later = [v >= solved for curve, s in zip(curves, first, strict=True) if s for t, v in curve if t > s]
    ends = sorted(float(curve[-1, 1]) for curve in curves)
    return {
        "runs": len(rows),
        "solved": len(reached),
        "median steps to solved": float(np.median(reached)) if reached else None,
        "worst steps to solved": reached[-1] if reached else None,
        "stays solved": round(float(np.mean(later)), 3) if later else None,
        "end median": float(np.median(ends)),
        "end worst": ends[0],
        "end best": ends[-1],
    }


SOLVED = {"cartpole": 950.0, "mountaincar": -65.0, "swimmer": 450.0}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--presets", nargs="+", default=["paper", "released"])
    parser.add_argument("--seeds", nargs="+", type=int, default=PAPER_SEEDS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/presets"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.presets:
        preset(name)
        path = options.out / f"{options.env}-{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        done = {row["seed"] for row in rows}
        for seed in options.seeds:
            if seed not in done:
                row = run(name, options.env, options.steps, seed)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                rows.append(row)
        print(options.env, name, json.dumps(summarise(rows, SOLVED[options.env])))


if __name__ == "__main__":
    main()
