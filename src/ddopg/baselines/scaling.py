"""Observations measured by what was seen of them: as much worth as a method, so every method may have it.

A scaled policy sees (o − centre)/scale. Its parameters are re-expressed for raw observations where it acts, so that
one policy class serves all, and nothing is compiled again when the scale changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddopg.baselines.settings import ScalingName

QUANTILE = 0.99  # of |o|: nearly the largest, and one wild episode does not decide


class Scaling(NamedTuple):
    """The policy sees (o − centre)/scale."""

    centre: np.ndarray  # (O,)
    scale: np.ndarray  # (O,) positive

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Raw observations (…, O) as the policy sees them."""
        return ((observations - self.centre) / self.scale).astype(np.float32)


def identity(size: int) -> Scaling:
    """Raw observations."""
    return Scaling(np.zeros(size), np.ones(size))


def scaling_of(observations: np.ndarray, rule: ScalingName) -> Scaling:
    """From all observations seen so far (T, O): `quantile` divides by the 99 % quantile of |o|, `whiten` takes mean
    and standard deviation as ARS V2 does, `none` leaves them. What never varied keeps its unit."""
    size = observations.shape[-1]
    if rule == "none" or not len(observations):
        return identity(size)
    if rule == "quantile":
        centre, scale = np.zeros(size), np.quantile(np.abs(observations), QUANTILE, axis=0)
    else:
        centre, scale = observations.mean(axis=0), observations.std(axis=0)
    return Scaling(centre, np.where(scale > 0, scale, 1.0))


def for_raw_observations(theta: np.ndarray, scaling: Scaling, width: int) -> np.ndarray:
    """θ of a network whose first layer has `width` units, such that it does with o what it did with the scaled o:
    W ← W/scale, b ← b − (centre/scale)·W."""
    size = len(scaling.scale)
    weights = theta[: size * width].reshape(size, width) / scaling.scale[:, None]
    bias = theta[size * width : size * width + width] - scaling.centre @ weights
    return np.concatenate([weights.ravel(), bias, theta[size * width + width :]]).astype(np.float32)


class Seen:
    """All observations so far, in one growing array."""

    def __init__(self, size: int) -> None:
        self._rows = np.empty((1024, size), np.float32)
        self._count = 0

    @property
    def observations(self) -> np.ndarray:
        """(T, O)."""
        return self._rows[: self._count]

    def add(self, observations: np.ndarray) -> None:
        """Append (T, O)."""
        needed = self._count + len(observations)
        if needed > len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty((needed, self._rows.shape[1]), np.float32)])
        self._rows[self._count : needed] = observations
        self._count = needed
