"""The commands `train` and `resume`: learn, evaluate at the marks of the budget, leave files, say how to go on."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
from rich.console import Console

from ddopg.agent import DDOPG
from ddopg.callbacks import callback_scope
from ddopg.cli.evaluation import Evaluator, require_env, require_store, save_policy
from ddopg.cli.options import Resume, Train
from ddopg.cli.own_policy import choose_config, choose_own_policy, import_own_policy
from ddopg.cli.policy import measure_spread, print_parameters
from ddopg.cli.stored_command import (
    RunBudget,
    choose_budget,
    command_to_store,
    make_budget,
    module_options,
    stored_command,
)
from ddopg.envs.adapter import make
from ddopg.envs.checks import check_contract
from ddopg.envs.isolation import Isolated
from ddopg.errors import DDOPGError, RolloutError, SpaceError, require
from ddopg.evaluation import evaluate_policy
from ddopg.loggers import Logger, Logging, loggers_for
from ddopg.rollouts.scheduling import OnRay, Place, require_place
from ddopg.rollouts.workers import ray_cluster
from ddopg.storage import exports
from ddopg.support.showing import show_count
from ddopg.support.signals import TimeUp, deadline, shielded, termination_raises


def train(command: Train) -> None:
    """Learn, evaluate on the way, save; whatever happens, `resume` goes on from the last rollout."""
    budget = choose_budget(command)
    directory = command.out or _choose_directory(command)
    loggers = loggers_for(command.log, directory, command.project)  # says what is not installed, first of all
    place = _choose_place(command)
    _check_environment(command)
    agent = DDOPG(
        command.env,
        config=choose_config(command),
        policy=choose_own_policy(command),
        seed=command.seed,
        horizon=command.horizon,
        isolate=command.isolate,
    )
    agent.record(directory, command_to_store(command))
    _run(Session(agent, command, budget, budget, loggers, place))


def resume(command: Resume) -> None:
    """Go on where a run stopped: to its own budget, or to a new one counted from its beginning."""
    stored = stored_command(command.directory)
    parallel = stored.parallel if command.parallel is None else command.parallel
    # Not the run's own cluster: a file may not say where to connect.
    told = dataclasses.replace(
        stored, quiet=command.quiet, log=command.log or stored.log, parallel=parallel, ray=command.ray
    )
    first = budget = choose_budget(told)
    if command.steps is not None or command.episodes is not None:
        budget = make_budget(command.steps, command.episodes)
    loggers = loggers_for(told.log, command.directory, told.project)
    place = _choose_place(told)
    own = import_own_policy(command.policy)
    agent = DDOPG.resume(command.directory, env=command.env, policy=own, isolate=told.isolate)
    _run(Session(agent, told, first, budget, loggers, place))


class Session(NamedTuple):
    """A run on the command line, from now to its end."""

    agent: DDOPG
    command: Train
    first_budget: RunBudget  # what the run was told when it began; its evaluations are spread over it
    budget: RunBudget  # what it may spend now
    loggers: Sequence[Logger]
    place: int | Place


def _run(session: Session) -> None:
    """Spend what is left of the budget."""
    agent = session.agent
    exports.remove_drafts(require_store(agent).directory)
    try:
        with termination_raises():
            _learn(session)
            leave_files(session)
    except (KeyboardInterrupt, DDOPGError):
        with shielded():
            print(_say_how_to_go_on(agent), file=sys.stderr)
            with suppress(DDOPGError):  # what stopped the run may stop this too; the store has everything
                leave_files(session)
        raise
    _report(session)
    agent.close()


def _learn(session: Session) -> None:
    agent, command, budget = session.agent, session.command, session.budget
    evaluator = Evaluator(agent, command, session.first_budget)
    logging = Logging(*session.loggers, evaluation=evaluator)
    in_steps = budget.unit == "steps"
    left = budget.total - (agent.state.steps if in_steps else agent.state.told)
    if left <= 0:
        with callback_scope(logging, agent):  # what a kill kept from the logs
            return
    agent.learn(
        total_timesteps=left if in_steps else None,
        total_episodes=None if in_steps else left,
        callback=logging,
        progress_bar=not command.quiet,
        retries=command.retries,
        time_limit=command.time_limit,
        parallel=session.place,
    )


def leave_files(session: Session) -> None:
    """Write the incumbent, the tables and the picture."""
    agent, store = session.agent, require_store(session.agent)
    if not agent.state.memory.size:
        return
    evaluations = store.evaluations()
    save_policy(agent, evaluations)
    exports.write_tables(store.directory, store.log(), evaluations)
    from ddopg.cli.learning_curve import (
        draw_learning_curve,  # loads Matplotlib, which the learning does not need
    )

    title = f"{session.command.env or 'run'} · {session.command.preset} · seed {agent.state.seed}"
    draw_learning_curve(store.directory, title)


def _check_environment(command: Train) -> None:
    """Refuse an environment in which Gymnasium's checker finds a fault, in plain words."""
    if not command.check:
        return
    if command.isolate:
        env: gym.Env = Isolated(command.env, command.time_limit)
    else:
        env = make(command.env)
    try:
        with deadline(None if command.isolate else command.time_limit):
            found = env.check_contract() if isinstance(env, Isolated) else check_contract(env)
    except (TimeUp, RolloutError) as error:
        found = f"it does not come to an end: {error or 'a reset or a step hangs'}"
    finally:
        env.close()
    require(
        found is None,
        f"{command.env} does not keep Gymnasium's contract: {found}. Repair it, or skip the check with --no-check",
        SpaceError,
    )


