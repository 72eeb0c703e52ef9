"""PGPE of evosax: an evolution strategy with a step of limited length, on the same policies and rollouts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ddopg.baselines.base import Checkpoint, expect_as_libraries_do
from ddopg.baselines.search import Trial
from ddopg.baselines.settings import PGPESettings
from ddopg.core.seeding import draw_seed
from ddopg.errors import MissingPackageError
from ddopg.policies import Policy


def pgpe(
    env: gym.Env, seed: int, settings: PGPESettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """The mean of the search distribution counts; it moves once per generation."""
    _import_evosax()
    trial = Trial(env, seed, settings, network)
    yield from trial.play_probes()
    search, key = Search(trial.start, settings), jax.random.key(draw_seed(seed, 0, "pgpe"))
    while True:
        key, key_ask, key_tell = jax.random.split(key, 3)
        asked, costs = search.ask(key_ask), []
        for scaled in asked:
            yield trial.make_checkpoint(trial.to_raw(search.mean))
            costs.append(-trial.play(trial.to_raw(scaled)))
        search.tell(key_tell, asked, costs)
        trial.rescale()


def choose_population(size: int) -> int:
    """4 + ⌊3 ln D⌋ as CMA-ES has it, made even: rollouts come in pairs."""
    default = 4 + int(3 * math.log(size))
    return default + default % 2


class Search:
    """The library's strategy and its state."""

    def __init__(self, start: np.ndarray, settings: PGPESettings) -> None:
        evosax = _import_evosax()
        longest = settings.speed * settings.std * math.sqrt(len(start))
        with expect_as_libraries_do():
            self._strategy = evosax.algorithms.PGPE(
                settings.population or choose_population(len(start)),
                jnp.asarray(start),
                optimizer=evosax.core.optimizer.clipup(learning_rate=longest / 2, max_velocity=longest),
            )
            self._params = self._strategy.default_params.replace(std_init=settings.std)
            self._state = self._strategy.init(jax.random.key(0), jnp.asarray(start), self._params)

    @property
    def mean(self) -> np.ndarray:
        """Of the distribution, (D,)."""
        return np.asarray(self._state.mean)

    def ask(self, key: jax.Array) -> np.ndarray:
        """Draw a generation, (N, D)."""
        with expect_as_libraries_do():
            asked, self._state = self._strategy.ask(key, self._state, self._params)
        return np.asarray(asked)

    def tell(self, key: jax.Array, asked: np.ndarray, costs: list[float]) -> None:
        """Move the distribution; lower costs are better."""
        with expect_as_libraries_do():
            costs_ = jnp.asarray(costs, jnp.float32)
            self._state, _ = self._strategy.tell(key, jnp.asarray(asked), costs_, self._state, self._params)


def _import_evosax() -> Any:
    try:
        import evosax.algorithms
        import evosax.core.optimizer
    except ImportError as error:
        raise MissingPackageError("PGPE needs the package evosax", "baselines") from error
    return evosax
