"""Bayesian optimisation in a trust region (TuRBO), of the parts of botorch, on the same policies and rollouts.

The region lies around the best policy, longer in directions in which the process is flat. It grows after successes,
shrinks after failures, and a new one begins elsewhere when it has become too small.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ddopg.baselines.base import Checkpoint
from ddopg.baselines.search import Trial
from ddopg.baselines.settings import TurboSettings
from ddopg.core.seeding import draw_seed
from ddopg.errors import MissingPackageError
from ddopg.policies import Policy

FIRST_LENGTH, SHORTEST, LONGEST = 0.8, 0.5**7, 1.6  # of the unit cube; its authors'
SUCCESSES = 3  # better batches in a row that double the length; of the library's tutorial, with the next two
LEAST_GAIN = 1e-3  # relative: what counts as better
COORDINATES = 20  # so many differ between a candidate and the centre, on average
ITERATIONS = 100  # of a fit, at the most (ours)
MOST_FIRST = 20  # rollouts before the process is asked


class Region(NamedTuple):
    """The trust region: side length, and batches in a row that were better or not."""

    length: float = FIRST_LENGTH
    successes: int = 0
    failures: int = 0


def turbo(
    env: gym.Env, seed: int, settings: TurboSettings, network: Policy | None = None
) -> Iterator[Checkpoint]:
    """The policy with the highest mean of the process, among those rolled out in this region or before, counts."""
    libraries = _import_libraries()
    trial = Trial(env, seed, settings, network)
    yield from trial.play_probes()
    low, high = trial.find_box(settings.bound)
    size, known, count = len(low), _Known(trial.start, -math.inf), 0
    first = settings.first or min(2 * size, MOST_FIRST)
    while True:  # one region after the other
        region, points, returns = Region(), np.empty((0, size)), np.empty(0)
        best_here = known if count == 0 else _Known(known.theta, -math.inf)
        while region.length >= SHORTEST:
            count += 1
            drawn = draw_seed(seed, count, "turbo")
            if len(points) < first:
                asked = _draw_first(libraries, size, first, drawn)
                if count == 1:
                    asked[0] = _to_unit(trial.start, low, high)
            else:
                latest = slice(-settings.memory, None)
                process = _fit(libraries, points[latest], returns[latest])
                values = _find_means(libraries, process, points[latest])
                centre = points[latest][np.argmax(values)]
                best_here = _Known(low + (high - low) * centre, float(values.max()))
                asked = _choose(libraries, process, centre, region.length, settings, drawn)
            for point in asked:
                yield trial.make_checkpoint(trial.to_raw(max(known, best_here, key=_value).theta))
                value = trial.play(trial.to_raw(low + (high - low) * point))
                points, returns = np.vstack([points, point]), np.append(returns, value)
            if len(points) > len(asked):
                region = resize(region, returns, len(asked), _choose_patience(size, settings.batch))
            else:
                leader = int(returns.argmax())
                best_here = _Known(low + (high - low) * points[leader], float(returns[leader]))
        known = max(known, best_here, key=_value)


class _Known(NamedTuple):
    """A policy and what it is expected to return."""

    theta: np.ndarray
    value: float


def _value(known: _Known) -> float:
    return known.value


def resize(region: Region, returns: np.ndarray, batch: int, patience: int) -> Region:
    """Double the region after better batches in a row, halve it after worse ones.

    Args:
        region: before.
        returns: of all rollouts in it, the new ones last.
        batch: how many are new.
        patience: batches in a row without success that halve it.

    Returns:
        The region after the batch.

    Example:
        >>> import numpy as np
        >>> from ddopg.baselines.bayesian import Region, resize
        >>> resize(Region(0.8, successes=2), np.array([1.0, 2.0]), batch=1, patience=5)
        Region(length=1.6, successes=0, failures=0)
    """
    before, new = returns[:-batch].max(), returns[-batch:].max()
    if new > before + LEAST_GAIN * abs(before):
        region = Region(region.length, region.successes + 1, 0)
    else:
        region = Region(region.length, 0, region.failures + 1)
    if region.successes == SUCCESSES:
        return Region(min(2 * region.length, LONGEST))
    if region.failures == patience:
        return Region(region.length / 2)
    return region


def find_sides(centre: np.ndarray, length_scales: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Find the corners of the region: sides go with the length-scales, and the volume is length to the power D.

    Args:
        centre: in the unit cube, (D,).
        length_scales: of the process, (D,).
        length: of a side, in the geometric mean.

    Returns:
        The lowest and the highest corner, within the cube, (D,) each.
    """
    sides = length * length_scales / np.exp(np.mean(np.log(length_scales)))
    return np.clip(centre - sides / 2, 0, 1), np.clip(centre + sides / 2, 0, 1)


