"""Figures that are drawn from runs: planning, completing and collecting them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ddopg import baselines
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import jobs
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.workers import Failed

SEEDS = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
"""The paper's ten."""


def complete(wanted: Sequence[Job], data: Path, execute: bench.Execute, quiet: bool) -> list[Failed]:
    """Run what the directory does not hold yet.

    Args:
        wanted: the jobs of a figure.
        data: the directory.
        execute: runs jobs and gives their events.
        quiet: show no progress.

    Returns:
        The jobs that failed.

    Raises:
        MissingPackageError: if a method or a task lacks its packages; nothing has run then.
    """
    held = bench.read_finished(data)
    jobs.check_jobs(wanted, held)
    for kind in dict.fromkeys(job.kind for job in wanted if job.key not in held):
        baselines.check_packages(kind)
    return bench.complete(wanted, data, execute, quiet, option="--data")


def keep_installed(wanted: Sequence[Job], tell: bool = True) -> list[Job]:
    """Keep the jobs whose packages are installed.

    Args:
        wanted: the jobs of a figure.
        tell: say on stderr which methods are left out.
    """
    missing = {job.method: baselines.find_missing_packages(job.kind) for job in wanted}
    left_out = [method for method, packages in missing.items() if packages]
    if left_out and tell:
        packages = dict.fromkeys(package for method in left_out for package in missing[method])
        print(
            f"ddopg: left out: {', '.join(left_out)}, which need {', '.join(packages)}; "
            f'get them with pip install "ddopg[{baselines.EXTRA}]"',
            file=sys.stderr,
        )
    return [job for job in wanted if job.method not in left_out]


def collect(wanted: Sequence[Job], data: Path) -> dict[tuple[str, str], list[Record]]:
    """Collect the finished runs of a figure; how many are missing is said on stderr.

    Args:
        wanted: the jobs of the figure.
        data: the directory.

    Returns:
        (task, method) → records, in the order of the jobs.
    """
    held = bench.read_finished(data)
    groups: dict[tuple[str, str], list[Record]] = {}
    for job in wanted:
        if job.key in held:
            groups.setdefault((job.env, job.method), []).append(held[job.key])
    missing = sum(job.key not in held for job in wanted)
    if groups and missing:
        print(
            f"ddopg: {missing} of {len(wanted)} runs are not in {data}; the picture shows the others",
            file=sys.stderr,
        )
    return groups
