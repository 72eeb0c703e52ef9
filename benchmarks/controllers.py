"""Controllers tuned by ddopg, CMA-ES and Optuna: `run` writes controllers/results.jsonl, `table` prints what it says,
and `compare` the differences between ddopg and the others on the same seeds, with bootstrap intervals.

The plants are those of the examples, with the same start and bounds for all: PID of a two-joint arm, a crane with a
black-box controller over files, and a movement of a seven-joint arm. The other ready-made controllers have plants
for ddopg alone: linear feedback, gain scheduling, and Swimmer-v5 with an oscillator. Every rollout is counted, the
first one is the start for everybody, and what a method would hand over is played on fresh episodes.

`ddopg` learns from every step; `ddopg-black-box` does the same without derivatives, by calling the controller on
stored observations; `ddopg-returns`, `cma-es` and `optuna` (its Gaussian process; needs PyTorch) see returns alone.
A finished (plant, method, seed) is never run again.

    python benchmarks/controllers.py run [--plants arm crane] [--methods ddopg cma-es] [--seeds 5600 5620]
    python benchmarks/controllers.py table
    python benchmarks/controllers.py compare
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import ddopg  # noqa: E402
from ddopg.controllers import black_box, gain_scheduled, linear_feedback, theta_of  # noqa: E402
from ddopg.core.seeding import FIRST_EVALUATION_SEED  # noqa: E402
from ddopg.experiments.bench import stats  # noqa: E402
from ddopg.policies import limited  # noqa: E402
from ddopg.rollouts import evaluate, rollout  # noqa: E402

OUT = HERE / "controllers" / "results.jsonl"
CHECKED = 10, 20, 30, 40, 60, 80, 100  # rollouts after which the controller is played on fresh episodes
EPISODES = 10
SHORTER = {("movement", "optuna"): 60}  # rollouts: it takes minutes for more


class Plant(NamedTuple):
    policy: object  # its parameters have the start and the bounds
    rollouts: int  # the budget
    play: Callable  # (θ, seed) → return
    judge: Callable  # θ → returns of fresh episodes
    learn: Callable  # seed → a generator of θ, one after each rollout


def in_environment(env, policy, horizon, rollouts):
    ends = (tuple(map(float, end)) for end in (env.action_space.low, env.action_space.high))
    bounded = limited(policy, *ends)
    fresh = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + EPISODES)
    return Plant(
        policy,
        rollouts,
        lambda theta, seed: float(rollout(env, bounded, np.float32(theta), seed, horizon).rewards.sum()),
        lambda theta: evaluate(env, bounded, np.float32(theta), fresh, horizon),
        lambda seed: learn_in_environment(env, policy, horizon, seed),
    )


def make_arm():
    import tune_pid

    return in_environment(tune_pid.Arm(), tune_pid.arm, tune_pid.STEPS, 60)


def make_arm_black_box():
    """The same PID in NumPy, which JAX cannot differentiate."""
    import tune_pid

    def step(p, state, seen):
        total, rate, before = state
        error = tune_pid.TARGET - seen[:2]
        change = 0.0 if before is None else (seen[:2] - before) / tune_pid.DT
        rate = rate + (change - rate) / 3
        kp, ki, kd = (np.array([p[f"{name}[0]"], p[f"{name}[1]"]]) for name in ("kp", "ki", "kd"))
        grown, limit = total + tune_pid.DT * error, np.array([20.0, 10.0])
        output = kp * error + ki * grown - kd * rate
        total = np.where((np.abs(output) > limit) & (output * error > 0), total, grown)
        action = np.clip(kp * error + ki * total - kd * rate, -limit, limit)
        return (total, rate, seen[:2]), action

    parameters = tune_pid.arm.parameters
    box = black_box(parameters, step, 4, 2, initial=lambda p: (np.zeros(2), np.zeros(2), None))
    return make_arm()._replace(
        learn=lambda seed: learn_in_environment(tune_pid.Arm(), box, tune_pid.STEPS, seed)
    )


def make_movement():
    import tune_movement as example

    return in_environment(example.SevenJoints(), example.movement, example.STEPS, 100)


def make_swimmer():
    import gymnasium as gym

    from ddopg.controllers import for_planar_robot

    swimmer = for_planar_robot(8, (-1.0, -1.0), (1.0, 1.0))
    return in_environment(gym.make("Swimmer-v5"), swimmer, 1000, 100)


def make_linear():
    """Cartpole by linear feedback, from no force at all."""
    import gymnasium as gym

    gains = linear_feedback(4, 1, scale=[[1.0, 2.0, 20.0, 4.0]])
    return in_environment(gym.make("ddopg/Cartpole-v0"), gains, 100, 30)


def make_linear_black_box():
    """The same gains in NumPy."""
    import gymnasium as gym

    gains = linear_feedback(4, 1, scale=[[1.0, 2.0, 20.0, 4.0]]).parameters
    box = black_box(gains, lambda p, seen: [sum(k * o for k, o in zip(p.values(), seen, strict=True))], 4, 1)
    return make_linear()._replace(
        learn=lambda seed: learn_in_environment(gym.make("ddopg/Cartpole-v0"), box, 100, seed)
    )


def make_scheduled():
    """InvertedPendulum-v5 by gains that follow the angle, from no force at all."""
    import gymnasium as gym

    gains = gain_scheduled(4, 1, variable=1, points=(-0.1, 0.1), scale=[[0.3, 3.0, 0.3, 0.6]])
    return in_environment(gym.make("InvertedPendulum-v5"), gains, 1000, 30)


def make_crane():
    import tune_black_box as example

    def play(theta, seed):
        return sum(row[-1] for row in example.transport(example.crane.describe(theta), seed))

    def judge(theta):
        return np.array([play(theta, FIRST_EVALUATION_SEED + i) for i in range(EPISODES)])

    return Plant(example.crane, 40, play, judge, lambda seed: learn_over_files(example, seed))


NEAR = {
    "arm": -15.0,
    "crane": -11.5,
    "movement": -15.0,
    "linear": 950.0,
    "scheduled": 950.0,
    "swimmer": 300.0,
}  # returns that count as tuned
PLANTS = {
    "arm": make_arm,
    "crane": make_crane,
    "movement": make_movement,
    "linear": make_linear,
    "scheduled": make_scheduled,
    "swimmer": make_swimmer,
}


BLACK_BOXES = {"arm": make_arm_black_box, "linear": make_linear_black_box}


def learn_in_environment(env, policy, horizon, seed):
    agent = ddopg.tune_controller(env, policy, 1, seed=seed, horizon=horizon).agent
    while True:
        yield agent.incumbent.theta
        agent.learn(total_episodes=1)


def learn_over_files(example, seed):
    """Every command as a user types it, without starting Python anew."""
    from ddopg.cli.main import main

    def command(*words):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            main([*map(str, words), "--policy", "tune_black_box:crane"])
        return said.getvalue().strip()

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "crane"
        command("begin", place, *example.ABOUT, "--seed", seed)
        while True:
            proposal = Path(command("ask", place, "--number", 1).splitlines()[-1])
            about = json.loads((proposal / "proposal.json").read_text())
            example.write_log(proposal / "rollout.csv", example.transport(about["parameters"], about["seed"]))
            command("tell", place, proposal / "rollout.csv")
            yield ddopg.load(place / "policy.safetensors", example.crane).theta


def by_ddopg(plant, seed):
    yield from plant.learn(seed)


def by_returns(plant, seed):
    """Ask and tell of `ddopg.tune_controller` with a function."""
    played = iter(range(10**6 * seed, 10**6 * (seed + 1)))

    def play(p):
        return plant.play(theta_of(plant.policy, p), next(played))

    agent = ddopg.tune_controller(play, plant.policy.parameters, 1, seed=seed).agent
    while True:
        yield agent.incumbent.theta
        (proposal,) = agent.ask(1)
        agent.tell(proposal, play(proposal.parameters))


def by_cma_es(plant, seed):
    """A quarter of the range as first deviation, and its own defaults; the best of its rollouts is handed over."""
    import cma

    (low, high), start = plant.policy.limits, np.zeros(plant.policy.size)
    options = {"bounds": [low.tolist(), high.tolist()], "seed": seed, "verbose": -9}
    search = cma.CMAEvolutionStrategy(start, 1.0, options)
    count = 10**6 * seed
    best = start, plant.play(start, count)  # the start is played by everybody
    yield start
    while True:
        asked, values = search.ask(), []
        for theta in asked:
            count += 1
            values.append(plant.play(theta, count))
            best = max(best, (theta, values[-1]), key=lambda one: one[1])
            yield best[0]
        search.tell(asked, [-value for value in values])


def by_optuna(plant, seed):
    """Its Gaussian-process sampler with its defaults; the parameters of its best trial are handed over."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    low, high = plant.policy.limits
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed), direction="maximize")
    names = [str(i) for i in range(plant.policy.size)]
    study.enqueue_trial(dict.fromkeys(names, 0.0))
    count = 10**6 * seed
    while True:
        trial = study.ask()
        theta = [trial.suggest_float(name, float(low[i]), float(high[i])) for i, name in enumerate(names)]
        study.tell(trial, plant.play(theta, count))
        count += 1
        yield np.array([study.best_params[name] for name in names])


