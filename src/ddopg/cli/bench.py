"""The commands `bench` and `figure`: many runs, their statistics, and the pictures drawn from them."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from ddopg import baselines
from ddopg.cli.options import Bench, Figure
from ddopg.errors import require
from ddopg.experiments import figures
from ddopg.experiments.bench import benchmark, jobs, workers
from ddopg.experiments.bench.latex import write_latex
from ddopg.experiments.bench.suites import find_suite
from ddopg.support.compilation import keep_compiled_programs


def bench(command: Bench) -> int:
    """Run what is missing, then print the statistics; 1 if a job failed."""
    require(
        command.workers is None or command.workers >= 1,
        f"--workers must be at least 1, got {command.workers}",
    )
    wanted = _plan_jobs(command)
    jobs.check_jobs(wanted, benchmark.read_finished(command.out))
    failures = benchmark.complete(wanted, command.out, _choose_executor(command), command.quiet)
    console = Console()
    benchmark.print_table(wanted, command.out, console)
    if command.latex:
        print(write_latex(benchmark.collect_groups(wanted, command.out)))
    print(f"records: {command.out / benchmark.RECORDS}")
    return report_failures(failures, command.out)


def figure(command: Figure) -> int:
    """Compute what is missing of a figure's data, then draw it; 1 if a run failed."""
    require(command.workers >= 1, f"--workers must be at least 1, got {command.workers}")
    keep_compiled_programs()
    chosen = figures.load_figure(command.name)
    data = command.data or figures.choose_data_directory(command.name, command.quick)
    failures = []
    if not command.redraw:
        execute = partial(workers.run_locally, workers=command.workers)
        failures = chosen.run(data, command.quick, execute, command.quiet)
    pictures = chosen.plot(data, command.out, command.quick)
    console = Console()
    for group in benchmark.group_by_budget(chosen.plan_jobs(command.quick)):
        benchmark.print_table(group, data, console)
    for what, path in (("data", data), *(("picture", path) for path in pictures)):
        print(f"{what:>8}: {path}")
    return report_failures(failures, data)


def report_failures(failures: list[workers.Failed], out: Path) -> int:
    """Say on stderr which runs failed and where the reason is; returns the exit code, 1 if there are any."""
    for failure in failures:
        print(
            f"ddopg: failed: {failure.job}: {failure.reason.strip().splitlines()[-1]}\n"
            f"       see {benchmark.locate_failure_file(out, failure.job)}; the same command tries it again",
            file=sys.stderr,
        )
    return 1 if failures else 0


def _plan_jobs(command: Bench) -> list[jobs.Job]:
    if command.suite is None:
        envs = command.envs or ("cartpole",)
        steps = 10_000 if command.steps is None else command.steps
        episodes = 100 if command.eval_episodes is None else command.eval_episodes
        return jobs.plan_jobs(envs, command.methods, command.seeds, steps, episodes)
    given = {"--steps": command.steps, "--eval-episodes": command.eval_episodes}
    for option, value in given.items():
        require(
            value is None,
            f"every task of --suite {command.suite} has its own budget and evaluation episodes, got {option} "
            f"{value}; leave out {option}, or name tasks with --envs instead of --suite",
        )
    return jobs.plan_suite(find_suite(command.suite, command.envs), command.methods, command.seeds)


def _choose_executor(command: Bench) -> benchmark.Execute:
    if command.ray:
        address, at_once = command.ray, command.workers
        return lambda some: workers.run_all(some, workers.use_ray(address, at_once or len(some)))
    for name in command.methods:
        baselines.check_packages(baselines.find_method(name).kind)
    return partial(workers.run_locally, workers=command.workers or 1)
