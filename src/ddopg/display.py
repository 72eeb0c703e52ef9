"""The live progress line of a learning run (rich)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddopg.algorithm import Info

Show = Callable[[int, "Info"], None]


@contextmanager
def progress(enabled: bool, total: int, unit: str) -> Iterator[Show]:
    """A function to call after each rollout with what is spent and what happened; silent where not enabled."""
    if not enabled:
        yield lambda used, info: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    wide = console.width >= 110
    columns = (
        TextColumn("[bold]{task.fields[used]:,}[/]/{task.total:,} {task.fields[unit]}"),
        BarColumn(bar_width=24 if wide else 10),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, refresh_per_second=8) as bar:
        task = bar.add_task("learn", total=total, used=0, unit=unit, what="compiling …")

        def show(used: int, info: Info) -> None:
            bar.update(task, completed=min(used, total), used=used, what=_summary(info, wide))

        yield show


def _summary(info: Info, wide: bool) -> str:
    """What fits on the line: the incumbent's value is what the learner believes, not an evaluation."""
    short = f"return {info.return_:.4g} · [green]incumbent ≈ {info.incumbent:.4g}[/]"
    return f"rollout {info.rollout} · {short} · ESS {info.ess:.1f}" if wide else short
