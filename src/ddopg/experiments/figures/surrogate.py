"""Fig. 1: the surrogate along a line through a near-optimal policy, for three length-scales, beside the truth.

A short run of DD-OPG finds the policy. Policies along a random direction through it are rolled out once each: the
surrogate's data. The truth is the mean return of independent episodes, none of which the surrogate sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from ddopg._version import __version__
from ddopg.agent import DDOPG
from ddopg.config import Config, SelectionConfig, SurrogateConfig
from ddopg.core.memory import Memory, add
from ddopg.core.seeding import FIRST_EVALUATION_SEED, draw_seed, make_rng
from ddopg.core.selection import Selection
from ddopg.core.surrogate import estimate, log_weights
from ddopg.core.surrogate_data import Sample, prepare
from ddopg.core.types import Trajectory
from ddopg.envs.adapter import make
from ddopg.experiments.bench.benchmark import Execute
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.workers import Failed
from ddopg.experiments.figures import curves, numbers
from ddopg.experiments.figures.numbers import round_all
from ddopg.policies import Policy
from ddopg.rollouts.playing import evaluate, rollout
from ddopg.support.records import to_dict

NAME = "surrogate"
FILE = "section.json"


class Settings(NamedTuple):
    """What is computed."""

    env: str = "cartpole"
    seed: int = 2  # of the run that finds the policy, of the direction and of the rollouts
    steps: int = 4_000  # of that run
    extent: float = 2.5  # the line is θ* + x·v, ‖v‖ = 1, |x| ≤ extent
    rollouts: int = 25  # the surrogate's data
    points: int = 161  # at which everything is drawn
    episodes: int = 300  # of the truth at each point
    log_covariances: tuple[float, ...] = (6.0, 3.0, 0.0)  # log Σ in N²: long, middle, short
    delta: float = 0.2  # of the lower bound (paper, Fig. 1)


SETTINGS = Settings()
QUICK = Settings(points=61, episodes=100)


class Curves(NamedTuple):
    """What the surrogate says along the line, each (points,)."""

    mean: np.ndarray
    deviation: np.ndarray  # of the return
    lower_bound: np.ndarray
    ess: np.ndarray


def plan_jobs(quick: bool) -> list[Job]:
    """List no runs: everything is computed at once, in seconds."""
    return []


def run(data: Path, quick: bool, execute: Execute, quiet: bool) -> list[Failed]:
    """Compute the section, unless the directory holds it."""
    numbers.keep(data / FILE, NAME, QUICK if quick else SETTINGS, compute_section)
    return []


def compute_section(settings: Settings) -> dict[str, Any]:
    """Compute everything that is drawn, as plain numbers."""
    env = make(settings.env)
    agent = DDOPG(env, seed=settings.seed, preset="trajectory").learn(settings.steps)
    policy, best = agent.policy, agent.state.incumbent.theta
    towards = draw_direction(settings.seed, policy.size)
    x = np.linspace(-settings.extent, settings.extent, settings.points)
    line = (best + x[:, None] * towards).astype(np.float32)
    where = make_rng(settings.seed, 1, "section").uniform(
        -settings.extent, settings.extent, settings.rollouts
    )
    data = [
        rollout(env, policy, best + at * towards, draw_seed(settings.seed, k, "section rollout"))
        for k, at in enumerate(where)
    ]
    mean, deviation = measure_truth(env, policy, line, settings.episodes)
    return {
        "version": __version__,
        "settings": numbers.to_plain(settings),
        "config": to_dict(agent.config),
        "theta": round_all(best, 7),
        "direction": round_all(towards, 7),
        "x": round_all(x, 5),
        "truth": {"mean": round_all(mean), "deviation": round_all(deviation)},
        "data": {"x": round_all(where, 5), "returns": round_all([t.rewards.sum() for t in data])},
        "surrogate": [
            {name: round_all(values) for name, values in zip(Curves._fields, found, strict=True)}
            for log in settings.log_covariances
            for found in [estimate_along(policy, line, data, math.exp(log / 2), settings.delta)]
        ],
    }


def draw_direction(seed: int, size: int) -> np.ndarray:
    """Draw a random unit vector (D,), all directions alike."""
    v = make_rng(seed, 0, "section").standard_normal(size)
    return v / np.linalg.norm(v)


def measure_truth(
    env: gym.Env, policy: Policy, line: np.ndarray, episodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Measure the return of each policy of a line on the same fresh episodes.

    Args:
        env: the task.
        policy: the policy class.
        line: parameters, (P, D).
        episodes: per policy.

    Returns:
        Mean (P,) and standard deviation (P,) of the return.
    """
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes)
    returns = np.array([evaluate(env, policy, theta, seeds) for theta in line])
    return returns.mean(axis=1), returns.std(axis=1)


