"""Evaluations that the command line makes of the incumbent, at the marks of a budget."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import gymnasium as gym
import numpy as np

from ddopg.agent import DDOPG
from ddopg.cli.options import Train
from ddopg.cli.stored_command import RunBudget
from ddopg.core.algorithm import Info
from ddopg.core.types import Evaluation
from ddopg.errors import RolloutError, require_given
from ddopg.evaluation import evaluate_policy
from ddopg.storage import exports
from ddopg.storage.run_store import RunStore
from ddopg.support.journal import log_evaluation
from ddopg.support.signals import shielded

NEVER = -1  # marks that a run has passed whose incumbent was never evaluated


def save_policy(agent: DDOPG, evaluations: Sequence[Evaluation]) -> None:
    """Write the incumbent into the run, with its evaluation if it was evaluated as it is now."""
    incumbent = agent.incumbent
    if evaluations and evaluations[-1].rollout == agent.state.memory.size:
        incumbent = incumbent._replace(note=incumbent.note | {"evaluation": evaluations[-1]._asdict()})
    incumbent.save(require_store(agent).directory / exports.POLICY)


def require_store(agent: DDOPG) -> RunStore:
    """The store of a run that is recorded, as all runs of the command line are."""
    return require_given(agent.store, "this run is not recorded; begin it with a directory")


def require_env(agent: DDOPG) -> gym.Env:
    """The environment of a run that has one."""
    return require_given(agent.env, "this run has no environment to train on; go on with it by ask and tell")


class Evaluator:
    """Evaluates the incumbent after the first rollout, at every mark of the first budget, and as far apart beyond it.

    Whether an evaluation is due follows from the last one in the store: after a kill between a rollout and its
    evaluation, the evaluation is made up for, with the same incumbent.

    Args:
        agent: whose incumbent is evaluated.
        command: how many evaluations there are, and of how many episodes.
        budget: what the run was told first.
    """

    def __init__(self, agent: DDOPG, command: Train, budget: RunBudget) -> None:
        self._store, self._command, self._budget = require_store(agent), command, budget
        earlier = self._store.evaluations()
        wanted = command.eval_points > 0
        self._reached = NEVER if wanted else 0
        if earlier:
            self._reached = self._count_marks(earlier[-1].rollout, earlier[-1].steps)
        self.latest: Evaluation | None = earlier[-1] if earlier else None
        if agent.state.memory.size:
            self(agent)

    def __call__(self, agent: DDOPG, info: Info | None = None) -> None:
        """Evaluate where a mark was passed."""
        state = agent.state
        reached = self._count_marks(state.memory.size, state.steps)
        if reached == self._reached:
            return
        returns = self._evaluate_patiently(agent)
        evaluation = Evaluation.of(state.memory.size, state.steps, returns)
        with shielded():
            self._store.add_evaluation(evaluation)
            self._reached, self.latest = reached, evaluation
            log_evaluation(evaluation)
            save_policy(agent, [evaluation])

    def _count_marks(self, rollouts: int, steps: int) -> int:
        """How many marks were passed by then."""
        spent = steps if self._budget.unit == "steps" else rollouts
        return spent * self._command.eval_points // self._budget.total

    def _evaluate_patiently(self, agent: DDOPG) -> np.ndarray:
        """An evaluation, tried as often as a rollout would be."""
        for _ in range(self._command.retries):
            with suppress(RolloutError):
                return self._evaluate(agent)
        return self._evaluate(agent)

    def _evaluate(self, agent: DDOPG) -> np.ndarray:
        episodes, seed = self._command.eval_episodes, agent.state.seed
        return evaluate_policy(require_env(agent), agent.incumbent, episodes, seed, self._command.time_limit)