def _choose_patience(size: int, batch: int) -> int:
    """max(4, D) / batch rollouts without success, at least one batch."""
    return math.ceil(max(4.0, size) / batch)


def _to_unit(theta: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (theta - low) / (high - low)


def _draw_first(libraries: Libraries, size: int, number: int, seed: int) -> np.ndarray:
    """Spread points evenly over the cube, (N, D)."""
    sobol = libraries.torch.quasirandom.SobolEngine(size, scramble=True, seed=seed)
    drawn: np.ndarray = sobol.draw(number, dtype=libraries.torch.float64).numpy()
    return drawn


def _fit(libraries: Libraries, points: np.ndarray, returns: np.ndarray) -> Any:
    """Fit the library's Gaussian process, with its own kernel and priors, to points of the cube."""
    torch = libraries.torch
    deviation = returns.std(ddof=1) or 1.0
    standardised = torch.as_tensor((returns - returns.mean()) / deviation)[:, None]
    with _without_warnings():
        process = libraries.models.SingleTaskGP(torch.as_tensor(points), standardised, outcome_transform=None)
    process.original = (float(returns.mean()), float(deviation))
    likelihood = libraries.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
    try:
        with _without_warnings():
            libraries.botorch.fit_gpytorch_mll(
                likelihood, optimizer_kwargs={"options": {"maxiter": ITERATIONS}}
            )
    except libraries.botorch.exceptions.errors.ModelFittingError:
        process.eval()  # with the hyper-parameters that it began with
    return process


def _find_means(libraries: Libraries, process: Any, points: np.ndarray) -> np.ndarray:
    """The means of the process at some points, as returns, (N,)."""
    mean, deviation = process.original
    with libraries.torch.no_grad(), _without_warnings():
        found = process.posterior(libraries.torch.as_tensor(points)).mean
    means: np.ndarray = mean + deviation * found.numpy()[:, 0]
    return means


def _choose(
    libraries: Libraries, process: Any, centre: np.ndarray, length: float, settings: TurboSettings, seed: int
) -> np.ndarray:
    """Thompson sampling: the maxima of some draws of the process over candidates in the region, (B, D)."""
    torch, size = libraries.torch, len(centre)
    scales = process.covar_module.lengthscale.detach().numpy().ravel()
    low, high = find_sides(centre, scales, length)
    rng = np.random.default_rng(seed)
    spread = low + (high - low) * _draw_first(libraries, size, settings.candidates, seed)
    changed = rng.random(spread.shape) <= min(COORDINATES / size, 1.0)
    unchanged = ~changed.any(axis=1)
    changed[unchanged, rng.integers(size, size=int(unchanged.sum()))] = True
    candidates = torch.as_tensor(np.where(changed, spread, centre))
    with torch.random.fork_rng(), torch.no_grad(), _without_warnings():
        torch.manual_seed(seed)
        thompson = libraries.generation.MaxPosteriorSampling(process, replacement=False)
        chosen: np.ndarray = thompson(candidates, num_samples=settings.batch).numpy()
    return chosen


@contextmanager
def _without_warnings() -> Iterator[None]:
    """The libraries warn of every jitter on a diagonal and every second attempt at a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Libraries(NamedTuple):
    """What the extra brings."""

    torch: Any
    botorch: Any
    models: Any
    generation: Any
    mlls: Any


def _import_libraries() -> Libraries:
    """Import the libraries, with one thread: jobs run side by side."""
    try:
        import torch

        with _without_warnings():
            import botorch
            import botorch.exceptions.errors
            import botorch.generation
            from botorch import models
            from gpytorch import mlls
    except ImportError as error:
        raise MissingPackageError("TuRBO needs botorch", "baselines") from error
    torch.set_num_threads(1)
    return Libraries(torch, botorch, models, botorch.generation, mlls)
