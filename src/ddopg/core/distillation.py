"""What the actor has found, for the search: the linear policy that acts most nearly as the actor does.

The search moves few parameters and refines what a linear policy can do; the actor often finds the way first. So the
search rolls such a policy out now and then, as one more of its own. Where its return is high, the search goes there.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from ddopg.core.memory import Memory, find_rows
from ddopg.core.sharing import is_clear, lead_of_actor, probability_of_lead
from ddopg.core.state import CRITIC, DISTILLED, State, is_of_search
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

ROLLOUTS = 3  # the latest of the actor without noise, whose observations are what counts
RAW_LIMIT = 2.5  # raw outputs beyond are as good as this one: tanh(2.5) = 0.99
RIDGE = 1e-3  # on the weights of standardised observations
CHUNK = 512  # observations that are computed at once
PAUSE = 6  # rollouts of the search between two such policies, where the actor has not improved


def wants_distilled(state: State, policy: Policy) -> bool:
    """Whether the search rolls out a copy of the actor next: where the actor clearly leads, and there is news of it.

    There is news where it was never copied, has clearly improved since, or the search had `PAUSE` rollouts since.
    """
    if state.critic is None or not policy.linear_params or not is_clear(lead_of_actor(state.memory)):
        return False
    own = [purpose for purpose in state.purposes if is_of_search(purpose)]
    return DISTILLED not in own[-PAUSE:] or _has_improved(state)


def _has_improved(state: State) -> bool:
    """Whether the actor's rollouts since the latest copy are clearly better than as many before it."""
    if any(waiting.purpose == DISTILLED for waiting in state.pending):
        return False
    memory, rows = state.memory, find_rows(state.memory, CRITIC)
    since = rows > find_rows(memory, DISTILLED)[-1]
    after, before = rows[since][-PAUSE:], rows[~since][-PAUSE:]
    if min(len(after), len(before)) < 2:
        return False
    return is_clear(probability_of_lead(memory.returns[after], memory.returns[before]))


def distil(memory: Memory, policy: Policy) -> np.ndarray:
    """θ of the linear policy nearest to the actor's latest, on what the actor sees, (D,).

    Least squares with a ridge: W = (XᵀX + λ n I)⁻¹ XᵀY, with X the n standardised observations of its latest rollouts
    and Y the centred raw outputs within ±`RAW_LIMIT`. Everything but the linear path is 0.

    Args:
        memory: every rollout, the actor's among them.
        policy: one with a linear path.
    """
    rows = find_rows(memory, CRITIC)[-ROLLOUTS:]
    latest = [memory.trajectories[row] for row in rows]
    seen = np.concatenate([t.observations[: t.length] for t in latest]).astype(np.float64)
    raw = np.nan_to_num(_raw_outputs(policy, latest[-1].theta, seen))  # ∞ − ∞ for readings without measure
    raw = np.clip(raw, -RAW_LIMIT, RAW_LIMIT)
    mean, deviation = np.mean(seen, axis=0), np.std(seen, axis=0)
    constant = deviation <= 1e-9 * np.max(np.abs(seen), axis=0)
    deviation = np.where(constant, np.inf, deviation)  # what never changes gets no weight
    x = (seen - mean) / deviation
    y_mean = np.mean(raw, axis=0)
    gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, x.T @ (raw - y_mean)) / deviation[:, None]
    theta = np.zeros(policy.size, np.float32)
    theta[-policy.linear_params :] = np.concatenate([weights.ravel(), y_mean - mean @ weights])
    return theta


@in_float32
def _raw_outputs(policy: Policy, theta: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """What the policy computes before its bounds, (n, A); in chunks of one size, so that one program does."""
    n = len(observations)
    padded = np.pad(observations.astype(np.float32), ((0, -n % CHUNK), (0, 0)))
    chunks = padded.reshape(-1, CHUNK, padded.shape[1])
    return np.concatenate([_raw_of_chunk(policy, theta, chunk) for chunk in chunks])[:n].astype(np.float64)


@partial(jax.jit, static_argnums=0)
def _raw_of_chunk(policy: Policy, theta: np.ndarray, observations: np.ndarray) -> jax.Array:
    return jax.vmap(policy.raw, (None, 0))(theta, observations)
