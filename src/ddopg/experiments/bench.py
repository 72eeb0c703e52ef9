"""The benchmark runner: what is not yet in the directory is run, and everything asked for is summarised.

DIR/records.jsonl     one line per finished job
DIR/failures/*.txt    how a job failed; it is tried again the next time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ddopg.errors import ArtefactError
from ddopg.experiments import records
from ddopg.experiments.jobs import Job
from ddopg.experiments.records import Record
from ddopg.experiments.stats import REFERENCES, SOLVED, Summary, overall, summarise
from ddopg.experiments.workers import Done, Event, Failed, Progressed

RECORDS = "records.jsonl"
BOOTSTRAP_SEED = 0  # the table is the same whenever it is printed

Execute = Callable[[Sequence[Job]], Iterator[Event]]
Show = Callable[[Event], None]


def complete(jobs: Sequence[Job], out: Path, execute: Execute, quiet: bool = False) -> list[Failed]:
    """Run the jobs that the directory does not hold yet; return those that failed."""
    try:
        (out / "failures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtefactError(
            f"cannot write into {out}: {error.strerror or error}; choose a writable directory with --out"
        ) from error
    with records.sole_writer(out):
        records.repair(out / RECORDS)
        missing = [job for job in jobs if job.key not in finished(out)]
        with progress(missing, len(jobs), quiet) as show:
            return _consume(execute(missing) if missing else iter(()), out, show)


def finished(out: Path) -> dict[str, Record]:
    """Key → record of every finished job."""
    return {record["key"]: record for record in records.read(out / RECORDS)}


def failure_file(out: Path, job: Job) -> Path:
    """Where the reason of a failure is kept."""
    name = f"{job.env}-{job.method}-{job.seed}-{job.key}.txt"
    return out / "failures" / "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def _consume(events: Iterator[Event], out: Path, show: Show) -> list[Failed]:
    failures = []
    for event in events:
        if isinstance(event, Done):
            records.append(out / RECORDS, event.record)
            failure_file(out, event.job).unlink(missing_ok=True)
        elif isinstance(event, Failed):
            failure_file(out, event.job).write_text(f"{event.job}\n{event.job._asdict()}\n\n{event.reason}")
            failures.append(event)
        show(event)
    return failures


@contextmanager
def progress(missing: Sequence[Job], total: int, quiet: bool) -> Iterator[Show]:
    """A line with jobs done, time spent and time left; silent where asked."""
    if quiet:
        yield lambda event: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.fields[ended]}[/]/{task.fields[jobs]} jobs"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[what]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    used = dict.fromkeys(missing_keys := [job.key for job in missing], 0.0)
    ended = total - len(missing_keys)
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        # Time goes with environment steps, roughly: a job counts by its budget.
        task = bar.add_task(
            "bench", total=sum(job.budget for job in missing), ended=ended, jobs=total, what=""
        )

        def show(event: Event) -> None:
            nonlocal ended
            whole = not isinstance(event, Progressed)
            ended += whole
            used[event.job.key] = event.job.budget * (
                1.0 if isinstance(event, Done | Failed) else event.share
            )
            what = f"[red]failed:[/] {event.job}" if isinstance(event, Failed) else str(event.job)
            bar.update(task, completed=sum(used.values()), ended=ended, what=what)

        yield show


def print_table(jobs: Sequence[Job], out: Path, console: Console) -> None:
    """Statistics of the jobs' records, a row per task and method; below, all known tasks together."""
    found = finished(out)
    groups: dict[tuple[str, str], list[Record]] = {}
    for job in jobs:
        if job.key in found:
            groups.setdefault((job.env, job.method), []).append(found[job.key])
    table = Table(title="mean return of the policy at the end of the budget, on fresh episodes")
    for name in ("task", "steps", "method", "runs", "mean ± sd", "median", "IQM [95 %]", "worst"):
        table.add_column(name, justify="left" if name in ("task", "method") else "right")
    for name in ("solved", "median steps", "stays"):
        table.add_column(name, justify="right")
    for (env, method), rows in sorted(groups.items()):
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        summary = summarise([row["curve"] for row in rows], SOLVED.get(env), rng)
        table.add_row(env, f"{rows[0]['budget']:,}", method, *_cells(summary))
    console.print(table)
    _print_overall(groups, console)


def _cells(s: Summary) -> list[str]:
    solved = "–" if s.solved is None else f"{s.solved}/{s.runs}"
    return [
        str(s.runs),
        f"{s.mean:.1f} ± {s.sd:.1f}",
        f"{s.median:.1f}",
        f"{s.iqm:.1f} [{s.interval[0]:.1f}, {s.interval[1]:.1f}]",
        f"{s.worst:.1f}",
        solved,
        f"{s.steps:,.0f}" if np.isfinite(s.steps) else "–",
        f"{s.stays:.2f}" if np.isfinite(s.stays) else "–",
    ]


def _print_overall(groups: dict[tuple[str, str], list[Record]], console: Console) -> None:
    tasks = sorted({env for env, _ in groups if env in REFERENCES})
    if len(tasks) < 2:
        return
    console.print(
        f"\nAll of {', '.join(tasks)} together: IQM of normalised scores (0 does nothing, 1 is the best known)"
    )
    for method in sorted({method for _, method in groups}):
        if all((task, method) in groups for task in tasks):
            last = {t: np.array([row["curve"][-1][1] for row in groups[t, method]]) for t in tasks}
            value, (low, high) = overall(last, np.random.default_rng(BOOTSTRAP_SEED))
            console.print(f"  {method:<18} {value:6.3f}  [{low:.3f}, {high:.3f}]", highlight=False)
