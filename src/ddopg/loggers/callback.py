"""`Logging`: an ordinary callback of `learn` that feeds loggers."""

from __future__ import annotations

import logging
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
from ddopg.loggers.naming import WINDOW, timing, values_of
from ddopg.storage.rows import named
from ddopg.support.records import to_dict

_voice = logging.getLogger("ddopg")


class Evaluating(Protocol):
    """A callback that evaluates the incumbent now and then, such as `EvalCallback`."""

    latest: Evaluation | None

    def __call__(self, agent: Any, info: Info) -> bool | None:
        """After each rollout."""


class Logging(BaseCallback):
    """Writes what is known after each rollout to all loggers, at the exact number of environment steps.

    A logger that fails (the disk is full, the network lost) is warned of once and left out until the next call of
    `learn`: it costs the run nothing. What a log lacks at the beginning, because of a kill or a failure or because
    nobody kept it yet, it gets from the run store. `evaluation` is called before the values are written, so that its
    own stand at the rollout they belong to; give it here, not to `learn`.
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
        about, past = about_run(agent), history_of(agent)
        self._began, self._first = time.monotonic(), agent.state.steps
        self._rows = deque(_rows_of(agent), maxlen=WINDOW)
        self._open = list(self.loggers)
        for logger in self.loggers:
            self._attempt(logger, partial(_catch_up, logger, about, past))

    def _on_step(self) -> bool:
        going_on = self.evaluation is None or self.evaluation(self.model, self.info) is not False
        self._rows.append(named(self.info))
        agent: Any = self.model
        latest = self.evaluation.latest if self.evaluation is not None else None
        speed = timing(self.num_timesteps - self._first, time.monotonic() - self._began)
        values = {**values_of(tuple(self._rows), len(agent.failures), latest), **speed}
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
            _voice.warning(
                "ddopg: %s failed: %s. The run goes on without it; from the run store, the next start completes it",
                type(logger).__name__,
                reason,
            )
            with suppress(Exception):
                logger.close()


def about_run(agent: Any) -> dict[str, Any]:
    """What the run is about: hyperparameters by the names of the command line's options."""
    return {
        "environment": agent.environment,
        "horizon": agent.problem.horizon,
        "seed": agent.state.seed,
        "version": __version__,
        **to_dict(agent.config),
    }


def history_of(agent: Any) -> list[tuple[int, Values]]:
    """(steps, values) of every rollout in the run store; nothing without one."""
    if agent.store is None:
        return []
    rows = agent.store.log()
    # `learn` tells proposals in their order: number k, which may fail before, at rollout k + 1 or later.
    failed = [sum(failure.proposal < row["rollout"] for failure in agent.failures) for row in rows]
    evaluations = {evaluation.rollout: evaluation for evaluation in agent.store.evaluations()}
    return [
        (
            row["steps"],
            values_of(rows[max(0, i - WINDOW) : i], failed[i - 1], evaluations.get(row["rollout"])),
        )
        for i, row in enumerate(rows, start=1)
    ]


def _rows_of(agent: Any) -> list[Mapping[str, Any]]:
    """As much of the memory's rows as the means need."""
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
