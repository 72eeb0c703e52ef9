"""The rest of an iteration: how fast rollouts are, and how its time is divided."""

import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import ddopg
from ddopg.core import algorithm, surrogate_data
from ddopg.core.log_likelihood_cache import LogLikelihoodCache
from ddopg.envs import from_functional
from ddopg.envs.adapter import make
from ddopg.policies import linear, mlp
from ddopg.rollouts import evaluate, rollout, scheduling
from ddopg.rollouts.compiled import find_functions, simulate
from ddopg.storage import run_store as runs

BUDGETS = {
    "trajectory": {"cartpole": 6_000, "mountaincar": 20_000, "swimmer": 150_000},
    "paper": {"cartpole": 2_000, "mountaincar": 30_000, "swimmer": 90_000},
    "released": {"cartpole": 2_000, "mountaincar": 30_000, "swimmer": 90_000},
}
PLAYED = ("cartpole", "mountaincar", "swimmer", "Swimmer-v5", "Pendulum-v1")
STEPPED = ", step by step"
FALLING = "cartpole, falling at once"
KNOWN = {
    "mountaincar": 46_000,
    "cartpole": 220_000,  # a compiled scan of one rollout: 90,000 to 220,000
    f"cartpole{STEPPED}": 128_000,  # the physics and the policy in one loop of plain Python, no environment around
    "cartpole, 64 at once": 1_300_000,
    "swimmer": 70_000,  # in MuJoCo
    "swimmer, 64 at once": 2_800_000,
    "Swimmer-v5": 8_000,
}
"""Steps per second that were seen before on such a machine, with a 16×16 network."""
BALANCE = (1.0, 2.0, -60.0, -12.0)  # force per x, ẋ, angle and rate that keeps the pole up


def rates(seconds=1.0):
    """Steps per second with a 16×16 network: one rollout at a time, and 64 in one compiled program.

    Cartpole is played by a network that balances, 100 steps; one that lets it fall pays for a reset every nine.
    """
    found = {}
    for name in PLAYED:
        env = make(name)
        policy = mlp(env.observation_space.shape[0], env.action_space.shape[0])
        theta = _balancing(policy.size) if name == "cartpole" else np.zeros(policy.size, np.float32)
        found[name] = _rate(_one(env, policy, theta), seconds)
        pure = find_functions(env)
        if pure is not None:
            found[f"{name}{STEPPED}"] = _rate(_one(gym.Wrapper(env), policy, theta), seconds)
            found[f"{name}, 64 at once"] = _rate(
                _many(pure, policy, theta, env.spec.max_episode_steps), seconds
            )
        if name == "cartpole":
            found[FALLING] = _rate(_one(env, policy, 0 * theta), seconds)
            found[f"{FALLING}{STEPPED}"] = _rate(_one(gym.Wrapper(env), policy, 0 * theta), seconds)
        env.close()
    return found


def _balancing(size, small=0.01):
    """Linear feedback as a 4→16→16→1 network: one neuron per layer, kept where tanh is nearly straight."""
    first, second, last = np.zeros((4, 16)), np.zeros((16, 16)), np.zeros((16, 1))
    first[:, 0], second[0, 0], last[0, 0] = small * np.array(BALANCE), 1, 1 / small
    parts = (first, np.zeros(16), second, np.zeros(16), last, np.zeros(1))
    theta = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
    assert theta.size == size
    return theta


def _one(env, policy, theta):
    return lambda seed: rollout(env, policy, theta, seed).length


def _many(pure, policy, theta, horizon):
    starts = pure.draw(range(64))

    def together(seed):
        jax.block_until_ready(simulate(pure, policy, theta, starts, horizon))
        return 64 * horizon

    return together


def _rate(play, seconds):
    play(0)
    best = 0.0
    for _ in range(3):
        steps, start, seed = 0, time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 3:
            seed += 1
            steps += play(seed)
        best = max(best, steps / (time.perf_counter() - start))
    return round(best)


