"""Controllers tuned by ddopg, CMA-ES and Optuna: `python benchmarks/controllers.py` writes controllers/results.jsonl.

Two plants with the same start and bounds for all: a cart with a constant disturbance (PID, 3 parameters) and
Swimmer-v5 with an oscillator (8 parameters). Every method gets the same number of rollouts, and the parameters that
it would hand over are played on fresh seeds. `ddopg` learns from every step, `ddopg-returns`, `cmaes` and `optuna`
(its Gaussian process; needs PyTorch) from returns alone. A finished (plant, method, seed) is never run again.

    python benchmarks/controllers.py [--plants cart swimmer] [--methods ddopg cmaes] [--seeds 20] [--rollouts 60]
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

import ddopg
from ddopg.controllers import Loop, Parameter, oscillator, pid
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.policies import limited
from ddopg.rollouts import evaluate, rollout

OUT = Path(__file__).parent / "controllers" / "results.jsonl"
FIRST_SEED, FRESH = 4200, 20


class Cart(gym.Env):
    """A cart that a constant force pushes away; every rollout starts a little elsewhere."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-10, 10, (1,))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.array([1 + 0.1 * self.np_random.standard_normal(), 0.0])
        return self.place.astype(np.float32), {}

    def step(self, action):
        x, v = self.place
        v += 0.05 * (float(action[0]) + 1.5)
        self.place = np.array([x + 0.05 * v, v])
        return self.place.astype(np.float32), -float(x * x) - 0.001 * float(action[0]) ** 2, False, False, {}


def make_plant(name):
    """Environment, controller and horizon."""
    if name == "cart":
        gains = [Parameter("kp", 2.0, bounds=(0.1, 50.0)), Parameter("ki", 0.2, bounds=(0.01, 10.0))]
        return (
            Cart(),
            pid(2, [Loop(0)], dt=0.05, low=[-10], high=[10], kp=gains[0], ki=gains[1],
                kd=Parameter("kd", 0.5, bounds=(0.05, 20.0))),
            100,
        )  # fmt: skip
    swimmer = oscillator(8, (1, 2), (6, 7), low=(-1.0, -1.0), high=(1.0, 1.0))
    return gym.make("Swimmer-v5"), swimmer, 1000


def tune_by_ddopg(env, policy, horizon, rollouts, seed):
    return ddopg.tune_controller(env, policy, rollouts, seed=seed, horizon=horizon).trained.theta


def player(env, policy, horizon, seed):
    """A function of θ that plays the next rollout and returns what it earned."""
    bounded = limited(
        policy, *(tuple(map(float, end)) for end in (env.action_space.low, env.action_space.high))
    )
    count = iter(range(10**6 * seed, 10**6 * (seed + 1)))
    return lambda theta: float(
        rollout(env, bounded, np.asarray(theta, np.float32), next(count), horizon).rewards.sum()
    )


def tune_by_returns(env, policy, horizon, rollouts, seed):
    from ddopg.controllers import theta_of

    play = player(env, policy, horizon, seed)
    tuned = ddopg.tune_controller(lambda p: play(theta_of(policy, p)), policy.parameters, rollouts, seed=seed)
    return tuned.trained.theta


def tune_by_cmaes(env, policy, horizon, rollouts, seed):
    import cma

    play, (low, high) = player(env, policy, horizon, seed), policy.limits
    options = {"bounds": [low.tolist(), high.tolist()], "seed": seed, "verbose": -9}
    search = cma.CMAEvolutionStrategy(np.zeros(policy.size), 1.0, options)
    play(np.zeros(policy.size))  # the start is played by everybody
    for _ in range((rollouts - 1) // search.popsize):
        asked = search.ask()
        search.tell(asked, [-play(theta) for theta in asked])
    return np.clip(search.result.xfavorite, low, high)


def tune_by_optuna(env, policy, horizon, rollouts, seed):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    play, (low, high) = player(env, policy, horizon, seed), policy.limits
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed), direction="maximize")
    study.enqueue_trial({str(i): 0.0 for i in range(policy.size)})

    def objective(trial):
        return play([trial.suggest_float(str(i), float(low[i]), float(high[i])) for i in range(policy.size)])

    study.optimize(objective, n_trials=rollouts)
    return np.array([study.best_params[str(i)] for i in range(policy.size)])


METHODS = {
    "ddopg": tune_by_ddopg,
    "ddopg-returns": tune_by_returns,
    "cmaes": tune_by_cmaes,
    "optuna": tune_by_optuna,
}


def measure(plant, method, seed, rollouts):
    env, policy, horizon = make_plant(plant)
    started = time.perf_counter()
    theta = np.asarray(METHODS[method](env, policy, horizon, rollouts, seed), np.float32)
    seconds = time.perf_counter() - started
    bounded = limited(
        policy, *(tuple(map(float, end)) for end in (env.action_space.low, env.action_space.high))
    )
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + FRESH)
    returns = evaluate(env, bounded, theta, seeds, horizon)
    about = {
        "plant": plant,
        "method": method,
        "seed": seed,
        "rollouts": rollouts,
        "version": ddopg.__version__,
    }
    found = {"mean": returns.mean(), "worst": returns.min(), "seconds": round(seconds, 1)}
    return about | found | {"parameters": policy.describe(theta)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plants", nargs="+", default=["cart", "swimmer"])
    parser.add_argument("--methods", nargs="+", default=[*METHODS])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rollouts", type=int, default=60)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.out.read_text().splitlines() if chosen.out.exists() else []
    done = {(r["plant"], r["method"], r["seed"], r["rollouts"]) for r in map(json.loads, lines)}
    for seed in range(FIRST_SEED, FIRST_SEED + chosen.seeds):
        for plant in chosen.plants:
            for method in chosen.methods:
                if (plant, method, seed, chosen.rollouts) in done:
                    continue
                row = measure(plant, method, seed, chosen.rollouts)
                with chosen.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(plant, method, seed, f"{row['mean']:.4g}", flush=True)


if __name__ == "__main__":
    main()