def estimate_along(
    policy: Policy, line: np.ndarray, data: Sequence[Trajectory], sigma: float, delta: float
) -> Curves:
    """Estimate the return of each policy of a line from data.

    Args:
        policy: the policy class.
        line: parameters, (P, D).
        data: the trajectories that the surrogate knows.
        sigma: the length-scale, in units of the action.
        delta: δ of the lower bound.

    Returns:
        Estimate, deviation, lower bound and effective sample size at every policy.
    """
    number = len(data)
    config = Config(
        selection=SelectionConfig(size=number),
        surrogate=SurrogateConfig(
            length_scale=tuple(sigma / unit for unit in policy.action_scale), delta=delta
        ),
    )
    memory = Memory()
    for trajectory in data:
        memory = add(memory, trajectory)
    everything = Selection(np.arange(number), np.ones(number, np.int64))
    sample = Sample(everything, np.ones(policy.size, np.float32), reward_scale=1.0)
    known, _ = prepare(memory, sample, line[0], policy, config)
    bound = float(np.max(np.abs(memory.returns)))

    @jax.jit
    def believe(theta: jax.Array) -> Any:
        log_w = log_weights(policy, theta, known, config.surrogate)
        return estimate(log_w, known, bound, config.surrogate)

    found = jax.vmap(believe)(line)
    return Curves(*map(np.asarray, (found.mean, np.sqrt(found.variance), found.lower_bound, found.ess)))


def plot(data: Path, out: Path, quick: bool) -> list[Path]:
    """Draw one panel per length-scale."""
    path = data / FILE
    curves.require_data(path.exists(), NAME, data)
    found = numbers.read(path, NAME)
    settings, x, real = found["settings"], found["x"], found["truth"]
    picture = curves.make_picture(11, 4.6)
    panels = picture.subplots(1, len(found["surrogate"]), sharey=True, squeeze=False)[0]
    for axes, log, belief in zip(panels, settings["log_covariances"], found["surrogate"], strict=True):
        _shade(axes, x, real, curves.BLUE, f"truth, mean ± sd of {settings['episodes']} episodes")
        _shade(axes, x, belief, curves.RED, "surrogate, mean ± sd of the return")
        axes.plot(
            x,
            belief["lower_bound"],
            "--",
            color=curves.RED,
            lw=1.2,
            label=f"lower bound, δ = {settings['delta']:g}",
        )
        axes.plot(
            found["data"]["x"],
            found["data"]["returns"],
            "o",
            ms=4,
            color="0.35",
            mec="white",
            mew=0.5,
            label=f"data, {settings['rollouts']} rollouts",
        )
        axes.set_title(f"log Σ = {log:g}  (σ = {math.exp(log / 2):.3g} N)", fontsize=11)
        axes.set(xlabel="distance from θ* along a random direction", xlim=(x[0], x[-1]))
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(f"return on {settings['env']}")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return [curves.save(picture, out / f"{NAME}.png")]


def _shade(axes: Any, x: list[float], curve: dict[str, list[float]], colour: str, label: str) -> None:
    mean, deviation = np.array(curve["mean"]), np.array(curve["deviation"])
    axes.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.2, lw=0)
    axes.plot(x, mean, color=colour, lw=1.8, label=label)
