"""`Logging`: an ordinary callback of `learn` that feeds loggers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from ddopg._version import __version__
from ddopg.callbacks import BaseCallback
from ddopg.core.algorithm import Info
from ddopg.core.types import Evaluation
from ddopg.errors import require
from ddopg.loggers.base import ROLLOUT, Logger, Values
from ddopg.loggers.naming import WINDOW, collect_values, measure_speed
from ddopg.storage.rows import info_to_dict
from ddopg.support.journal import LOGGER
from ddopg.support.records import to_dict


class Evaluating(Protocol):
    """A callback that evaluates the incumbent now and then, such as `EvalCallback`."""

    latest: Evaluation | None

    def __call__(self, agent: Any, info: Info) -> bool | None:
        """After each rollout."""


class Logging(BaseCallback):
    """Writes what is known after each rollout to all loggers, at the exact number of environment steps.

    A logger that fails (the disk is full, the network lost) is warned of once and left out until the next call of
    `learn`: it costs the run nothing. What a log lacks at the beginning, because of a kill or a failure or because
    nobody kept it yet, it gets from the run store.

    Args:
        *loggers: Objects with the three methods of `Logger`.
        evaluation: An `EvalCallback` whose results are logged too. Give it here, not to `learn`: it is called before
            the values are written, so that its own stand at the rollout they belong to.

    Raises:
        ConfigError: `evaluation` is no such callback.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import ddopg
        >>> from ddopg.callbacks import EvalCallback
        >>> from ddopg.loggers import CsvLogger, Logging
        >>> agent = ddopg.DDOPG("cartpole", seed=16)
        >>> evaluation = EvalCallback(ddopg.envs.TASKS["cartpole"].make(), n_eval_episodes=2, eval_freq=1)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     _ = agent.learn(total_episodes=3, callback=Logging(CsvLogger(directory), evaluation=evaluation))
        ...     sorted(path.name for path in Path(directory).iterdir())
        ['evaluation.csv', 'progress.csv']
    """

    def __init__(self, *loggers: Logger, evaluation: Evaluating | None = None) -> None:
        super().__init__()
        require(
            evaluation is None or (callable(evaluation) and hasattr(evaluation, "latest")),
            f"evaluation must be an EvalCallback, got {evaluation!r}",
        )
        self.loggers, self.evaluation = loggers, evaluation
        self._open: list[Logger] = []

    def _on_training_start(self) -> None:
        if isinstance(self.evaluation, BaseCallback):
            self.evaluation.on_training_start(self.model)
        agent: Any = self.model
        about, past = describe_run(agent), read_history(agent)
        self._began, self._first = time.monotonic(), agent.state.steps
        self._rows = deque(_take_recent_rows(agent), maxlen=WINDOW)
        self._open = list(self.loggers)
        for logger in self.loggers:
            self._attempt(logger, partial(_catch_up, logger, about, past))

    @property
    def latest_evaluation(self) -> Evaluation | None:
        """The last evaluation, if there are evaluations."""
        return None if self.evaluation is None else self.evaluation.latest

    def _on_step(self) -> bool:
        going_on = self.evaluation is None or self.evaluation(self.model, self.info) is not False
        self._rows.append(info_to_dict(self.info))
        agent: Any = self.model
        latest = self.evaluation.latest if self.evaluation is not None else None
        speed = measure_speed(self.num_timesteps - self._first, time.monotonic() - self._began)
        values = {**collect_values(tuple(self._rows), len(agent.failures), latest), **speed}
        for logger in tuple(self._open):
            self._attempt(logger, partial(logger.write, values, self.num_timesteps))
        return going_on

    def _on_training_end(self) -> None:
        if isinstance(self.evaluation, BaseCallback):
            self.evaluation.on_training_end()
        for logger in tuple(self._open):
            self._attempt(logger, logger.close)

    def _attempt(self, logger: Logger, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # whatever it is: logs are views, the run is worth more
            self._open.remove(logger)
            reason = str(error).strip() or type(error).__name__
            LOGGER.warning(
                "ddopg: %s failed: %s. The run continues without it; the next start completes it from the run store",
                type(logger).__name__,
                reason,
            )
            with suppress(Exception):
                logger.close()


def describe_run(agent: Any) -> dict[str, Any]:
    """Describe what the run is about: environment, seed, version and the configuration."""
    return {
        "environment": agent.environment,
        "horizon": agent.problem.horizon,
        "seed": agent.state.seed,
        "version": __version__,
        **to_dict(agent.config),
    }


def read_history(agent: Any) -> list[tuple[int, Values]]:
    """Read (steps, values) of every rollout in the run store; nothing without one."""
    if agent.store is None:
        return []
    rows = agent.store.log()
    # `learn` tells proposals in their order: number k, which may fail before, at rollout k + 1 or later.
    failed = [sum(failure.proposal < row["rollout"] for failure in agent.failures) for row in rows]
    evaluations = {evaluation.rollout: evaluation for evaluation in agent.store.evaluations()}
    return [
        (
            row["steps"],
            collect_values(rows[max(0, i - WINDOW) : i], failed[i - 1], evaluations.get(row["rollout"])),
        )
        for i, row in enumerate(rows, start=1)
    ]


def _take_recent_rows(agent: Any) -> list[Mapping[str, Any]]:
    """Take as many rows from the memory as the means need."""
    memory = agent.state.memory
    lengths = [trajectory.length for trajectory in memory.trajectories[-WINDOW:]]
    return [
        {"return": r, "length": n} for r, n in zip(memory.returns[-WINDOW:].tolist(), lengths, strict=True)
    ]


def _catch_up(logger: Logger, about: Mapping[str, Any], past: list[tuple[int, Values]]) -> None:
    reached = logger.begin(about)
    for step, values in past:
        if values[ROLLOUT] > reached:
            logger.write(values, step)
