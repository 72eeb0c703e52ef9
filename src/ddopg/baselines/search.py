"""Search in parameter space on whole returns: CMA-ES, ARS and random search, on the same policies and rollouts.

The parameters searched are *scaled*: they act on observations measured by what was seen of them (`scaling.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.baselines.base import Checkpoint, rollout_seeds
from ddopg.baselines.scaling import ObservationBuffer, fit_scaling, fold_scaling, make_identity
from ddopg.baselines.settings import (
    ARSSettings,
    CMAESSettings,
    OptunaSettings,
    PGPESettings,
    RandomSettings,
    TurboSettings,
)
from ddopg.config import PolicyConfig
from ddopg.core.param_scaling import sample_constant_policy
from ddopg.core.proposals import initial_params
from ddopg.core.seeding import make_rng
from ddopg.envs.adapter import problem_from_env
from ddopg.errors import MissingPackageError
from ddopg.policies import Policy, make_policy
from ddopg.rollouts.playing import rollout

Settings = ARSSettings | CMAESSettings | OptunaSettings | PGPESettings | RandomSettings | TurboSettings


def random_search(
    env: gym.Env, seed: int, settings: RandomSettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """Independent policies around the class' own start; the best one so far counts."""
    trial = Trial(env, seed, settings, network)
    best, highest, count = trial.to_raw(trial.start), -np.inf, 0
    for theta in trial.sample_probes():
        yield trial.make_checkpoint(best)
        value = trial.play(theta)
        if value > highest:
            best, highest = theta, value
    trial.rescale()
    while True:
        scatter = make_rng(seed, count, "random search").standard_normal(len(trial.start))
        theta = trial.to_raw(trial.start + settings.spread * scatter)
        returns = []
        for _ in range(settings.repeats):
            yield trial.make_checkpoint(best)
            returns.append(trial.play(theta))
        if np.mean(returns) > highest:
            best, highest = theta, float(np.mean(returns))
        trial.rescale()
        count += 1


def cma_es(
    env: gym.Env, seed: int, settings: CMAESSettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """The mean of the search distribution counts; it moves once per generation."""
    cma = _import_cma()
    trial = Trial(env, seed, settings, network)
    yield from trial.play_probes()
    rng = make_rng(seed, 0, "cma-es")
    options = {"verbose": -9, "seed": np.nan, "randn": lambda *shape: rng.standard_normal(shape)}
    if settings.population:
        options["popsize"] = settings.population
    search = cma.CMAEvolutionStrategy(trial.start.astype(np.float64), settings.step, options)
    while True:
        costs, asked = [], search.ask()
        for scaled in asked:
            yield trial.make_checkpoint(trial.to_raw(search.mean))
            costs.append(-trial.play(trial.to_raw(scaled)))
        search.tell(asked, costs)
        trial.rescale()


def ars(
    env: gym.Env, seed: int, settings: ARSSettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """M ← M + α/(b σ_R) Σ (R₊ − R₋) δ over the b directions whose better side is best; M counts."""
    trial = Trial(env, seed, settings, network)
    centre = trial.start.astype(np.float64)
    yield from trial.play_probes()
    count = 0
    while True:
        directions = make_rng(seed, count, "ars").standard_normal((settings.directions, len(centre)))
        returns = np.empty((settings.directions, 2))
        for k, side in np.ndindex(returns.shape):
            yield trial.make_checkpoint(trial.to_raw(centre))
            sign = 1 - 2 * side
            returns[k, side] = trial.play(trial.to_raw(centre + sign * settings.noise * directions[k]))
        centre = centre + compute_ars_step(directions, returns, settings.top, settings.step)
        trial.rescale()
        count += 1


def compute_ars_step(directions: np.ndarray, returns: np.ndarray, top: int, step: float) -> np.ndarray:
    """α/(b σ_R) Σ (R₊ − R₋) δ, (D,): directions (N, D), returns (N, 2); 0 where all returns are the same."""
    chosen = np.argsort(-returns.max(axis=1), kind="stable")[:top]
    spread = returns[chosen].std()
    if spread == 0:
        return np.zeros(directions.shape[1])
    return step / (top * spread) * (returns[chosen, 0] - returns[chosen, 1]) @ directions[chosen]


class Trial:
    """One run's environment, policy class and scale; counts every step.

    A controller in the place of the policy class has its own scales, start and bounds: its parameters are searched as
    they are declared.
    """

    def __init__(self, env: gym.Env, seed: int, settings: Settings, network: Policy | None = None) -> None:
        problem = problem_from_env(env)
        self.own = network is not None
        if self.own:
            settings = replace(settings, hidden=(), scaling="none", probes=0)
        self.env, self.seed, self.settings, self.horizon = env, seed, settings, problem.horizon
        shape = PolicyConfig(hidden=settings.hidden, squash=True)
        low, high = np.asarray(problem.low), np.asarray(problem.high)
        self.policy = make_policy(shape, problem.observation_size, low, high, network)
        self.width = settings.hidden[0] if settings.hidden else problem.action_size
        # A linear map may start from nothing; a network of zeros would be a saddle point.
        zero = np.zeros(self.policy.size, np.float32)
        self.start = initial_params(self.policy, seed) if settings.hidden else zero
        self.steps, self.scaling = 0, make_identity(problem.observation_size)
        self._seeds, self._seen = rollout_seeds(seed), ObservationBuffer(problem.observation_size)

    def play(self, theta: np.ndarray) -> float:
        """Play one fresh episode and return its return."""
        trajectory = rollout(self.env, self.policy, theta, next(self._seeds), self.horizon)
        self.steps += trajectory.length
        if self.settings.scaling != "none":
            self._seen.add(trajectory.observations[trajectory.alive])
        return float(trajectory.rewards.sum())

    def sample_probes(self) -> list[np.ndarray]:
        """Sample constant policies: they show the scales before any gain multiplies them."""
        size, outputs = self.policy.size, len(self.policy.action_scale)
        return [
            sample_constant_policy(make_rng(self.seed, count, "probe"), size, outputs)
            for count in range(self.settings.probes)
        ]

    def play_probes(self) -> Iterator[Checkpoint]:
        """Roll the constant policies out, and take the scale from them; the start counts meanwhile."""
        for theta in self.sample_probes():
            yield self.make_checkpoint(self.to_raw(self.start))
            self.play(theta)
        self.rescale()

    def rescale(self) -> None:
        """Take the scale from everything seen."""
        self.scaling = fit_scaling(self._seen.observations, self.settings.scaling)

    def to_raw(self, scaled: np.ndarray) -> np.ndarray:
        """Turn scaled parameters into those that act on raw observations; a controller's into its bounds."""
        if self.own:
            low, high = self.find_box(np.inf)
            return np.clip(scaled, low, high).astype(np.float32)
        return fold_scaling(np.asarray(scaled), self.scaling, self.width)

    def find_box(self, bound: float) -> tuple[np.ndarray, np.ndarray]:
        """Find the smallest and the largest parameters, (D,) each: those declared, else ± bound."""
        declared = self.policy.limits or (
            np.full(self.policy.size, -np.inf),
            np.full(self.policy.size, np.inf),
        )
        low, high = declared
        return np.maximum(low, -bound), np.minimum(high, bound)

    def make_checkpoint(self, theta: np.ndarray) -> Checkpoint:
        """Make the checkpoint of what is known now."""
        return Checkpoint(self.steps, self.policy, theta)


def _import_cma() -> Any:
    try:
        import cma
    except ImportError as error:
        raise MissingPackageError("CMA-ES needs the package cma", "baselines") from error
    return cma
