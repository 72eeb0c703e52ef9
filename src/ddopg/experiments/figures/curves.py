"""Learning curves of several runs: the band that is drawn of them, and the drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from ddopg.errors import ArtefactError, require
from ddopg.experiments.bench.benchmark import BOOTSTRAP_SEED
from ddopg.experiments.bench.records import Record
from ddopg.experiments.bench.stats import iqm, stratified_bootstrap
from ddopg.support.files import replace_when_done

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
"""Okabe and Ito's colours, which the colour-blind can tell apart."""


class Look(NamedTuple):
    """How one curve is drawn."""

    label: str
    colour: str
    line: str = "-"
    width: float = 1.8


class Band(NamedTuple):
    """A middle line and what lies around it."""

    steps: np.ndarray  # (M,)
    middle: np.ndarray  # (M,)
    low: np.ndarray  # (M,)
    high: np.ndarray  # (M,)


def stack_curves(rows: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Stack runs on one grid: marks (M,) and values (runs, M)."""
    curves = np.array([row["curve"] for row in rows], np.float64)
    assert np.all(curves[:, :, 0] == curves[:1, :, 0]), "runs of one curve have one budget"
    return curves[0, :, 0], curves[:, :, 1]


def mean_and_deviation(rows: Sequence[Record]) -> Band:
    """x̄ ± s at every mark, as in the paper; no width for a single run."""
    steps, values = stack_curves(rows)
    mean = values.mean(axis=0)
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)
    return Band(steps, mean, mean - deviation, mean + deviation)


def mean_and_interval(rows: Sequence[Record]) -> Band:
    """The mean at every mark and its 95 % bootstrap interval."""
    return _compute_interval(rows, lambda values: values.mean(axis=-1))


def iqm_and_interval(rows: Sequence[Record]) -> Band:
    """The interquartile mean at every mark and its 95 % bootstrap interval."""
    return _compute_interval(rows, iqm)


def _compute_interval(rows: Sequence[Record], statistic: Callable[[np.ndarray], np.ndarray]) -> Band:
    steps, values = stack_curves(rows)
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    low, high = np.transpose([stratified_bootstrap([column], statistic, rng) for column in values.T])
    return Band(steps, statistic(values.T), low, high)


def draw(axes: Axes, band: Band, look: Look, shade: float = 0.15) -> Any:
    """Draw a band with its middle line, which ends in a dot: there the budget ends."""
    axes.fill_between(band.steps, band.low, band.high, color=look.colour, alpha=shade, lw=0)
    (line,) = axes.plot(
        band.steps, band.middle, look.line, color=look.colour, lw=look.width, label=look.label
    )
    axes.plot(band.steps[-1:], band.middle[-1:], "o", ms=4, color=look.colour)
    return line


def draw_whisker(axes: Axes, band: Band, place: float, look: Look) -> None:
    """Draw the last values beside the curves, where they do not hide each other."""
    style = {"-": "solid", "--": "dashed", ":": "dotted"}[look.line]
    axes.vlines(place, band.low[-1], band.high[-1], color=look.colour, lw=1.6, linestyles=style)
    axes.plot([place], band.middle[-1:], "o", ms=4, color=look.colour)


def draw_threshold(axes: Axes, threshold: float) -> None:
    """Draw a line at the return that is called solved."""
    axes.axhline(threshold, color="0.55", lw=0.8, ls=(0, (1, 2)))
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "rotation": 90, "va": "center"}
    axes.text(1.01, threshold, "solved", fontsize=7, color="0.4", **beside)


def format_thousands(value: float, _: Any = None) -> str:
    """Format a tick label.

    Example:
        >>> [format_thousands(value) for value in (500, 20_000, 1_000_000)]
        ['500', '20k', '1M']
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def make_picture(width: float, height: float) -> Picture:
    """Make an empty picture, legible at the width of a page."""
    return Picture(figsize=(width, height), dpi=130, layout="constrained")


def save(picture: Picture, path: Path) -> Path:
    """Write a picture, whole or not at all; directories are made.

    Raises:
        ArtefactError: if it cannot be written.
    """
    with replace_when_done(path, "choose a writable directory with --out") as draft:
        picture.savefig(draft, format=path.suffix[1:])
    return path


def require_data(found: Any, name: str, data: Path) -> None:
    """Refuse to draw a figure of which there are no data.

    Raises:
        ArtefactError: with the command that computes them.
    """
    require(
        bool(found),
        f"there are no data of the figure {name} in {data}; run ddopg figure {name} without --redraw, or name "
        "the directory that holds them with --data",
        ArtefactError,
    )
