"""The command `tune`: run trials until there are enough, compare, leave the preset file, say how to go on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from rich.console import Console

from ddopg.cli.bench import report_failures
from ddopg.cli.options import Tune
from ddopg.cli.own_policy import import_own_policy
from ddopg.core.policy_building import build_policy
from ddopg.core.process_search import is_process_search
from ddopg.envs.adapter import make, problem_from_env
from ddopg.errors import (
    ArtefactError,
    ConfigError,
    DDOPGError,
    MissingPackageError,
    cannot_write_into,
    require,
)
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import jobs, workers
from ddopg.rollouts.workers import ray_cluster as cluster
from ddopg.support.signals import termination_raises

try:
    import optuna
    from optuna.trial import TrialState

    from ddopg.experiments.tuning import study as studies
    from ddopg.experiments.tuning import trials, verdict
    from ddopg.experiments.tuning.ranges import choose_space
    from ddopg.experiments.tuning.study import Plan
except ImportError as error:
    raise MissingPackageError("ddopg tune needs the package optuna", "tune") from error

STORAGE = "study.sqlite"
SEEDS, FRESH = 7_000, 8_000  # first seeds of the trials and of the comparison
STRIDE = 10_000  # from one --seed to the next
MOST_SEEDS = FRESH - SEEDS
FEWEST = 5  # fresh seeds: fewer could show no difference, whatever their interval says
PATIENCE = 2.0  # seconds between two looks at what others do


def tune(command: Tune) -> int:
    """Search for better settings, then compare them with the preset; 1 if a run of the comparison failed."""
    return report_failures(run(command), choose_home(command))


def run(command: Tune) -> list[workers.Failed]:
    """Tune; returns the runs of the last comparison that failed."""
    plan = make_plan(command)
    if command.ray:
        cluster.require_cluster(command.ray)
    out = choose_home(command)
    url = command.storage or f"sqlite:///{(_make_directory(out) / STORAGE).absolute()}"
    own = f"-{command.policy}" if command.policy else ""
    name = command.study or f"{command.env}-{command.preset}{own}"
    with studies.open_study(url, name, plan, command.seed) as study:
        try:
            with termination_raises():
                if not _all_finished(study, plan, command):
                    return []
                return _compare(study, plan, command, out)
        except (KeyboardInterrupt, DDOPGError):
            print(
                f"ddopg: {studies.count_finished(study)} of {command.trials} trials are finished; "
                "the same command goes on",
                file=sys.stderr,
            )
            raise


def make_plan(command: Tune) -> Plan:
    """What is tuned, everything checked before anything runs."""
    for name, least in (("trials", 1), ("workers", 1), ("seeds", 1), ("fresh_seeds", FEWEST)):
        value = getattr(command, name)
        require(
            value is None or value >= least,
            f"--{name.replace('_', '-')} must be at least {least}, got {value}",
        )
    require(
        max(command.seeds, command.fresh_seeds) <= MOST_SEEDS,
        f"there are {MOST_SEEDS} seeds of each kind, got {command.seeds} and {command.fresh_seeds}",
    )
    require(command.seed >= 0, f"--seed must not be negative, got {command.seed}")
    first = SEEDS + STRIDE * command.seed
    plan = Plan(
        command.env,
        command.preset,
        command.steps,
        command.eval_episodes,
        tuple(range(first, first + command.seeds)),
        command.score,
        choose_space(command.preset, command.params, command.ranges),
        command.policy or "",
    )
    if plan.policy:
        _require_settings_that_matter(plan)
    jobs.check_jobs(verdict.make_jobs(plan, {}, plan.seeds[:1])[:1])
    return plan


def _require_settings_that_matter(plan: Plan) -> None:
    """A controller with few parameters is searched by a Gaussian process, which has none of the usual settings."""
    own = import_own_policy(plan.policy) if ":" in plan.policy else None
    policy = build_policy(problem_from_env(make(plan.env)), plan.apply({}), own)
    require(
        "search.method" in plan.space or not is_process_search(policy, plan.apply({})),
        f"{plan.policy} has {policy.size} parameters, which a Gaussian process searches without the settings that "
        'are tuned here; to compare it with the gradient, put "search.method" = ["auto", "gradient"] into a file of '
        "--ranges, with settings of the gradient",
    )


def choose_home(command: Tune) -> Path:
    """The directory of the results."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in command.env)
    return command.out or Path("runs") / f"tune-{name}"


def _choose_place(command: Tune) -> workers.Place:
    return (
        workers.use_ray(command.ray, command.workers)
        if command.ray
        else workers.use_processes(command.workers or 1)
    )


def _make_directory(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = cannot_write_into(out, error, "choose a writable directory with --out")
        raise ArtefactError(message) from error
    return out


def _all_finished(study: optuna.Study, plan: Plan, command: Tune) -> bool:
    """Run trials until all are finished, here or elsewhere; a helper leaves when nothing is left to begin."""
    while True:
        before = studies.count_states(study)  # looked at first: what changes from now on ends the waiting
        missing = command.trials - studies.count_finished(study)
        if missing <= 0:
            return True
        if studies.has_work_left(study, command.trials):
            trials.run(study, plan, command.trials, _choose_place(command), command.quiet)
        elif not command.compare:
            print(f"{missing} trials are still being run by other processes")
            return False
        else:
            _wait(study, before, missing, command)


def _wait(study: optuna.Study, before: Counter[TrialState], missing: int, command: Tune) -> None:
    """Until another process has finished a trial, or is found dead."""
    if not command.quiet:
        print(f"waiting for {missing} trials of other processes", file=sys.stderr)
    while studies.count_states(study) == before:
        time.sleep(PATIENCE)
        studies.revive(study)


def _compare(study: optuna.Study, plan: Plan, command: Tune, out: Path) -> list[workers.Failed]:
    require(
        studies.count_states(study)[TrialState.COMPLETE] > 0,
        "in every trial a run failed, so there is no best one; narrow the ranges with --ranges, in another --study",
        ConfigError,
    )
    console = Console()
    verdict.print_trials(study, plan, console)
    changes = verdict.find_changes(plan, study.best_trial)
    difference: verdict.Difference | None = None
    failures: list[workers.Failed] = []
    if changes and command.compare:
        first = FRESH + STRIDE * command.seed
        both = verdict.make_jobs(plan, changes, range(first, first + command.fresh_seeds))
        execute = partial(workers.run_all, place=_choose_place(command), again=trials.AGAIN)
        difference, failures = verdict.compare(plan, both, _make_directory(out), execute, command.quiet)
        bench.print_table(both, out, console)
    if difference is not None:
        verdict.print_verdict(difference, plan, console)
    elif not changes:
        console.print(f"[bold yellow]{verdict.SAME}[/]")
    path = verdict.write(out / verdict.PRESET_FILE, study, plan, changes, difference)
    print(f"preset file: {path}")
    if difference is not None and difference.verdict == verdict.BETTER:
        own = f" --policy {plan.policy}" if plan.policy else ""
        print(f"   train it: ddopg train {plan.env} --config {path}{own}")
    return failures
