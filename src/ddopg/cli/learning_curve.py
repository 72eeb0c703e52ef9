"""The picture of a training run, drawn from its tables only."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ddopg.storage.exports import CURVE, EVALUATION, PROGRESS, read_table
from ddopg.support.files import write_atomically


def draw_learning_curve(directory: Path, title: str) -> Path:
    """Draw the incumbent's evaluated return and every rollout's return, against environment steps.

    Args:
        directory: a run whose tables are written.
        title: what stands above the picture.

    Returns:
        The file of the picture, in the same directory.

    Raises:
        ArtefactError: where the picture cannot be written.
    """
    rollouts, evaluated = read_table(directory / PROGRESS), read_table(directory / EVALUATION)
    figure = Figure(figsize=(7.2, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(rollouts["steps"], rollouts["return"], ".", ms=4, color="0.65", label="each rollout")
    if evaluated:
        steps, mean, std = (np.array(evaluated[name]) for name in ("steps", "mean", "std"))
        episodes = int(evaluated["episodes"][-1])
        axes.fill_between(steps, mean - std, mean + std, color="tab:blue", alpha=0.18, lw=0)
        label = f"incumbent, mean ± sd of {episodes} fresh episodes"
        axes.plot(steps, mean, "-o", ms=3, lw=1.6, color="tab:blue", label=label)
    axes.set(xlabel="environment steps", ylabel="return", title=title)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.25)
    figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=9)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return write_atomically(directory / CURVE, picture.getvalue())