METHODS = {
    "ddopg": by_ddopg,
    "ddopg-black-box": by_ddopg,
    "ddopg-returns": by_returns,
    "cma-es": by_cma_es,
    "optuna": by_optuna,
}


def measure(name, method, seed):
    plant = (BLACK_BOXES if method == "ddopg-black-box" else PLANTS)[name]()
    started, curve = time.perf_counter(), {}
    rollouts = SHORTER.get((name, method), plant.rollouts)
    for count, theta in enumerate(METHODS[method](plant, seed), 1):
        if count in CHECKED:
            curve[count] = round(float(np.mean(plant.judge(theta))), 3)
        if count == rollouts:
            break
    return {
        "plant": name,
        "method": method,
        "seed": seed,
        "rollouts": rollouts,
        "curve": curve,
        "seconds": round(time.perf_counter() - started, 1),
        "parameters": {k: float(f"{v:.5g}") for k, v in plant.policy.describe(np.float32(theta)).items()},
        "version": ddopg.__version__,
    }


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(chosen):
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["plant"], r["method"], r["seed"]) for r in read(chosen.out)}
    for seed in range(*chosen.seeds):
        for plant in chosen.plants:
            for method in chosen.methods:
                if (plant, method, seed) in done or (
                    method == "ddopg-black-box" and plant not in BLACK_BOXES
                ):
                    continue
                row = measure(plant, method, seed)
                with chosen.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(plant, method, seed, list(row["curve"].values()), row["seconds"], flush=True)


