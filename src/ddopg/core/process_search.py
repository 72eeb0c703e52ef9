"""The search for a controller with few parameters: expected improvement of a Gaussian process over its behaviour.

Two policies are alike if their declared parameters are near, or if they would do the same on observations that were
stored: the distance between policies is a mix of both, as the marginal likelihood has it. (A kernel over behaviour is
that of Wilson, Fern and Tadepalli, 2014.) Everything is a function of the memory: nothing more is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from ddopg.config import Config
from ddopg.core.gaussian_process import (
    Process,
    Transform,
    expected_improvement,
    fit,
    make_transform,
    predict,
)
from ddopg.core.memory import Memory
from ddopg.core.replay import act_along
from ddopg.core.seeding import make_rng
from ddopg.core.state import Incumbent, State
from ddopg.core.types import Trajectory
from ddopg.parameters import reflect
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

MOST_PARAMETERS = 12  # above it the gradient of the surrogate finds its way sooner
DESIGN_ROLLOUTS = 5  # rollouts before the first fit, the start among them
DESIGN_SPREAD = 0.5  # of them around the start, in scales
WIDTHS = 0.05, 0.1, 0.2, 0.4, 0.8  # of candidates around the best policies, in scales
TOP = 3  # policies around which candidates are drawn
CANDIDATES, CANDIDATES_OF_BLACK_BOX = 300, 60
ROUNDS = 3  # each draws candidates around the best of the last, half as wide
KEPT = 10  # of them
FEW_DIRECTIONS = 3  # half of the candidates change about so many parameters
REFERENCES, REFERENCES_OF_BLACK_BOX = 4, 2  # stored episodes on which policies are compared: the best ones
TIMES, TIMES_OF_BLACK_BOX = 100, 20  # steps of an episode at which they are compared, at most
MOST_ROWS = 150  # rollouts that the process is fitted to
TOGETHER = 64  # policies that one compiled program plays along an episode

Features = Callable[[np.ndarray], list[np.ndarray]]
"""Policies (M, D) → blocks of features, (M, F_b) each."""


class Model(NamedTuple):
    """What the memory says of policies."""

    process: Process
    transform: Transform
    thetas: np.ndarray  # (N, D) of the rollouts that it rests on
    features: Features
    means: np.ndarray  # (N,) at these
    deviations: np.ndarray  # (N,)


def is_process_search(policy: Policy, config: Config) -> bool:
    """Whether proposals come from a Gaussian process, and not from the gradient of the surrogate."""
    if config.search.method == "auto":
        return bool(policy.parameters) and 0 < policy.size <= MOST_PARAMETERS
    return config.search.method == "gaussian_process"


def propose_by_process(state: State, k: int, policy: Policy) -> np.ndarray:
    """The policy of the highest expected improvement among many candidates, (D,); a random one at first.

    Proposals that wait for their rollout count as rollouts that came out as expected.
    """
    rng = make_rng(state.seed, k, "exploration")
    limits = _limits(policy)
    if state.memory.size < DESIGN_ROLLOUTS:
        return reflect(DESIGN_SPREAD * rng.standard_normal(policy.size), limits)
    model = fit_model(state.memory, policy, [waiting.theta for waiting in state.pending])
    best = float(np.max(model.means))
    number = CANDIDATES if policy.black_box is None else CANDIDATES_OF_BLACK_BOX
    around = model.thetas[np.argsort(-model.means)[:TOP]].astype(np.float64)
    kept = around[:0]
    for turn in range(ROUNDS):
        drawn = _draw_around(rng, around, number - len(kept), 0.5**turn)
        candidates = np.concatenate([kept, np.array([reflect(one, limits) for one in drawn])])
        gains = expected_improvement(*predict(model.process, model.features(candidates)), best)
        kept = around = candidates[np.argsort(-gains, kind="stable")[:KEPT]]
    return np.asarray(kept[0])


def follow_process(state: State, policy: Policy) -> tuple[State, dict[str, Any]]:
    """The state with the incumbent that the process says, and what `Info` tells of it.

    The next proposal is made of the memory when it is asked for.
    """
    incumbent, error = choose_by_process(state, policy)
    state = state._replace(incumbent=incumbent, centre=incumbent.theta, ema_params=incumbent.theta)
    if not np.isfinite(error):
        return state, {"outcome": "initial_design"}
    about = {"outcome": "gaussian_process", "predicted": incumbent.value, "incumbent_error": error}
    return state, about


def choose_by_process(state: State, policy: Policy) -> tuple[Incumbent, float]:
    """The rolled-out policy with the highest mean, at the return that belongs to it; and its standard error."""
    if state.memory.size < DESIGN_ROLLOUTS:
        best = int(np.argmax(state.memory.returns))
        return Incumbent(state.memory.trajectories[best].theta, float(state.memory.returns[best])), np.nan
    model = fit_model(state.memory, policy)
    best = int(np.argmax(model.means))
    mean, deviation = float(model.means[best]), float(model.deviations[best])
    low, high = (model.transform.invert(end) for end in (mean - deviation, mean + deviation))
    return Incumbent(model.thetas[best], model.transform.invert(mean)), (high - low) / 2


def fit_model(memory: Memory, policy: Policy, waiting: list[np.ndarray] | None = None) -> Model:
    """The process of a memory.

    Args:
        memory: every rollout.
        policy: the policy class.
        waiting: policies under way, (D,) each, counted at what is expected of them.
    """
    rows = choose_rows(memory.returns)
    chosen = [memory.trajectories[row] for row in rows]
    thetas = np.stack([trajectory.theta for trajectory in chosen])
    transform = make_transform(memory.returns[rows])
    returns = transform.apply(memory.returns[rows])
    features = make_features(memory, policy)
    blocks, situation = features(thetas), _situation(chosen)
    process = fit(blocks, returns, situation)
    means, deviations = predict(process, blocks)
    if waiting:
        thetas = np.concatenate([thetas, np.stack(waiting)])
        expected, _ = predict(process, features(np.stack(waiting)))
        blocks = features(thetas)
        situation = None if situation is None else np.pad(situation, ((0, len(waiting)), (0, 0)), mode="mean")
        process = fit(blocks, np.concatenate([returns, expected]), situation)
        means, deviations = predict(process, blocks)
    return Model(process, transform, thetas, features, means, deviations)


def choose_rows(returns: np.ndarray) -> np.ndarray:
    """All rollouts, or, where there are too many, the best of them and the latest, oldest first."""
    if len(returns) <= MOST_ROWS:
        return np.arange(len(returns))
    half = MOST_ROWS // 2
    best = np.argsort(-returns, kind="stable")[: MOST_ROWS - half]
    others = np.setdiff1d(np.arange(len(returns)), best)
    return np.sort(np.concatenate([best, others[-half:]]))


def make_features(memory: Memory, policy: Policy) -> Features:
    """Parameters in their scales, and actions on the best stored episodes in units of the action.

    An episode of one step has no path to be compared on: there are only parameters then.
    """
    if memory.trajectories[0].horizon == 1:
        return lambda thetas: [np.asarray(thetas, np.float64)]
    number = REFERENCES if policy.black_box is None else REFERENCES_OF_BLACK_BOX
    best = np.argsort(-memory.returns, kind="stable")[:number]
    paths = [memory.trajectories[i] for i in best]
    act = _act_by_calling if policy.black_box is not None else _act_compiled
    unit = _typical_action(paths)

    def features(thetas: np.ndarray) -> list[np.ndarray]:
        some = np.asarray(thetas, np.float32)
        actions = [act(policy, some, path).astype(np.float64) / unit for path in paths]  # (M, T, A) each
        rows = [each.reshape(len(some), -1) / np.sqrt(each.shape[1] * len(paths)) for each in actions]
        return [np.asarray(thetas, np.float64), np.concatenate(rows, axis=1)]

    return features


def _act_by_calling(policy: Policy, thetas: np.ndarray, path: Trajectory) -> np.ndarray:
    """Actions (M, T, A) at some times; without a memory it is called only there."""
    times = _choose_times(path, TIMES_OF_BLACK_BOX)
    if policy.remembers:
        return np.stack(
            [act_along(policy, theta, path.observations[: path.length])[times] for theta in thetas]
        )
    return np.stack([act_along(policy, theta, path.observations[times]) for theta in thetas])


def _act_compiled(policy: Policy, thetas: np.ndarray, path: Trajectory) -> np.ndarray:
    """Actions (M, T, A) at some times."""
    padded = np.pad(thetas, ((0, -len(thetas) % TOGETHER), (0, 0)))
    parts = padded.reshape(-1, TOGETHER, thetas.shape[1])
    actions = np.concatenate([_act_of_each(policy, part, path.observations) for part in parts])
    return actions[: len(thetas), _choose_times(path, TIMES)]


def _choose_times(path: Trajectory, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, path.length - 1, most).astype(int))


@in_float32
@partial(jax.jit, static_argnames="policy")
def _act_of_each(policy: Policy, thetas: Array, observations: Array) -> Array:
    return jax.vmap(lambda theta: act_along(policy, theta, observations))(thetas)


def _typical_action(paths: list[Trajectory]) -> np.ndarray:
    """Root mean square of each action on these paths, (A,); 1 for one that was never used."""
    actions = np.concatenate([path.actions[: path.length] for path in paths])
    size = np.sqrt(np.mean(np.square(actions, dtype=np.float64), axis=0))
    return np.where(size > 0, size, 1.0)


def _situation(chosen: list[Trajectory]) -> np.ndarray | None:
    """What the world fixed for each rollout, where it was told."""
    if not chosen[0].context.size:
        return None
    return np.stack([trajectory.context for trajectory in chosen]).astype(np.float64)


def _limits(policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    if policy.limits is None:
        return np.full(policy.size, -np.inf), np.full(policy.size, np.inf)
    low, high = policy.limits
    return low.astype(np.float64), high.astype(np.float64)


def _draw_around(rng: np.random.Generator, around: np.ndarray, number: int, narrower: float) -> np.ndarray:
    """Candidates (M, D) around some policies: of several widths, half of them along few directions."""
    size = around.shape[1]
    width = narrower * rng.choice(WIDTHS, (number, 1))
    few = (rng.random((number, size)) < FEW_DIRECTIONS / size) | (rng.random((number, 1)) < 0.5)
    few[np.arange(number), rng.integers(size, size=number)] = True
    return around[rng.integers(len(around), size=number)] + few * width * rng.standard_normal((number, size))
