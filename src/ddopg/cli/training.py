"""A training run on the command line: learn, evaluate at the marks of the budget, leave files, say how to go on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import gymnasium as gym
import numpy as np
from rich.console import Console

import ddopg.rollouts.playing as rollouts
from ddopg.agent import DDOPG
from ddopg.callbacks import hearing
from ddopg.cli.options import Train
from ddopg.core.algorithm import Info
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.core.types import Description, Evaluation
from ddopg.envs.adapter import make
from ddopg.envs.checks import complaint
from ddopg.envs.isolation import Isolated
from ddopg.errors import ArtefactError, ConfigError, DDOPGError, RolloutError, SpaceError, require
from ddopg.loggers import Logging, loggers_for
from ddopg.report import learning_curve as plots
from ddopg.rollouts.scheduling import OnRay, Place, place_of
from ddopg.rollouts.workers import ray_cluster as cluster
from ddopg.storage import exports
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.storage.stored import description_of
from ddopg.support.records import from_dict
from ddopg.support.signals import TimeUp, deadline, shielded, termination_raises

DEFAULT_STEPS = 10_000


def run(agent: DDOPG, command: Train, steps: int | None, episodes: int | None) -> None:
    """Spend what is left of the budget, which counts from the beginning of the run."""
    assert agent.store is not None
    exports.remove_drafts(agent.store.directory)
    try:
        with termination_raises():
            _learn(agent, command, steps, episodes)
            leave_files(agent, command)
    except (KeyboardInterrupt, DDOPGError):
        with shielded():
            print(_how_to_go_on(agent), file=sys.stderr)
            with suppress(DDOPGError):  # what stopped the run may stop this too; the store has everything
                leave_files(agent, command)
        raise
    _report(agent, command)
    agent.close()


def told_by(directory: Path) -> Train:
    """What the command line was told when the run began; a run begun in Python gets the usual evaluations."""
    return command_of(description_of(directory), directory)


def command_of(about: Description, directory: Path) -> Train:
    """The same from a description that was read before."""
    try:
        return from_dict({"env": about.environment or "", **about.command}, Train)
    except ConfigError as error:
        raise ArtefactError(f"{directory}: the stored command is not one of this version: {error}") from error


def check(command: Train) -> None:
    """Refuse an environment in which Gymnasium's checker finds a fault, in plain words."""
    if not command.check:
        return
    if command.isolate:
        env: gym.Env = Isolated(command.env, command.time_limit)
    else:
        env = make(command.env)
    try:
        with deadline(None if command.isolate else command.time_limit):
            found = env.complaint() if isinstance(env, Isolated) else complaint(env)
    except (TimeUp, RolloutError) as error:
        found = f"it does not come to an end: {error or 'a reset or a step hangs'}"
    finally:
        env.close()
    require(
        found is None,
        f"{command.env} does not keep Gymnasium's contract: {found}. Repair it, or train all the same: --no-check",
        SpaceError,
    )


def place(command: Train) -> Place:
    """Where the rollouts are played, if that can be."""
    if command.ray:
        cluster.check(command.ray)
    return place_of(OnRay(command.parallel, command.ray) if command.ray else command.parallel)


def step_budget(command: Train) -> int | None:
    """The one given, or the usual one if none is given in any unit."""
    return DEFAULT_STEPS if command.steps is None and command.episodes is None else command.steps


def leave_files(agent: DDOPG, command: Train) -> None:
    """The incumbent, the tables and the picture."""
    store = agent.store
    assert store is not None
    if not agent.state.memory.size:
        return
    evaluations = store.evaluations()
    save_policy(agent, evaluations)
    exports.write_tables(store.directory, store.log(), evaluations)
    title = f"{command.env or 'run'} · {command.preset} · seed {agent.state.seed}"
    plots.learning_curve(store.directory, title)


def save_policy(agent: DDOPG, evaluations: Sequence[Evaluation]) -> None:
    """The incumbent, with its evaluation if it was evaluated as it is now."""
    assert agent.store is not None
    incumbent = agent.incumbent
    if evaluations and evaluations[-1].rollout == agent.state.memory.size:
        incumbent = incumbent._replace(note=incumbent.note | {"evaluation": evaluations[-1]._asdict()})
    incumbent.save(agent.store.directory / exports.POLICY)


def returns_of(
    env: gym.Env, trained: TrainedPolicy, episodes: int, seed: int, time_limit: float | None = None
) -> np.ndarray:
    """Returns of fresh episodes, never used for learning; another seed takes others."""
    first = FIRST_EVALUATION_SEED + seed * 1_000_003
    seeds = range(first, first + episodes)
    horizon = trained.problem.horizon
    return rollouts.evaluate(env, trained.policy, trained.theta, seeds, horizon, time_limit)


