"""The benchmark runner: it runs the jobs that a directory does not hold yet, and prints statistics of all of them.

DIR/records.jsonl     one line per finished job
DIR/failures/*.txt    how a job failed; it is tried again the next time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ddopg.errors import ArtefactError, cannot_write_into
from ddopg.experiments.bench import records
from ddopg.experiments.bench.jobs import Job, find_key
from ddopg.experiments.bench.overall import Scores, collect_scores, compare_scores, summarise_scores
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.stats import REFERENCES, SOLVED, Summary, summarise
from ddopg.experiments.bench.workers import Done, Event, Failed, Progressed
from ddopg.support.display import make_work_bar
from ddopg.support.files import write_atomically

RECORDS = "records.jsonl"
BOOTSTRAP_SEED = 0  # the table is the same whenever it is printed
MOST_NAMES = 4  # of tasks in one line
COLUMNS = 104  # of the table without its first column, at their widest

Execute = Callable[[Sequence[Job]], Iterator[Event]]
Show = Callable[[Event], None]


def complete(
    jobs: Sequence[Job],
    out: Path,
    execute: Execute,
    quiet: bool = False,
    option: str = "--out",
    patient: bool = False,
) -> list[Failed]:
    """Run the jobs that a directory does not hold yet.

    Args:
        jobs: everything that the directory should hold in the end.
        out: the directory, made if it is not there.
        execute: runs jobs and gives their events.
        quiet: show no progress.
        option: of the command line that names the directory, for messages.
        patient: wait while another process writes into the directory, instead of refusing.

    Returns:
        The jobs that failed; their reasons are in `out/failures`.

    Raises:
        ArtefactError: if the directory cannot be written, or another process writes into it.
        StoreError: if a record cannot be written, such as on a full disk; the finished ones are safe.
    """
    try:
        (out / "failures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = cannot_write_into(out, error, f"choose a writable directory with {option}")
        raise ArtefactError(message) from error
    with records.lock_records(out, option, patient):
        records.repair(out / RECORDS)
        finished = read_finished(out)
        missing = [job for job in jobs if job.key not in finished]
        with show_progress(missing, len(jobs), quiet) as show:
            return _consume(execute(missing) if missing else iter(()), out, show)


def read_finished(out: Path) -> dict[str, Record]:
    """Read the records of all finished jobs of a directory: key of the job → record.

    Raises:
        ArtefactError: if a line in the middle of the file is no record.
    """
    return {find_key(record): record for record in records.read(out / RECORDS)}


def locate_failure_file(out: Path, job: Job) -> Path:
    """Name the file that keeps the reason why a job failed."""
    name = f"{job.env}-{job.method}-{job.seed}-{job.key}.txt"
    return out / "failures" / "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def _consume(events: Iterator[Event], out: Path, show: Show) -> list[Failed]:
    failures = []
    for event in events:
        if isinstance(event, Done):
            records.append(out / RECORDS, event.record)
            with suppress(OSError):  # an old reason does no harm
                locate_failure_file(out, event.job).unlink(missing_ok=True)
        elif isinstance(event, Failed):
            text = f"{event.job}\n{event.job._asdict()}\n\n{event.reason}"
            write_atomically(locate_failure_file(out, event.job), text.encode())
            failures.append(event)
        show(event)
    return failures


@contextmanager
def show_progress(missing: Sequence[Job], total: int, quiet: bool) -> Iterator[Show]:
    """Show one line with jobs done, time spent and time left, within the block.

    Args:
        missing: the jobs to run.
        total: how many jobs there are, with those that are done already.
        quiet: show nothing.

    Returns:
        A function that takes every event.
    """
    if quiet:
        yield lambda event: None
        return
    used = dict.fromkeys((job.key for job in missing), 0.0)
    ended = total - len(missing)
    counted, said = (
        "{task.fields[ended]}[/]/{task.fields[jobs]} jobs",
        "{task.percentage:>3.0f} %  {task.fields[what]}",
    )
    with make_work_bar(counted, said) as bar:
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
            name = escape(str(event.job))
            what = f"[red]failed:[/] {name}" if isinstance(event, Failed) else name
            bar.update(task, completed=sum(used.values()), ended=ended, what=what)

        yield show


def print_table(jobs: Sequence[Job], out: Path, console: Console) -> None:
    """Print statistics of the records: a table per task, and below it all known tasks together.

    Args:
        jobs: those that are wanted; one without a record is left out.
        out: the directory of the records.
        console: where to print.
    """
    console.width = max(console.width, COLUMNS + max((len(job.method) for job in jobs), default=0))
    groups = collect_groups(jobs, out)
    for env, methods in groups.items():
        console.print(_build_table(env, methods))
    _print_overall(groups, console)


def collect_groups(jobs: Sequence[Job], out: Path) -> dict[str, dict[str, list[Record]]]:
    """Read the records of some jobs.

    Args:
        jobs: those that are wanted; one without a record is left out.
        out: the directory of the records.

    Returns:
        Task → method → records, in the order of the jobs.
    """
    found = read_finished(out)
    groups: dict[str, dict[str, list[Record]]] = {}
    for job in jobs:
        if job.key in found:
            groups.setdefault(job.env, {}).setdefault(job.method, []).append(found[job.key])
    return groups


def group_by_budget(jobs: Sequence[Job]) -> list[list[Job]]:
    """Put methods with the same budget on every task into one group: what one table can compare.

    Args:
        jobs: of several methods.

    Returns:
        The jobs of each group, in their order.
    """
    budgets: dict[str, set[tuple[str, int]]] = {}
    for job in jobs:
        budgets.setdefault(job.method, set()).add((job.env, job.budget))
    groups: dict[frozenset[tuple[str, int]], list[Job]] = {}
    for job in jobs:
        groups.setdefault(frozenset(budgets[job.method]), []).append(job)
    return list(groups.values())


def _build_table(env: str, methods: dict[str, list[Record]]) -> Table:
    budget = next(iter(methods.values()))[0]["budget"]
    title = f"{env} after {budget:,} steps: mean return on fresh episodes"
    # Names are the users': as text they are printed as they are, and not taken for rich's markup.
    table = Table(
        title=Text(title, style="table.title"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("method", no_wrap=True)
    for name in ("runs", "mean ± sd", "median", "IQM [95 %]", "worst", "solved", "steps", "stays"):
        table.add_column(name, justify="right", no_wrap=True)
    for method, rows in methods.items():
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        table.add_row(
            Text(method), *_format_cells(summarise([row["curve"] for row in rows], SOLVED.get(env), rng))
        )
    return table


def _format_cells(s: Summary) -> list[str]:
    low, high = s.interval
    return [
        str(s.runs),
        f"{s.mean:.1f} ± {s.sd:.1f}" if np.isfinite(s.sd) else f"{s.mean:.1f}",
        f"{s.median:.1f}",
        f"{s.iqm:.1f} [{low:.1f}, {high:.1f}]" if s.runs > 1 else f"{s.iqm:.1f}",
        f"{s.worst:.1f}",
        "–" if s.solved is None else str(s.solved),
        f"{s.steps:,.0f}" if np.isfinite(s.steps) else "–",
        f"{s.stays:.2f}" if np.isfinite(s.stays) else "–",
    ]


def _print_overall(groups: dict[str, dict[str, list[Record]]], console: Console) -> None:
    tasks = sorted(env for env in groups if env in REFERENCES)
    common = [m for m in next(iter(groups.values()), {}) if all(m in groups[task] for task in tasks)]
    if len(tasks) < 2 or not common:
        return
    names = f"{', '.join(tasks[:-1])} and {tasks[-1]}" if len(tasks) <= MOST_NAMES else f"{len(tasks)} tasks"
    title = f"{names} together: IQM of scores, 0 is doing nothing, 1 the best known"
    table = Table(
        title=Text(title, style="table.title"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("method", no_wrap=True)
    first = collect_scores(groups, common[0], tasks)
    behind = f"P({common[0]} better)"
    for name in ("IQM [95 %]", "area [95 %]", "solved", "worst", behind, "seconds"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for method in common:
        table.add_row(Text(method), *_format_overall(collect_scores(groups, method, tasks), first))
    console.print(table)


def _format_overall(scores: Scores, first: Scores) -> list[str]:
    found = summarise_scores(scores, BOOTSTRAP_SEED)
    chance, (low, high) = compare_scores(first, scores, BOOTSTRAP_SEED)
    return [
        f"{found.iqm:.3f} [{found.interval[0]:.3f}, {found.interval[1]:.3f}]",
        f"{found.area:.3f} [{found.area_interval[0]:.3f}, {found.area_interval[1]:.3f}]",
        f"{found.solved:.2f}",
        f"{found.worst:.2f}",
        "" if scores.method == first.method else f"{chance:.2f} [{low:.2f}, {high:.2f}]",
        f"{found.seconds:,.0f}",
    ]
