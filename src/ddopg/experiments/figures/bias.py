"""The bias of the surrogate over its length-scale Σ and over a cap of the weights, which the paper calls open.

Many data sets of N rollouts are drawn, each of another policy. From each, the surrogate estimates the return of the
same few policies, whose true return is known. What it misses on average is its bias, the rest is its variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg._version import __version__
from ddopg.core import estimators
from ddopg.core.surrogate import log_surrogate_weights
from ddopg.experiments.bench.benchmark import Execute
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.workers import Failed
from ddopg.experiments.figures import curves, numbers
from ddopg.experiments.figures.bias_worlds import Data, World, make_cartpole, make_corridor
from ddopg.experiments.figures.curves import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY

NAME = "bias"
FILE = "errors.json"
COLOURS = (SKY, BLUE, BLACK)  # of N, few to many
CAP_COLOURS = (GREEN, ORANGE, RED, PINK)  # of σ, short to long


class Settings(NamedTuple):
    """What is computed."""

    seed: int = 2
    targets: int = 24  # policies to judge
    numbers: tuple[int, ...] = (10, 30, 100)  # N
    data_sets: int = 1_000  # of each N
    corridor_scales: tuple[float, ...] = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0)  # σ
    cartpole_scales: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, 300.0)
    caps: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of the weights; 0 caps none
    spreads: tuple[float, ...] = (0.3, 1.0)  # of the policies on cartpole
    steps: int = 4_000  # of the run that finds the policy in their middle
    pool: int = 1_500  # rollouts there
    episodes: int = 300  # of the truth there


SETTINGS = Settings()
QUICK = Settings(
    targets=8,
    numbers=(10, 30),
    data_sets=100,
    corridor_scales=(0.4, 1.0, 2.0, 4.0, 10.0),
    cartpole_scales=(3.0, 7.0, 15.0, 30.0, 100.0),
    caps=(0.0, 0.1, 1.0, 10.0),
    pool=300,
    episodes=60,
)


class Found(NamedTuple):
    """What one data set says, with one σ and one cap."""

    weighted: Array  # (P,) estimates with Z = Σw
    plain: Array  # (P,) with Z = N
    ess: Array  # mean over the policies to judge
    length: Array  # of the episodes, weighted, over that of all: below 1, short ones speak loudest


def plan_jobs(quick: bool) -> list[Job]:
    """List no runs: everything is computed at once."""
    return []


def run(data: Path, quick: bool, execute: Execute, quiet: bool) -> list[Failed]:
    """Compute the errors, unless the directory holds them."""
    numbers.keep(data / FILE, NAME, QUICK if quick else SETTINGS, compute_errors)
    return []


def compute_errors(settings: Settings) -> dict[str, Any]:
    """Compute everything that is drawn, as plain numbers; errors are in units of the spread of the true returns."""
    return {
        "version": __version__,
        "settings": numbers.to_plain(settings),
        "worlds": [
            {
                "title": world.title,
                "scales": list(scales),
                "mean": round(float(world.truth.mean()), 3),
                "spread": round(float(world.truth.std()), 3),
                "errors": [
                    {"number": number, **measure_errors(world, number, scales, settings)}
                    for number in settings.numbers
                ],
            }
            for world, scales in make_worlds(settings)
        ],
    }


def make_worlds(settings: Settings) -> Iterator[tuple[World, tuple[float, ...]]]:
    """Make the worlds, each with its length-scales."""
    yield make_corridor(settings.seed, settings.targets), settings.corridor_scales
    for spread in settings.spreads:
        sizes = settings.steps, settings.pool, settings.episodes
        yield make_cartpole(settings.seed, settings.targets, spread, *sizes), settings.cartpole_scales


def measure_errors(
    world: World, number: int, scales: tuple[float, ...], settings: Settings
) -> dict[str, Any]:
    """Measure bias, standard deviation and root-mean-square error over many data sets.

    Args:
        world: draws the data sets.
        number: N, trajectories per data set.
        scales: values of σ.
        settings: the caps, the number of data sets, the seed.

    Returns:
        Name of the quantity → rows of σ, columns of the cap.
    """

    @jax.jit
    def estimate_all(keys: Array) -> Found:
        sigmas = jnp.asarray(scales)

        def of_data_set(key: Array) -> Found:
            data = world.draw(key, number)
            each = [jax.vmap(partial(estimate_returns, data, cap=cap))(sigmas) for cap in settings.caps]
            return jax.tree.map(lambda *values: jnp.stack(values, axis=1), *each)

        return jax.lax.map(of_data_set, keys, batch_size=10)

    keys = jax.random.split(jax.random.key(settings.seed), settings.data_sets)
    found = jax.tree.map(np.asarray, estimate_all(keys))
    return {
        "weighted": split_error(found.weighted, world.truth),
        "plain": split_error(found.plain, world.truth),
        "ess": [numbers.round_all(row, 2) for row in found.ess.mean(axis=0)],
        "length": [numbers.round_all(row) for row in found.length.mean(axis=0)],
    }


def estimate_returns(data: Data, sigma: Array, cap: float) -> Found:
    """Estimate the return of every policy to judge from one data set: Eqs. (14) and (15), with truncated weights.

    Args:
        data: the log-likelihoods with σ = 1, and the returns.
        sigma: the length-scale σ.
        cap: of the weights; 0 caps none.
    """
    log_q = estimators.log_mixture(data.log_p / jnp.square(sigma))
    log_w = log_surrogate_weights(data.at / jnp.square(sigma), log_q[None, :], cap)

    def of_each(estimator: Any, values: Array) -> Array:
        return jax.vmap(estimator, in_axes=(0, None))(log_w, values)

    weighted = partial(of_each, estimators.weighted_importance_sampling_return)
    return Found(
        weighted(data.returns),
        of_each(estimators.importance_sampling_return, data.returns),
        jnp.mean(jax.vmap(estimators.effective_sample_size)(log_w)),
        jnp.mean(weighted(data.lengths)) / jnp.mean(data.lengths),
    )


def split_error(estimates: np.ndarray, truth: np.ndarray) -> dict[str, list[list[float]]]:
    """Split the error of estimates into bias and standard deviation, root mean squares over the policies to judge.

    The mean over M data sets is off by variance/M by chance; that much is subtracted from the squared bias.

    Args:
        estimates: (data sets, σ, cap, policies).
        truth: (policies,).

    Returns:
        Bias, its mean with its sign, deviation and error, in units of the spread of the truth: rows of σ, columns of
        the cap.
    """
    unit, missed = truth.std(), estimates.mean(axis=0) - truth
    variance = estimates.var(axis=0, ddof=1)
    squared = np.maximum(np.mean(missed**2 - variance / len(estimates), axis=-1), 0.0)
    parts = {
        "bias": np.sqrt(squared),
        "signed": missed.mean(axis=-1),
        "deviation": np.sqrt(variance.mean(axis=-1)),
        "error": np.sqrt(squared + variance.mean(axis=-1)),
    }
    return {name: [numbers.round_all(row) for row in values / unit] for name, values in parts.items()}


def plot(data: Path, out: Path, quick: bool) -> list[Path]:
    """Draw one row per world: what the error consists of, what more data change, what a cap changes."""
    path = data / FILE
    curves.require_data(path.exists(), NAME, data)
    found = numbers.read(path, NAME)
    settings, worlds = found["settings"], found["worlds"]
    picture = curves.make_picture(13, 3.5 * len(worlds) + 0.4)
    for row, world in zip(picture.subplots(len(worlds), 3, squeeze=False), worlds, strict=True):
        middle = world["errors"][len(world["errors"]) // 2]
        _draw_parts(row[0], world, middle)
        _draw_numbers(row[1], world)
        _draw_caps(row[2], world, middle, settings["caps"])
        row[0].set_ylabel(f"{world['title']}\nerror in spreads of the true return")
        for axes in row:
            axes.set(xscale="log", ylim=(0, 1.8))
            axes.axhline(1.0, color="0.6", lw=0.8, ls=(0, (1, 2)))  # of always saying the mean of the truth
            axes.grid(alpha=0.25)
    return [curves.save(picture, out / f"{NAME}.png")]


def _draw_parts(axes: Any, world: dict[str, Any], at: dict[str, Any]) -> None:
    """Bias, deviation and error over σ, without a cap; the error with Z = N."""
    looks = {"bias": (RED, "--"), "deviation": (SKY, "--"), "error": (BLUE, "-")}
    for name, (colour, line) in looks.items():
        values = [row[0] for row in at["weighted"][name]]
        axes.plot(world["scales"], values, line, color=colour, lw=1.8, label=name)
    plain = [row[0] for row in at["plain"]["error"]]
    axes.plot(world["scales"], plain, ":", color="0.4", lw=1.4, label="error with Z = N")
    axes.set(
        xlabel="length-scale σ, in units of the action",
        title=f"what the error consists of, N = {at['number']}",
    )
    axes.legend(frameon=False, fontsize=8)


def _draw_numbers(axes: Any, world: dict[str, Any]) -> None:
    """The error over σ for each N; a dot at the best σ."""
    for at, colour in zip(world["errors"], COLOURS, strict=False):
        values = [row[0] for row in at["weighted"]["error"]]
        best = int(np.argmin(values))
        share = at["ess"][best][0] / at["number"]
        label = f"N = {at['number']}, best at ESS = {share:.2f} N"
        axes.plot(world["scales"], values, color=colour, lw=1.8, label=label)
        axes.plot(world["scales"][best], values[best], "o", ms=5, color=colour)
    axes.set(xlabel="length-scale σ, in units of the action", title="the error for more and less data")
    axes.legend(frameon=False, fontsize=8)


def _draw_caps(axes: Any, world: dict[str, Any], at: dict[str, Any], caps: list[float]) -> None:
    """The error over the cap, for the best σ and for shorter and longer ones; dots without a cap."""
    errors = at["weighted"]["error"]
    best = int(np.argmin([row[0] for row in errors]))
    rows = [row for row in (best - 3, best - 1, best, best + 2) if 0 <= row < len(errors)]
    beyond = 4 * max(caps)  # where "no cap" is drawn
    for row, colour in zip(rows, CAP_COLOURS, strict=False):
        label = f"σ = {world['scales'][row]:g}" + (" (best without a cap)" if row == best else "")
        axes.plot(caps[1:], errors[row][1:], color=colour, lw=1.8, label=label)
        axes.plot(beyond, errors[row][0], "o", ms=5, color=colour)
    axes.set(
        xlabel="cap of the weights (dots: none)",
        title=f"the error with a cap of the weights, N = {at['number']}",
    )
    axes.legend(frameon=False, fontsize=8)