class _Evaluator:
    """Evaluates the incumbent at every mark of the first budget, and at the same distances beyond it.

    Whether an evaluation is due follows from the last one in the store: after a kill between a rollout and its
    evaluation, the evaluation is made up for, with the same incumbent.
    """

    def __init__(self, agent: DDOPG, command: Train) -> None:
        assert agent.store is not None
        self._store, self._command = agent.store, command
        earlier = self._store.evaluations()
        self._reached = self._marks(earlier[-1].rollout, earlier[-1].steps) if earlier else 0
        self.latest: Evaluation | None = None
        if agent.state.memory.size:
            self(agent)

    def __call__(self, agent: DDOPG, info: Info | None = None) -> None:
        state = agent.state
        reached = self._marks(state.memory.size, state.steps)
        if reached == self._reached:
            return
        returns = _patient_returns(agent, self._command)
        evaluation = Evaluation.of(state.memory.size, state.steps, returns)
        with shielded():
            self._store.evaluation(evaluation)
            self._reached, self.latest = reached, evaluation
            save_policy(agent, [evaluation])

    def _marks(self, rollouts: int, steps: int) -> int:
        """How many marks were passed by then."""
        episodes, budget = self._command.episodes, step_budget(self._command)
        spent, total = (rollouts, episodes) if episodes is not None else (steps, budget)
        assert total is not None
        return spent * self._command.eval_points // total


def _learn(agent: DDOPG, command: Train, steps: int | None, episodes: int | None) -> None:
    assert agent.store is not None
    loggers = loggers_for(command.log, agent.store.directory, command.project)
    logging = Logging(*loggers, evaluation=_Evaluator(agent, command))
    spent = agent.state.steps if steps is not None else agent.state.told
    left = (steps if steps is not None else episodes or 0) - spent
    if left <= 0:
        with hearing(logging, agent):  # what a kill kept from the logs
            return
    agent.learn(
        total_timesteps=left if steps is not None else None,
        total_episodes=left if steps is None else None,
        callback=logging,
        progress_bar=not command.quiet,
        retries=command.retries,
        time_limit=command.time_limit,
        parallel=place(command),
    )


def _patient_returns(agent: DDOPG, command: Train) -> np.ndarray:
    """An evaluation, tried as often as a rollout would be."""
    for _ in range(command.retries):
        with suppress(RolloutError):
            return _evaluated(agent, command)
    return _evaluated(agent, command)


def _evaluated(agent: DDOPG, command: Train) -> np.ndarray:
    episodes, seed = command.eval_episodes, agent.state.seed
    return returns_of(_env(agent), agent.incumbent, episodes, seed, command.time_limit)


def _env(agent: DDOPG) -> gym.Env:
    require(agent.env is not None, "this run has no environment to train on; go on with it by ask and tell")
    assert agent.env is not None
    return agent.env


def _how_to_go_on(agent: DDOPG) -> str:
    assert agent.store is not None
    module = f" --env {agent.environment}" if agent.environment and ":" in agent.environment else ""
    return (
        f"ddopg: {agent.state.memory.size} rollouts are safe in {agent.store.directory}{_failed(agent)}; go on with\n"
        f"       ddopg resume {agent.store.directory}{module}"
    )


def _failed(agent: DDOPG) -> str:
    """Steps of failed rollouts are not among those learnt from; they are shown beside them."""
    if not agent.failures:
        return ""
    steps = sum(failure.steps for failure in agent.failures)
    return f"; besides, {len(agent.failures):,} failed rollouts of {steps:,} steps"


def _report(agent: DDOPG, command: Train) -> None:
    env, directory = _env(agent), agent.store.directory  # type: ignore[union-attr]
    episodes = max(command.eval_episodes, 100) if hasattr(env.unwrapped, "task") else command.eval_episodes
    returns = returns_of(env, agent.incumbent, episodes, agent.state.seed + 1, command.time_limit)
    console = Console()
    console.print(
        f"\n[bold green]incumbent: mean return {returns.mean():.6g}[/] ± {returns.std():.4g} (sd), worst "
        f"{returns.min():.6g}, over {episodes} fresh episodes\n"
        f"learnt from {agent.state.memory.size:,} rollouts, {agent.state.steps:,} environment steps"
        f"{_failed(agent)}",
        highlight=False,
    )
    places = (
        ("policy", directory / exports.POLICY),
        ("picture", directory / exports.CURVE),
        ("all files", directory),
    )
    for what, path in places:
        console.print(f"{what:>10}: {path}", highlight=False, soft_wrap=True)
