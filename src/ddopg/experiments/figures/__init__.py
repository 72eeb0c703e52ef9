"""The figures of the paper, and one that it leaves open (`bias`), one module each.

A module says what is run (`SETTINGS`), and has `run` for the data and `plot` for the pictures.

`run` adds to a directory what it does not hold yet, `plot` reads that directory only. The module of a figure is
imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ddopg.errors import unknown
from ddopg.experiments.bench.benchmark import Execute
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.workers import Failed

MODULES = {
    "surrogate": "surrogate",
    "benchmark": "benchmark",
    "ablation-history": "history",
    "ablation-lengthscale": "lengthscale",
    "ablation-temperature": "temperature",
    "bias": "bias",
}
"""Name of the figure → module of this package."""

COMMITTED = Path("benchmarks/figures")
OWN = Path("runs/figures")


class Figure(Protocol):
    """What a module of a figure offers."""

    def plan_jobs(self, quick: bool) -> Sequence[Job]:
        """List the runs it is drawn from; none if it is computed at once."""

    def run(self, data: Path, quick: bool, execute: Execute, quiet: bool) -> list[Failed]:
        """Compute what the directory does not hold yet; return the jobs that failed."""

    def plot(self, data: Path, out: Path, quick: bool) -> list[Path]:
        """Draw from what the directory holds; return the pictures."""


def load_figure(name: str) -> Figure:
    """Import the module of a figure.

    Args:
        name: of the figure, see `MODULES`.

    Returns:
        The module.

    Raises:
        UnknownNameError: if there is no such figure.
    """
    if name not in MODULES:
        raise unknown("figure", name, MODULES)
    return cast(Figure, import_module(f"ddopg.experiments.figures.{MODULES[name]}"))


def choose_data_directory(name: str, quick: bool) -> Path:
    """Choose where the data of a figure are, if the user does not say it.

    Args:
        name: of the figure.
        quick: whether its small version is meant, which never touches the data of the full one.

    Returns:
        The data that came with the source code if this is a clone, else a directory below `runs`.
    """
    if quick:
        return OWN / f"{name}-quick"
    return COMMITTED / name if (COMMITTED / name).is_dir() else OWN / name
