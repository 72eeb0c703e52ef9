"""The figures of the paper, one module each: what is run (`SETTINGS`), `run` for the data, `plot` for the pictures.

Data first, then drawing: `run` adds to a directory what it does not hold yet, `plot` reads that directory only.
Light to import: a figure's module is loaded when it is asked for.
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
}
"""Name of the figure → module of this package."""

COMMITTED = Path("benchmarks/figures")
OWN = Path("runs/figures")


class Figure(Protocol):
    """What a module of a figure offers."""

    def plan_jobs(self, quick: bool) -> Sequence[Job]:
        """The runs it is drawn from; none where it is computed at once."""

    def run(self, data: Path, quick: bool, execute: Execute, quiet: bool) -> list[Failed]:
        """Compute what the directory does not hold yet; return the jobs that failed."""

    def plot(self, data: Path, out: Path, quick: bool) -> list[Path]:
        """Draw from what the directory holds; return the pictures."""


def load_figure(name: str) -> Figure:
    """The module of that figure, imported now."""
    if name not in MODULES:
        raise unknown("figure", name, MODULES)
    return cast(Figure, import_module(f"ddopg.experiments.figures.{MODULES[name]}"))


def choose_data_directory(name: str, quick: bool) -> Path:
    """Where the data are unless told: what came with a clone if this is one, else a directory of one's own.

    The small version never touches the data of the full one.
    """
    if quick:
        return OWN / f"{name}-quick"
    return COMMITTED / name if (COMMITTED / name).is_dir() else OWN / name
