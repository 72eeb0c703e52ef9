"""The hot loop as a problem of its own: N trajectories of H steps through a policy, their weights, one objective.

value(θ) = Σᵢ wᵢ Rᵢ − γ √(Σᵢ wᵢ²),  wᵢ ∝ exp(−½ Σₜ ‖(aᵢₜ − μ_θ(oᵢₜ))/σ‖² − log qᵢ)

Every candidate takes the same arrays and makes the same number of gradient steps; all must agree on where they end.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

PENALTY, RATE = 0.15, 1e-3


class Size(NamedTuple):
    trajectories: int
    horizon: int
    observation: int
    hidden: tuple[int, ...]
    action: int

    @property
    def layers(self):
        return tuple(pairwise((self.observation, *self.hidden, self.action)))

    @property
    def parameters(self):
        return sum(rows * columns + columns for rows, columns in self.layers)

    def __str__(self):
        network = "→".join(map(str, (self.observation, *self.hidden, self.action)))
        return f"N={self.trajectories} H={self.horizon} {network}"


SIZES = {
    "default": Size(50, 100, 4, (), 1),
    "A": Size(50, 100, 4, (16, 16), 1),
    "C": Size(50, 1000, 13, (64, 64), 2),
    "D": Size(500, 1000, 17, (64, 64), 6),
}
"""The default's linear policy on cartpole; and the small, the large and the very large network."""


class Data(NamedTuple):
    theta: np.ndarray  # (D,)
    observations: np.ndarray  # (N, H, O)
    actions: np.ndarray  # (N, H, A)
    returns: np.ndarray  # (N,) in units of the objective
    log_q: np.ndarray  # (N,)
    scale: float  # σ


def draw(size, seed=0):
    """Random data whose weights are neither all equal nor one alone."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    theta = np.concatenate(
        [
            np.append(normal(rows * columns) / np.sqrt(rows), normal(columns) * 0.1)
            for rows, columns in size.layers
        ]
    ).astype(np.float32)
    shape = (size.trajectories, size.horizon)
    return Data(
        theta,
        normal(*shape, size.observation),
        normal(*shape, size.action),
        normal(size.trajectories),
        np.zeros(size.trajectories, np.float32),
        scale=float(np.sqrt(size.horizon * size.action)) / 2,
    )


def layers_of(theta, size):
    """Views of the weights (rows, columns) and biases (columns,), first to last."""
    found, start = [], 0
    for rows, columns in size.layers:
        middle, end = start + rows * columns, start + (rows + 1) * columns
        found.append((theta[start:middle].reshape(rows, columns), theta[middle:end]))
        start = end
    return found
