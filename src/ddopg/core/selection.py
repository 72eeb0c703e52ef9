"""Which trajectories of the memory the surrogate is built from: a table of rules over their returns.

A rule is a function `(rng, returns, config) → Selection`; adding one is that function and a line in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ddopg.config import SelectionConfig
from ddopg.errors import unknown


class Selection(NamedTuple):
    """Distinct trajectory indices and how often each was drawn."""

    indices: np.ndarray  # (n,)
    counts: np.ndarray  # (n,)


def select(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The trajectories of the next surrogate, by the configured rule.

    Args:
        rng: the random numbers of this selection.
        returns: R(τ) of every trajectory in the memory, (N,), the oldest first.
        config: the rule and its settings; at most `config.size` draws.

    Returns:
        The chosen indices, ascending, and how often each was drawn.

    Raises:
        UnknownNameError: if there is no rule of that name.
    """
    if config.rule not in RULES:
        raise unknown("selection rule", config.rule, RULES)
    return RULES[config.rule](rng, returns, config)


def select_latest(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The newest `size` trajectories."""
    return _once(np.arange(max(0, len(returns) - config.size), len(returns)))


def select_best(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The `size` trajectories of the highest returns."""
    return _once(np.sort(np.argsort(-returns, kind="stable")[: config.size]))


def select_by_softmax(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The latest `keep_last` trajectories, and draws from the softmax over normalised returns, Eq. (21)."""
    number = len(returns)
    last = np.arange(number - min(config.keep_last, number), number)
    if config.replacement:
        drawn = draw_with_replacement(rng, returns, config.size - len(last), config.temperature)
        return Selection(*np.unique(np.concatenate([last, drawn]), return_counts=True))
    earlier = np.arange(number - len(last))
    drawn = draw_without_replacement(
        rng, returns[: len(earlier)], config.size - len(last), config.temperature
    )
    return _once(np.concatenate([earlier[drawn], last]))


def select_by_rank(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The same over the ranks of the returns, which outliers cannot stretch."""
    ranks = np.argsort(np.argsort(returns, kind="stable"), kind="stable").astype(float)
    return select_by_softmax(rng, ranks, config)


def select_uniformly(rng: np.random.Generator, returns: np.ndarray, config: SelectionConfig) -> Selection:
    """The same with equal chances for all."""
    return select_by_softmax(rng, np.zeros_like(returns), config)


RULES: dict[str, Callable[[np.random.Generator, np.ndarray, SelectionConfig], Selection]] = {
    "softmax": select_by_softmax,
    "rank": select_by_rank,
    "best": select_best,
    "uniform": select_uniformly,
    "latest": select_latest,
}
"""Name in the configuration (`selection.rule`) → rule."""


def softmax_probabilities(returns: np.ndarray, temperature: float) -> np.ndarray:
    """p(I | τ₁ … τ_N) = exp(R̃_I / λ) / Σⱼ exp(R̃ⱼ / λ).  Eq. (21).

    R̃ are the returns scaled to [0, 1] (the paper says only "normalised"); a shift of all R̃ cancels, so the largest
    is taken as 0. Equal returns have equal chances.
    """
    span = np.ptp(returns) or 1.0
    unnormalised = np.exp((returns - np.max(returns)) / span / temperature)
    return unnormalised / np.sum(unnormalised)


def draw_with_replacement(
    rng: np.random.Generator, returns: np.ndarray, number: int, temperature: float
) -> np.ndarray:
    """i₁ … i_N ~ p(I | τ₁ … τ_N), independently: the memory selection of Algorithm 1."""
    return rng.choice(len(returns), size=number, p=softmax_probabilities(returns, temperature))


def draw_without_replacement(
    rng: np.random.Generator, returns: np.ndarray, number: int, temperature: float
) -> np.ndarray:
    """Each index at most once; all of them if there are no more than `number`.

    Where fewer have a probability above zero, the rest is drawn uniformly from the others.
    """
    if len(returns) <= number:
        return np.arange(len(returns))
    p = softmax_probabilities(returns, temperature)
    possible = np.flatnonzero(p)
    if len(possible) <= number:
        others = np.flatnonzero(p == 0)
        filled = rng.choice(others, size=number - len(possible), replace=False)
        return np.sort(np.concatenate([possible, filled]))
    return np.sort(rng.choice(len(returns), size=number, replace=False, p=p))


def _once(indices: np.ndarray) -> Selection:
    return Selection(indices, np.ones(len(indices), np.int64))
