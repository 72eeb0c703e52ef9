"""The Gaussian-process sampler of Optuna, on the same policies and rollouts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.baselines.base import Checkpoint
from ddopg.baselines.search import Trial
from ddopg.baselines.settings import OptunaSettings
from ddopg.core.seeding import draw_seed
from ddopg.errors import MissingPackageError
from ddopg.policies import Policy


def optuna_gp(
    env: gym.Env, seed: int, settings: OptunaSettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """One rollout per trial; the best trial counts."""
    optuna = _import_optuna()
    trial = Trial(env, seed, settings, network)
    yield from trial.play_probes()
    low, high = trial.find_box(settings.bound)
    studied = Study(optuna, low, high, settings, seed)
    best, highest, asked = trial.start, -math.inf, studied.ask(trial.start)
    while True:
        yield trial.make_checkpoint(trial.to_raw(best))
        value = trial.play(trial.to_raw(asked))
        studied.tell(value)
        if value > highest:
            best, highest = asked, value
        asked = studied.ask()


class Study:
    """A study that begins anew with its best trials when it has become large."""

    def __init__(
        self, optuna: Any, low: np.ndarray, high: np.ndarray, settings: OptunaSettings, seed: int
    ) -> None:
        self._optuna, self._settings, self._seed = optuna, settings, seed
        self._ranges = {
            f"{i:04}": optuna.distributions.FloatDistribution(float(bottom), float(top))
            for i, (bottom, top) in enumerate(zip(low, high, strict=True))
        }
        self._number = 0
        self._study = self._begin([])

    def ask(self, start: np.ndarray | None = None) -> np.ndarray:
        """Ask for parameters, (D,); the given ones, if there are some."""
        if len(self._study.get_trials(deepcopy=False)) >= self._settings.trials:
            self._study = self._begin(self._find_best())
        if start is not None:
            self._study.enqueue_trial(dict(zip(self._ranges, map(float, start), strict=True)))
        self._trial = self._study.ask(self._ranges)
        return np.array([self._trial.params[name] for name in self._ranges])

    def tell(self, value: float) -> None:
        """Tell the return of what was asked for last."""
        self._study.tell(self._trial, value)

    def _find_best(self) -> list[Any]:
        """The best trials, in the order in which they were run."""
        trials = self._study.get_trials(deepcopy=False)
        best = sorted(trials, key=lambda trial: trial.value, reverse=True)[: self._settings.kept]
        return sorted(best, key=lambda trial: trial.number)

    def _begin(self, trials: list[Any]) -> Any:
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._number += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.GPSampler(seed=draw_seed(self._seed, self._number, "optuna") % 2**32)
        study = optuna.create_study(sampler=sampler, direction="maximize")
        study.add_trials(trials)
        return study


def _import_optuna() -> Any:
    """Import Optuna and what its sampler needs, with one thread."""
    try:
        import optuna
        import torch
    except ImportError as error:
        raise MissingPackageError("Optuna's Gaussian process needs optuna and torch", "baselines") from error
    torch.set_num_threads(1)
    return optuna