def table(chosen):
    """Markdown: the median over the seeds after so many rollouts; worst seed and rollouts until tuned within the
    shortest budget of the plant."""
    rows = read(chosen.out)
    print("| plant | method | seeds | after 10 | 20 | 40 | 60 | 100 | worst seed | tuned after |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for plant in dict.fromkeys(row["plant"] for row in rows):
        end = min(row["rollouts"] for row in rows if row["plant"] == plant)
        for method in METHODS:
            curves = [r["curve"] for r in rows if (r["plant"], r["method"]) == (plant, method)]
            if curves:
                print(f"| {plant} | `{method}` | {len(curves)} | {summarise(curves, end, NEAR[plant])} |")


def compare(chosen):
    """Markdown: how much better `ddopg` is than the others on the same seeds."""
    rows = read(chosen.out)
    print("| plant | than | rollouts | seeds | median difference [95 %] | better on |")
    print("|---|---|---|---|---|---|")
    for plant in dict.fromkeys(row["plant"] for row in rows):
        curves = {
            method: {r["seed"]: r["curve"] for r in rows if (r["plant"], r["method"]) == (plant, method)}
            for method in METHODS
        }
        for method in [*METHODS][1:]:
            print(
                *compare_with(plant, method, curves["ddopg"], curves[method], chosen.rollouts), sep="", end=""
            )


def compare_with(plant, method, ours, theirs, wanted):
    """A line for each of the wanted numbers of rollouts; without one, for the most that both have, and for 60."""
    seeds = sorted(set(ours) & set(theirs))
    if not seeds:
        return
    shared = set.intersection(*(set(map(int, some[seed])) for some in (ours, theirs) for seed in seeds))
    for count in sorted(shared.intersection(wanted) or {max(shared), min(max(shared), 60)}):
        apart = np.array([ours[seed][str(count)] - theirs[seed][str(count)] for seed in seeds])
        low, high = stats.stratified_bootstrap([apart], partial(np.median, axis=-1), np.random.default_rng(0))
        found = f"{np.median(apart):.1f} [{low:.1f}, {high:.1f}] | {(apart > 0).sum()} of {len(seeds)}"
        yield f"| {plant} | `{method}` | {count} | {len(seeds)} | {found} |\n"


def summarise(curves, end, near):
    known = sorted(set.intersection(*(set(map(int, curve)) for curve in curves)))
    values = {count: [curve[str(count)] for curve in curves] for count in known}
    shared = [count for count in known if count <= end]
    shown = [f"{np.median(values[count]):.1f}" if count in values else "" for count in (10, 20, 40, 60, 100)]
    reached = [next((c for c in shared if curve[str(c)] >= near), np.inf) for curve in curves]
    half, solved = np.median(reached), np.isfinite(reached).sum()
    tuned = f"{half:g} ({solved} of {len(curves)})" if np.isfinite(half) else f"– ({solved} of {len(curves)})"
    return " | ".join([*shown, f"{min(values[shared[-1]]):.1f}", tuned])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table", "compare"])
    parser.add_argument("--plants", nargs="+", default=["arm", "crane", "movement"], choices=PLANTS)
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=METHODS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(5600, 5620), metavar=("FIRST", "BEHIND"))
    parser.add_argument("--rollouts", type=int, nargs="+", default=(), help="for compare")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    {"run": run, "table": table, "compare": compare}[chosen.what](chosen)


if __name__ == "__main__":
    main()
