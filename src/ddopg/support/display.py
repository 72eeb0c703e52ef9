"""The live display of a learning run: two lines in a terminal (rich), a plain line now and then in a file; and the
one-line bar of work that consists of many runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Shown(Protocol):
    """What is shown of a rollout; `Info` has it."""

    @property
    def rollout(self) -> int: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def return_(self) -> float: ...  # noqa: D102
    @property
    def length(self) -> int: ...  # noqa: D102
    @property
    def incumbent(self) -> float: ...  # noqa: D102
    @property
    def incumbent_error(self) -> float: ...  # noqa: D102
    @property
    def ess(self) -> float: ...  # noqa: D102
    @property
    def length_scale(self) -> float: ...  # noqa: D102
    @property
    def outcome(self) -> str: ...  # noqa: D102
    @property
    def remark(self) -> str: ...  # noqa: D102


class Measured(Protocol):
    """What is shown of an evaluation on fresh episodes; `Evaluation` has it."""

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def mean(self) -> float: ...  # noqa: D102
    @property
    def std(self) -> float: ...  # noqa: D102
    @property
    def episodes(self) -> int: ...  # noqa: D102


Show = Callable[[int, Shown, Measured | None], None]

SHARES = 10  # plain lines per budget,
SECONDS = 60.0  # and one after this time at the latest
NARROW = 50  # columns; below, the time left is worth more than the bar
BETWEEN = " · "
ROUNDING = 1e-12  # of a value: smaller errors and deviations are those of floating-point sums


@contextmanager
def show_progress(enabled: bool, total: int, unit: str, first: int = 0) -> Iterator[Show]:
    """Show how far the learning has come, while the block runs.

    Args:
        enabled: otherwise nothing is shown.
        total: where the budget ends, counted from the beginning of the run.
        unit: what it is counted in, "steps" or "episodes".
        first: how much the run has spent before.

    Yields:
        A function to call after each rollout, with what the run has spent so far, what happened, and the latest
        evaluation if there is one.
    """
    if not enabled:
        yield lambda used, info, evaluation: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with (_live if _can_redraw(console) else _lines)(console, total, unit, first) as show:
        yield show


OUTCOMES = {"not_searched": "actor of the critic", "gaussian_process": "Gaussian process"}
"""What is said of a rollout after which the surrogate was not searched, by its outcome."""


def describe_rollout(info: Shown, unit: str, evaluation: Measured | None = None) -> list[str]:
    """What there is to see, the most important first: what was measured, then what the learner estimates."""
    parts = [f"rollout {info.rollout:,}"]
    if unit != "steps":
        parts.append(f"{info.steps:,} steps")
    parts.append(f"return {info.return_:.4g}")
    if evaluation is not None:
        parts.append(describe_evaluation(evaluation))
    parts.append(f"estimate {format_with_error(info.incumbent, info.incumbent_error)}")
    if math.isnan(info.ess):
        return [*parts, OUTCOMES.get(info.outcome, "initial design")]
    return [*parts, f"ESS {info.ess:.1f}", f"√Σ {info.length_scale:.3g}"]


def describe_evaluation(evaluation: Measured) -> str:
    """The incumbent's mean return on fresh episodes with its standard error, and when it was measured."""
    error = evaluation.std / math.sqrt(evaluation.episodes)
    return f"evaluation {format_with_error(evaluation.mean, error)} at {evaluation.steps:,} steps"


def format_with_error(value: float, error: float) -> str:
    """The value to the digits that its standard error leaves, such as 812.4 ± 3.1; a value alone to four digits."""
    if not (math.isfinite(value) and math.isfinite(error) and error > ROUNDING * abs(value)):
        return f"{value:.4g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    if max(abs(value), error) >= 1e7 or digits > 6:
        return f"{value:.4g} ± {error:.2g}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def fit_parts(parts: Sequence[str], width: int) -> str:
    """As many of the parts as fit on a line, none of them cut; the first one always."""
    shown = parts[0]
    for part in parts[1:]:
        if len(shown) + len(BETWEEN) + len(part) > width:
            break
        shown += BETWEEN + part
    return shown


def make_work_bar(counted: str, said: str) -> Progress:
    """One line for many runs: what is counted, a bar, what is said, time spent and time left; texts are rich's."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"[bold]{counted}"),
        BarColumn(bar_width=24),
        TextColumn(said),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=4)


def _can_redraw(console: Console) -> bool:
    """Whether lines can be written over: in a terminal, and in a notebook that has ipywidgets."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def _live(console: Console, total: int, unit: str, first: int) -> Iterator[Show]:
    """The bar with the time left, and below it what is known, as much as the terminal is wide now."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    spent = TextColumn("[bold]{task.fields[used]:,}[/]/{task.total:,} {task.fields[unit]}")
    left = (TextColumn("left"), TimeRemainingColumn(compact=True))
    columns = (spent, BarColumn(bar_width=None), TimeElapsedColumn(), *left)
    bar = Progress(*(columns if console.width >= NARROW else (spent, *left)), console=console, expand=True)
    task = bar.add_task("learn", total=total, completed=first, used=first, unit=unit)
    known = ["compiling …"]

    def picture() -> Group:
        return Group(bar, Text(fit_parts(known, console.width), style="green", no_wrap=True))

    with Live(get_renderable=picture, console=console, refresh_per_second=8):

        def show(used: int, info: Shown, evaluation: Measured | None) -> None:
            bar.update(task, completed=min(used, total), used=used)
            known[:] = describe_rollout(info, unit, evaluation)

        yield show


@contextmanager
def _lines(console: Console, total: int, unit: str, first: int) -> Iterator[Show]:
    """A plain line whenever another tenth of the budget is spent, or a minute has passed: for log files."""
    began = spoken = time.monotonic()
    reached = -1

    def show(used: int, info: Shown, evaluation: Measured | None) -> None:
        nonlocal spoken, reached
        now, share = time.monotonic(), used * SHARES // total
        if share <= reached and now - spoken < SECONDS:
            return
        spoken, reached = now, share
        left = (now - began) * max(0, total - used) / max(1, used - first)
        known = describe_rollout(info, unit, evaluation)
        parts = [f"{used:,}/{total:,} {unit}", *known, f"left {_clock(left)}"]
        console.file.write(BETWEEN.join(parts) + "\n")
        console.file.flush()

    yield show


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
