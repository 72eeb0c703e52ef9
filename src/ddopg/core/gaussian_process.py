"""Gaussian-process regression of returns on policies: fit by marginal likelihood, predict, expected improvement.

Rows are policies, seen from one or more sides ("blocks" of features: their parameters, their actions). The kernel is
a Matérn kernel of √(Σ_b w_b d_b²), where d_b is the distance in block b, plus a linear kernel of the situation that
the world fixed for each rollout. Weights and noise are those of the highest marginal likelihood on a small grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from jax.scipy.special import ndtr

DISTANCES = 0.1, 0.3, 1.0, 3.0, 10.0, 30.0  # length-scale² of a block, in median squared distances
NOISES = 1e-3, 1e-2, 1e-1  # variance of a single return, relative to that of the process
TYPICAL_NOISE = 1e-2  # with a weak prior around it
SITUATIONS = 0.0, 1.0  # variance of what the situation explains, relative to that of the process
JITTER = 1e-6
LEAST_VARIANCE = 1e-12


class Process(NamedTuple):
    """A fitted process; returns are transformed and standardised."""

    blocks: tuple[np.ndarray, ...]  # (N, F_b) each
    weights: tuple[float, ...]  # w_b of each block, 1 / length-scale²
    factor: np.ndarray  # (N, N) lower Cholesky factor of the kernel with noise
    values: np.ndarray  # (N,) kernel⁻¹ times the returns
    variance: float  # of the process


class Transform(NamedTuple):
    """From returns to numbers that a process can fit, and back."""

    median: float
    scale: float  # from the median to the best
    mean: float
    deviation: float

    def apply(self, returns: np.ndarray) -> np.ndarray:
        """Standardised; below the median logarithmic, so that failures do not drown the differences that matter."""
        return (_compress((returns - self.median) / self.scale) - self.mean) / self.deviation

    def invert(self, values: float) -> float:
        """Back to a return."""
        z = values * self.deviation + self.mean
        return self.median + self.scale * (z if z >= 0 else -math.expm1(-z))


def make_transform(returns: np.ndarray) -> Transform:
    """The transform of some returns, (N,)."""
    median = float(np.median(returns))
    size = float(np.max(np.abs(returns))) or 1.0
    scale = max(float(np.max(returns)) - median, 1e-9 * size)
    z = _compress((returns - median) / scale)
    return Transform(median, scale, float(np.mean(z)), float(np.std(z)) or 1.0)


def fit(blocks: Sequence[np.ndarray], returns: np.ndarray, situation: np.ndarray | None = None) -> Process:
    """The process of the highest marginal likelihood.

    Args:
        blocks: features of the policies, (N, F_b) each.
        returns: transformed, (N,).
        situation: what the world fixed for each rollout, (N, S); None where nothing is known.

    Returns:
        The process of what the policies explain; the part of the situation is taken as its mean.
    """
    squares = [squared_distances(block, block) for block in blocks]
    grids = [_weights_of(each, optional=len(blocks) > 1) for each in squares]
    linear = _linear_kernel(situation)
    best: tuple[float, Process] | None = None
    for *weights, noise, share in product(*grids, NOISES, SITUATIONS if linear is not None else (0.0,)):
        if not any(weights):
            continue
        kernel = matern(np.einsum("b,bmn->mn", weights, squares))
        kernel += (noise + JITTER) * np.eye(len(returns))
        if linear is not None:
            kernel += share * linear
        found = _solve(tuple(blocks), tuple(weights), kernel, returns)
        score = _log_likelihood(found, len(returns)) - 0.15 * math.log10(noise / TYPICAL_NOISE) ** 2
        if best is None or score > best[0]:
            best = score, found
    assert best is not None
    return best[1]


def predict(process: Process, blocks: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the transformed return of policies, without noise, (M,) each.

    Args:
        process: fitted.
        blocks: features of the policies, (M, F_b) each.
    """
    pairs = zip(blocks, process.blocks, strict=True)
    squares = [squared_distances(there, here) for there, here in pairs]
    kernel = matern(np.einsum("b,bmn->mn", process.weights, squares))
    explained = np.sum(np.square(np.linalg.solve(process.factor, kernel.T)), axis=0)
    variance = process.variance * (1 - explained)
    return kernel @ process.values, np.sqrt(np.maximum(variance, LEAST_VARIANCE))


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """E max(0, J − b) = σ (z Φ(z) + φ(z)), z = (μ − b)/σ, for J ~ N(μ, σ²), (M,)."""
    z = (mean - best) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return deviation * (z * np.asarray(ndtr(z), np.float64) + density)


def matern(squared: np.ndarray) -> np.ndarray:
    """(1 + d + d²/3) exp(−d), d = √5 · distance: the Matérn kernel of smoothness 5/2."""
    d = np.sqrt(5 * squared)
    return (1 + d + d * d / 3) * np.exp(-d)


def squared_distances(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """‖xᵢ − yⱼ‖², (M, N), of rows (M, F) and (N, F)."""
    sizes = np.sum(some * some, axis=1)[:, None] + np.sum(others * others, axis=1)[None, :]
    return np.maximum(sizes - 2 * some @ others.T, 0.0)


def _compress(z: np.ndarray) -> np.ndarray:
    return np.where(z < 0, -np.log1p(np.maximum(-z, 0.0)), z)


def _weights_of(squared: np.ndarray, optional: bool) -> list[float]:
    """The grid of a block; one that others can replace need have no weight."""
    apart = squared[squared > 0]
    if not apart.size:
        return [1.0]  # nothing differs, so nothing can be said
    weights = [1 / (float(np.median(apart)) * share) for share in DISTANCES]
    return [0.0, *weights] if optional else weights


def _linear_kernel(situation: np.ndarray | None) -> np.ndarray | None:
    """x xᵀ / S of standardised columns, (N, N); None where nothing differs."""
    if situation is None:
        return None
    x = situation - np.mean(situation, axis=0)
    deviation = np.std(x, axis=0)
    x = x[:, deviation > 0] / deviation[deviation > 0]
    return x @ x.T / x.shape[1] if x.shape[1] else None


def _solve(
    blocks: tuple[np.ndarray, ...], weights: tuple[float, ...], kernel: np.ndarray, returns: np.ndarray
) -> Process:
    factor = np.linalg.cholesky(kernel)
    half = np.linalg.solve(factor, returns)
    variance = max(float(half @ half) / len(returns), LEAST_VARIANCE)
    return Process(blocks, weights, factor, np.linalg.solve(factor.T, half), variance)


def _log_likelihood(process: Process, number: int) -> float:
    """Of the returns, its variance at its best: −N/2 log σ² − Σ log Lᵢᵢ, up to a constant."""
    return -0.5 * number * math.log(process.variance) - float(np.sum(np.log(np.diag(process.factor))))
