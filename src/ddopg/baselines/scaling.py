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


def make_identity(size: int) -> Scaling:
    """Make the scaling that leaves observations as they are."""
    return Scaling(np.zeros(size), np.ones(size))


def fit_scaling(observations: np.ndarray, rule: ScalingName) -> Scaling:
    """Fit the scaling to what was seen.

    Args:
        observations: All observations so far, (T, O).
        rule: `quantile` divides by the 99 % quantile of |o|; `whiten` takes mean and standard deviation, as ARS V2
            does; `none` leaves them.

    Returns:
        The scaling. An observation that never varied is not scaled.

    Example:
        >>> import numpy as np
        >>> from ddopg.baselines.scaling import fit_scaling
        >>> fit_scaling(np.array([[1.0, 5.0], [3.0, 5.0]]), "whiten").scale.tolist()
        [1.0, 1.0]
    """
    size = observations.shape[-1]
    if rule == "none" or not len(observations):
        return make_identity(size)
    if rule == "quantile":
        centre, scale = np.zeros(size), np.quantile(np.abs(observations), QUANTILE, axis=0)
    else:
        centre, scale = observations.mean(axis=0), observations.std(axis=0)
    return Scaling(centre, np.where(scale > 0, scale, 1.0))


def fold_scaling(theta: np.ndarray, scaling: Scaling, width: int) -> np.ndarray:
    """W ← W/scale, b ← b − (centre/scale)·W: the network does with o what it did with the scaled o.

    Args:
        theta: Parameters for scaled observations, (D,).
        scaling: How they are scaled.
        width: Outputs of the first layer.

    Returns:
        Parameters for raw observations, (D,), float32.
    """
    size = len(scaling.scale)
    weights = theta[: size * width].reshape(size, width) / scaling.scale[:, None]
    bias = theta[size * width : size * width + width] - scaling.centre @ weights
    return np.concatenate([weights.ravel(), bias, theta[size * width + width :]]).astype(np.float32)


class ObservationBuffer:
    """Holds all observations so far, in one growing array."""

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
