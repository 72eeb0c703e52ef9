"""What the commands do: the outermost shell, where files, terminals and environments meet."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
from rich.console import Console

from ddopg import baselines, minari
from ddopg import report as pages
from ddopg._version import __version__
from ddopg.agent import DDOPG
from ddopg.cli import training
from ddopg.cli.options import Bench, Evaluate, Export, Figure, Play, Report, Resume, Train, Tune
from ddopg.cli.reproduce import recipe
from ddopg.cli.robot import add, ask, begin, tell
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.envs.adapter import known, make, problem_of
from ddopg.errors import ArtefactError, MissingPackageError, SpaceError, require
from ddopg.experiments import figures
from ddopg.experiments.bench import benchmark as benchmark
from ddopg.experiments.bench import jobs, workers
from ddopg.loggers import loggers_for
from ddopg.minari.library import KEY
from ddopg.rollouts import video
from ddopg.rollouts.budget import check_budget
from ddopg.storage import onnx as deploy
from ddopg.storage.exports import policy_file
from ddopg.storage.policy_file import TrainedPolicy, load
from ddopg.support.compilation import keep_compiled_programs

__all__ = [
    "add",
    "ask",
    "begin",
    "bench",
    "evaluate",
    "export",
    "figure",
    "play",
    "report",
    "resume",
    "tell",
    "train",
    "tune",
]


def train(command: Train) -> None:
    """Learn, evaluate on the way, save; whatever happens, `resume` goes on from the last rollout."""
    check_budget(training.step_budget(command), command.episodes)
    directory = command.out or _new_directory(command)
    loggers_for(command.log, directory, command.project)  # says what is not installed, first of all
    training.place(command)
    training.check(command)
    agent = DDOPG(
        command.env,
        config=command.config,
        seed=command.seed,
        horizon=command.horizon,
        isolate=command.isolate,
    )
    agent.record(directory, _told(command))
    training.run(agent, command, training.step_budget(command), command.episodes)


def resume(command: Resume) -> None:
    """Go on where a run stopped: to its own budget, or to a new one counted from its beginning."""
    told = training.told_by(command.directory)
    parallel = told.parallel if command.parallel is None else command.parallel
    # Not the run's own cluster: a file may not say where to connect.
    told = dataclasses.replace(
        told, quiet=command.quiet, log=command.log or told.log, parallel=parallel, ray=command.ray
    )
    loggers_for(told.log, command.directory, told.project)
    training.place(told)
    agent = DDOPG.resume(command.directory, env=command.env, isolate=told.isolate)
    steps, episodes = command.steps, command.episodes
    if steps is None and episodes is None:
        steps, episodes = training.step_budget(told), told.episodes
    check_budget(steps, episodes)
    training.run(agent, told, steps, episodes)


def evaluate(command: Evaluate) -> None:
    """Returns of a saved policy on fresh episodes."""
    require(command.episodes >= 1, f"--episodes must be at least 1, got {command.episodes}")
    keep_compiled_programs()
    trained = load(policy_file(command.source))
    env = _environment(trained, command.env)
    returns = training.returns_of(env, trained, command.episodes, command.seed)
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
    """Write the policy in the format that the file's name asks for, or the rollouts as a data set."""
    require(
        (command.target is None) != (command.minari is None),
        "say what to write: a file, as in ddopg export DIR policy.onnx, or a data set, as in "
        "ddopg export DIR --minari mine/cartpole-v0",
    )
    if command.minari is not None:
        _export_rollouts(command, command.minari)
        return
    assert command.target is not None
    require(
        command.target.suffix == ".onnx",
        f"the file's name must end in .onnx, got {command.target}; a machine with only NumPy reads the policy file "
        "itself with numpy_policy.py",
    )
    path = deploy.to_onnx(load(policy_file(command.source)), command.target)
    Console().print(f"policy: {path}", highlight=False, soft_wrap=True)


def _export_rollouts(command: Export, name: str) -> None:
    require(
        command.source.is_dir(),
        f"a data set is made of the rollouts of a run, got {command.source}; give the directory of a run",
        ArtefactError,
    )
    dataset = minari.export(
        command.source, name, command.env, overwrite=command.overwrite, author=command.author
    )
    last = dataset.storage.metadata[KEY]["last_observations"]
    Console().print(
        f"{dataset.total_episodes:,} episodes, {dataset.total_steps:,} steps; last observations: "
        f"{last['replayed']:,} replayed, {last['repeated']:,} repeated\n"
        f"data set: {name} in {dataset.spec.data_path}",
        highlight=False,
        soft_wrap=True,
    )