def _choose_place(command: Train) -> int | Place:
    """Where the rollouts are played, if that can be; a number where the environment decides."""
    if command.ray:
        ray_cluster.require_cluster(command.ray)
        return OnRay(command.parallel, command.ray)
    require_place(command.parallel)
    return command.parallel


def _choose_directory(command: Train) -> Path:
    """Named after the task, the time and the seed; the second one of the same second gets a number."""
    name = f"{command.env.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}-seed{command.seed}"
    names = (name if k == 1 else f"{name}-{k}" for k in itertools.count(1))
    return next(path for path in map(Path("runs").joinpath, names) if not path.exists())


def _say_how_to_go_on(agent: DDOPG) -> str:
    directory = require_store(agent).directory
    modules = shlex.join(module_options(agent.environment, agent.policy.home))
    return (
        f"ddopg: {agent.state.memory.size} rollouts are stored in {directory}{_count_failures(agent)}; "
        "continue with\n"
        f"       ddopg resume {directory} {modules}".rstrip()
    )


def _count_failures(agent: DDOPG) -> str:
    """Steps of failed rollouts are not among those learnt from; they are shown beside them."""
    if not agent.failures:
        return ""
    steps = sum(failure.steps for failure in agent.failures)
    return f"; besides, {show_count(len(agent.failures), 'failed rollout')} of {show_count(steps, 'step')}"


def _report(session: Session) -> None:
    """Print what was reached, on episodes that no evaluation has seen, and where everything is."""
    agent, command = session.agent, session.command
    env, directory = require_env(agent), require_store(agent).directory
    episodes = max(command.eval_episodes, 100) if hasattr(env.unwrapped, "task") else command.eval_episodes
    returns = evaluate_policy(env, agent.incumbent, episodes, agent.state.seed + 1, command.time_limit)
    console = Console()
    console.print(
        f"\n[bold green]incumbent: mean return {returns.mean():.6g}[/] ± {measure_spread(returns):.4g} (sd), worst "
        f"{returns.min():.6g}, over {show_count(episodes, 'fresh episode')}\n"
        f"learnt from {show_count(agent.state.memory.size, 'rollout')}, "
        f"{show_count(agent.state.steps, 'environment step')}"
        f"{_count_failures(agent)}",
        highlight=False,
        soft_wrap=True,  # a terminal wraps by itself, and a file needs no line of 80 characters
    )
    print_parameters(agent.incumbent)
    places = (
        ("policy", directory / exports.POLICY),
        ("picture", directory / exports.CURVE),
        ("all files", directory),
    )
    for what, path in places:
        print(f"{what:>10}: {path}")
