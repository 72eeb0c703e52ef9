"""What the commands do: the outermost shell, where files, terminals and environments meet."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
from rich.console import Console

import ddopg.rollout as rollouts
from ddopg import baselines, deploy, plots, video
from ddopg._version import __version__
from ddopg.agent import DDOPG, check_budget
from ddopg.algorithm import Info
from ddopg.artefact import TrainedPolicy, load
from ddopg.compilation import keep_compiled_programs
from ddopg.envs.gym_adapter import make, problem_of
from ddopg.errors import ArtefactError, SpaceError, require
from ddopg.experiments import bench as benchmark
from ddopg.experiments import jobs, workers
from ddopg.options import Bench, Evaluate, Export, Play, Train
from ddopg.plain import to_dict
from ddopg.rollout import FIRST_EVALUATION_SEED
from ddopg.runs import RunDirectory, policy_file

DEFAULT_STEPS = 10_000


def train(command: Train) -> None:
    """Learn, evaluate on the way, save; what was learnt is saved however the run ends."""
    check_budget(_step_budget(command), command.episodes)
    console = Console()
    env = make(command.env)
    agent = DDOPG(env, config=command.config, seed=command.seed, horizon=command.horizon)
    run = RunDirectory(command.out or _new_directory(command), _description(command))
    try:
        agent.learn(
            total_timesteps=_step_budget(command),
            total_episodes=command.episodes,
            callback=_recorder(command, run, env),
            progress_bar=not command.quiet,
        )
    finally:
        if agent.state.memory.size:
            agent.save(run.policy)
            plots.learning_curve(run.path, f"{command.env} · {command.preset} · seed {command.seed}")
    _report(console, command, run, env, agent)


def evaluate(command: Evaluate) -> None:
    """Returns of a saved policy on fresh episodes."""
    require(command.episodes >= 1, f"--episodes must be at least 1, got {command.episodes}")
    keep_compiled_programs()
    trained = load(policy_file(command.source))
    env = _environment(trained, command.env)
    returns = _returns(env, trained, command.episodes, command.seed)
    if command.json:
        print(json.dumps(_summary(env, returns)))
        return
    print(
        f"mean return {returns.mean():.6g} ± {returns.std():.4g} (sd), worst {returns.min():.6g}, "
        f"best {returns.max():.6g}, over {len(returns)} fresh episodes"
    )


def play(command: Play) -> None:
    """One episode as a video file or in a window."""
    trained = load(policy_file(command.source))
    video.render_without_a_display()
    env = _environment(trained, command.env, render_mode="rgb_array")
    seed = FIRST_EVALUATION_SEED + command.seed
    pictures = video.frames(env, trained.policy, trained.theta, seed, trained.problem.horizon)
    if command.video is None:
        video.show(pictures, video.playback_rate(env))
    else:
        print(video.write(command.video, pictures, video.playback_rate(env)))


def export(command: Export) -> None:
    """Write the policy in the format that the file's name asks for."""
    require(
        command.target.suffix == ".onnx",
        f"the file's name must end in .onnx, got {command.target}; a machine with only NumPy reads the policy file "
        "itself with numpy_policy.py",
    )
    path = deploy.to_onnx(load(policy_file(command.source)), command.target)
    Console().print(f"policy: {path}", highlight=False, soft_wrap=True)


def bench(command: Bench) -> int:
    """Run what is missing, then print the statistics; 1 if a job failed."""
    require(command.workers >= 1, f"--workers must be at least 1, got {command.workers}")
    wanted = jobs.plan(
        command.envs, command.methods, command.seeds, command.steps, episodes=command.eval_episodes
    )
    jobs.check(wanted)
    failures = benchmark.complete(wanted, command.out, _executor(command), command.quiet)
    console = Console()
    benchmark.print_table(wanted, command.out, console)
    console.print(f"records: {command.out / benchmark.RECORDS}", highlight=False, soft_wrap=True)
    for failure in failures:
        print(
            f"ddopg: failed: {failure.job}: {failure.reason.strip().splitlines()[-1]}\n"
            f"       see {benchmark.failure_file(command.out, failure.job)}; the same command tries it again",
            file=sys.stderr,
        )
    return 1 if failures else 0