def report(command: Report) -> None:
    """One page of all the runs."""
    require(len(command.directories) > 0, "give at least one run: ddopg report DIR... -o report.html")
    keep_compiled_programs()
    path = pages.write(command.directories, command.out, time.strftime("%Y-%m-%d %H:%M"), recipe)
    Console().print(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)", highlight=False, soft_wrap=True)


def bench(command: Bench) -> int:
    """Run what is missing, then print the statistics; 1 if a job failed."""
    require(
        command.workers is None or command.workers >= 1,
        f"--workers must be at least 1, got {command.workers}",
    )
    wanted = jobs.plan(
        command.envs, command.methods, command.seeds, command.steps, episodes=command.eval_episodes
    )
    jobs.check(wanted)
    failures = benchmark.complete(wanted, command.out, _executor(command), command.quiet)
    console = Console()
    benchmark.print_table(wanted, command.out, console)
    console.print(f"records: {command.out / benchmark.RECORDS}", highlight=False, soft_wrap=True)
    return _report_failures(failures, command.out)


def tune(command: Tune) -> int:
    """Search for better settings, then compare them with the preset; 1 if a run of the comparison failed."""
    try:
        from ddopg.cli import tune as tuning
    except ImportError as error:
        raise MissingPackageError("ddopg tune needs the package optuna", "tune") from error
    return _report_failures(tuning.run(command), tuning.home_of(command))


def figure(command: Figure) -> int:
    """Compute what is missing of a figure's data, then draw it; 1 if a run failed."""
    require(command.workers >= 1, f"--workers must be at least 1, got {command.workers}")
    keep_compiled_programs()
    chosen = figures.figure(command.name)
    data = command.data or figures.home_of_data(command.name, command.quick)
    failures = []
    if not command.redraw:
        execute = partial(workers.run_locally, workers=command.workers)
        failures = chosen.run(data, command.quick, execute, command.quiet)
    pictures = chosen.plot(data, command.out, command.quick)
    console = Console()
    for group in benchmark.same_budgets(chosen.plan(command.quick)):
        benchmark.print_table(group, data, console)
    for what, path in (("data", data), *(("picture", path) for path in pictures)):
        console.print(f"{what:>8}: {path}", highlight=False, soft_wrap=True)
    return _report_failures(failures, data)


def _report_failures(failures: list[workers.Failed], out: Path) -> int:
    for failure in failures:
        print(
            f"ddopg: failed: {failure.job}: {failure.reason.strip().splitlines()[-1]}\n"
            f"       see {benchmark.failure_file(out, failure.job)}; the same command tries it again",
            file=sys.stderr,
        )
    return 1 if failures else 0


def _executor(command: Bench) -> benchmark.Execute:
    if command.ray:
        address, at_once = command.ray, command.workers
        return lambda some: workers.run_all(some, workers.on_ray(address, at_once or len(some)))
    for name in command.methods:
        baselines.check_packages(baselines.find_method(name).kind)
    return partial(workers.run_locally, workers=command.workers or 1)


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
    env = make(name or known(chosen, "--env"), **options)
    problem, own = problem_of(env, trained.problem.horizon), trained.problem
    require(
        (problem.observation_size, problem.action_size) == (own.observation_size, own.action_size),
        f"the policy maps {own.observation_size} observations to {own.action_size} actions, {chosen} has "
        f"{problem.observation_size} and {problem.action_size}; choose the environment it was learnt on",
        SpaceError,
    )
    return env


def _new_directory(command: Train) -> Path:
    """Named after the task, the time and the seed; the second one of the same second gets a number."""
    name = f"{command.env.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}-seed{command.seed}"
    names = (name if k == 1 else f"{name}-{k}" for k in itertools.count(1))
    return next(path for path in map(Path("runs").joinpath, names) if not path.exists())


def _told(command: Train) -> dict[str, object]:
    """What `resume` must know again; the configuration and the place have their own."""
    return {
        f.name: getattr(command, f.name)
        for f in dataclasses.fields(command)
        if f.name not in ("config", "config_file", "out", "quiet", "ray")
    }