def division(task, preset="trajectory"):
    """Milliseconds of an iteration with a run store, by what they are spent on; medians of the second two thirds.

    `around` is what is neither rollout nor search.
    """
    iterations, budget = [], BUDGETS[preset][task]
    with tempfile.TemporaryDirectory() as place:
        learner = ddopg.DDOPG(task, preset=preset, seed=3, run_directory=Path(place) / "run")
        learner.learn(total_timesteps=budget // 3)
        with _timed() as spent:

            def note(*_):
                spent["iteration"] = time.perf_counter() - note.begun
                iterations.append(dict(spent))
                spent.clear()
                note.begun = time.perf_counter()

            note.begun = time.perf_counter()
            learner.learn(total_timesteps=budget, callback=note)
        learner.close()
    for spent in iterations:
        spent["rest"] = 2 * spent["iteration"] - sum(spent.values())
        spent["around"] = spent["iteration"] - spent["rollout"] - spent["search"]
    return {what: 1e3 * median(one[what] for one in iterations) for what in iterations[0]}


class _timed:
    """Clocks around the parts, while it is open."""

    PARTS = (
        (scheduling, "play_proposal", "rollout"),
        (surrogate_data, "_surrogate_data", "search"),
        (algorithm, "improve", "search"),
        (algorithm, "select", "selection"),
        (LogLikelihoodCache, "assign_slots", "likelihood pairs"),
        (LogLikelihoodCache, "complete", "likelihood pairs"),
        (LogLikelihoodCache, "stack", "stacking"),
        (algorithm, "param_sensitivity", "sensitivity"),
        (runs.RunStore, "tell", "store and log"),
    )

    def __init__(self):
        self.spent, self.originals = Counter(), []

    def __enter__(self):
        for home, name, what in self.PARTS:
            original = getattr(home, name)
            self.originals.append((home, name, original))
            setattr(home, name, self._clocked(original, what))
        return self.spent

    def __exit__(self, *_):
        for home, name, original in self.originals:
            setattr(home, name, original)

    def _clocked(self, function, what):
        def run(*arguments, **options):
            start = time.perf_counter()
            result = function(*arguments, **options)
            if what == "search":
                jax.block_until_ready(result)
            elif what == "likelihood pairs":
                jax.block_until_ready(arguments[0].values)
            self.spent[what] += time.perf_counter() - start
            return result

        return run


def pendulum(rounds=30, episodes=1_000, horizon=200):
    """Milliseconds for the returns of many episodes of Gymnasium's functional pendulum, side by side.

    By hand: jit, vmap and scan over its functions, without a check of anything. Ours is `evaluate` as users call it.
    """
    from gymnasium.envs.phys2d.pendulum import PendulumFunctional

    functions, policy, seeds = PendulumFunctional(), linear(3, 1), np.arange(episodes)
    env, theta = from_functional(functions, horizon=horizon), np.array([-1.0, -2.0, -0.5, 0.1], np.float32)

    @jax.jit
    def by_hand(theta, seeds):
        def step(state, _):
            action = jnp.clip(functions.observation(state, None) @ theta[:3] + theta[3], -2.0, 2.0)[None]
            after = functions.transition(state, action)
            return after, functions.reward(state, action, after, None)

        def one(seed):
            first = functions.initial(jax.random.split(jax.random.PRNGKey(seed))[0])
            return jax.lax.scan(step, first, None, length=horizon)[1].sum()

        return jax.vmap(one)(seeds)

    runs = {
        "by hand": lambda: np.asarray(by_hand(theta, seeds.astype(np.uint32))),
        "ddopg": lambda: evaluate(env, policy, theta, seeds),
    }
    np.testing.assert_allclose(runs["by hand"](), runs["ddopg"](), rtol=1e-4)
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for what, run in runs.items():
            start = time.perf_counter()
            run()
            best[what] = min(best[what], time.perf_counter() - start)
    return {what: 1e3 * seconds for what, seconds in best.items()}
