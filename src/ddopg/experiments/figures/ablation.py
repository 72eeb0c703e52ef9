"""What the three ablations share: DD-OPG on cartpole with one part changed at a time, mean curves.

They start from the preset `paper`: what the paper says of its parts, it says of its final algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ddopg import baselines
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.stats import SOLVED
from ddopg.experiments.bench.workers import Failed
from ddopg.experiments.figures import curves, runs
from ddopg.experiments.figures.curves import Look
from ddopg.support.records import change, to_dict

ENV = "cartpole"
START = "ddopg-paper"


class Size(NamedTuple):
    """How much is run."""

    budget: int  # environment steps
    episodes: int  # per evaluation
    seeds: tuple[int, ...]


FULL = Size(20_000, 100, runs.SEEDS)
QUICK = Size(1_000, 20, runs.SEEDS[:2])


class Variant(NamedTuple):
    """One curve: a method of the benchmark with some of its settings changed."""

    look: Look
    changes: dict[str, Any]  # field, or part.field → value
    start: str = START


class Ablation(NamedTuple):
    """One figure."""

    name: str
    title: str
    variants: Sequence[Variant]

    def plan_jobs(self, quick: bool) -> list[Job]:
        """List all runs, seeds outermost."""
        size = QUICK if quick else FULL
        return [make_variant_job(variant, seed, size) for seed in size.seeds for variant in self.variants]

    def run(self, data: Path, quick: bool, execute: bench.Execute, quiet: bool) -> list[Failed]:
        """Run what the directory does not hold yet."""
        return runs.complete(self.plan_jobs(quick), data, execute, quiet)

    def plot(self, data: Path, out: Path, quick: bool) -> list[Path]:
        """Draw mean curves, as in the paper; at their ends the 95 % bootstrap interval of the last mean."""
        groups = runs.collect(self.plan_jobs(quick), data)
        curves.require_data(groups, self.name, data)
        budget = (QUICK if quick else FULL).budget
        picture = curves.make_picture(8.4, 4.6)
        axes = picture.subplots()
        for place, variant in enumerate(self.variants, start=1):
            rows = groups.get((ENV, name_method(variant)))
            if rows:
                band = curves.mean_and_interval(rows)
                curves.draw(axes, band, variant.look, shade=0.0)
                curves.draw_whisker(axes, band, budget * (1 + 0.02 * place), variant.look)
        curves.draw_threshold(axes, SOLVED[ENV])
        axes.axvline(budget, color="0.8", lw=0.8)
        axes.set(
            xlabel="environment steps",
            ylabel="return of the incumbent, mean over seeds\n(right: 95 % interval of the last mean)",
        )
        axes.set(title=self.title, xlim=(0, budget * (1 + 0.02 * (len(self.variants) + 1))), ylim=(0, 1020))
        axes.xaxis.set_major_formatter(curves.format_thousands)
        axes.grid(alpha=0.25)
        picture.legend(loc="outside right center", frameon=False)
        return [curves.save(picture, out / f"{self.name}.png")]


def sweep(
    symbol: str, field: str, chosen: float, colours: dict[float, str], setting: Callable[[float], Any]
) -> tuple[Variant, ...]:
    """Make one variant per value of a setting.

    Args:
        symbol: of the setting, for the legend.
        field: of the configuration, `part.field`.
        chosen: the value of the preset, whose variant changes nothing.
        colours: value → colour of its curve.
        setting: turns a value into what the field holds.

    Returns:
        The variants, in the order of the colours.
    """
    return tuple(
        Variant(Look(f"{symbol} = {value:g} (preset)", colour), {})
        if value == chosen
        else Variant(Look(f"{symbol} = {value:g}", colour), {field: setting(value)})
        for value, colour in colours.items()
    )


def name_method(variant: Variant) -> str:
    """Name a variant for the records; where nothing is changed, as the benchmark does."""
    return " ".join(
        [variant.start, *(f"{name}={_format_value(value)}" for name, value in variant.changes.items())]
    )


def make_variant_job(variant: Variant, seed: int, size: Size) -> Job:
    """Make the job of one variant on one seed."""
    method = baselines.find_method(variant.start)
    settings = to_dict(change(method.settings_for(ENV), variant.changes))
    return Job(ENV, name_method(variant), method.kind, settings, seed, size.budget, size.episodes)


def _format_value(value: Any) -> str:
    return ",".join(f"{v:.4g}" for v in value) if isinstance(value, tuple) else f"{value:g}"