def _executor(command: Bench) -> benchmark.Execute:
    if command.ray:
        return partial(workers.run_on_ray, address=command.ray)
    for name in command.methods:
        baselines.check_packages(baselines.method(name).kind)
    return partial(workers.run_locally, workers=command.workers)


def _recorder(command: Train, run: RunDirectory, env: gym.Env) -> Callable[[DDOPG, Info], None]:
    """Writes each rollout down, and evaluates and saves the incumbent at every mark of the budget."""
    budget = check_budget(_step_budget(command), command.episodes)
    marks = list(np.linspace(0, budget, command.eval_points + 1)[1:])

    def record(agent: DDOPG, info: Info) -> None:
        run.rollout(info)
        spent = info.rollout if command.episodes else info.steps
        if not marks or spent < marks[0]:
            return
        while marks and spent >= marks[0]:
            marks.pop(0)
        agent.save(run.policy)
        run.evaluation(info, _returns(env, agent.incumbent, command.eval_episodes, command.seed))

    return record


def _returns(env: gym.Env, trained: TrainedPolicy, episodes: int, seed: int) -> np.ndarray:
    first = FIRST_EVALUATION_SEED + seed * 1_000_003
    seeds = range(first, first + episodes)
    return rollouts.evaluate(env, trained.policy, trained.theta, seeds, trained.problem.horizon)


def _report(console: Console, command: Train, run: RunDirectory, env: gym.Env, agent: DDOPG) -> None:
    episodes = max(command.eval_episodes, 100) if hasattr(env.unwrapped, "task") else command.eval_episodes
    returns = _returns(env, agent.incumbent, episodes, command.seed + 1)
    console.print(
        f"\n[bold green]incumbent: mean return {returns.mean():.6g}[/] ± {returns.std():.4g} (sd), worst "
        f"{returns.min():.6g}, over {episodes} fresh episodes\n"
        f"learnt from {agent.state.memory.size:,} rollouts, {agent.state.steps:,} environment steps",
        highlight=False,
    )
    for what, path in (("policy", run.policy), ("picture", run.curve), ("all files", run.path)):
        console.print(f"{what:>10}: {path}", highlight=False, soft_wrap=True)


def _summary(env: gym.Env, returns: np.ndarray) -> dict[str, object]:
    return {
        "environment": env.spec.id if env.spec else None,
        "episodes": len(returns),
        "mean": returns.mean(),
        "std": returns.std(),
        "worst": returns.min(),
        "best": returns.max(),
        "returns": returns.tolist(),
        "version": __version__,
    }


def _environment(trained: TrainedPolicy, name: str | None, **options: str) -> gym.Env:
    """The environment the policy was learnt on, or another one whose spaces fit."""
    chosen = name or trained.environment
    if chosen is None:
        raise ArtefactError("the policy does not say which environment it was learnt on; give one with --env")
    env = make(chosen, **options)
    problem, own = problem_of(env, trained.problem.horizon), trained.problem
    require(
        (problem.observation_size, problem.action_size) == (own.observation_size, own.action_size),
        f"the policy maps {own.observation_size} observations to {own.action_size} actions, {chosen} has "
        f"{problem.observation_size} and {problem.action_size}; choose the environment it was learnt on",
        SpaceError,
    )
    return env


def _step_budget(command: Train) -> int | None:
    return DEFAULT_STEPS if command.steps is None and command.episodes is None else command.steps


def _new_directory(command: Train) -> Path:
    name = command.env.replace("/", "-")
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-seed{command.seed}"


def _description(command: Train) -> dict[str, object]:
    told = {f.name: getattr(command, f.name) for f in dataclasses.fields(command) if f.name != "config"}
    return {
        "version": __version__,
        "command": {k: str(v) if isinstance(v, Path) else v for k, v in told.items()},
        "config": to_dict(command.config),
    }
