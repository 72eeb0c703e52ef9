"""Whose turn it is: the search and the critic's actor share the environment steps, by what their rollouts brought."""

from __future__ import annotations

import math

import numpy as np

from ddopg.core.memory import Memory, find_rows
from ddopg.core.state import CHECK, CRITIC, DESIGN, EXPLORE, State, count_of_search, is_of_search

COMPARED_WINDOW = 8  # rollouts of each source that say which of them is better
CRITIC_SHARES = (0.1, 0.8)  # the least and the most of the steps that the critic gets
JUDGED_WINDOW = 40  # rollouts after which one says nothing any more about its source
SHARE_WINDOW = 5  # rollouts in which the critic gets its share
RECENT_WINDOW = 20  # rollouts that say how long one is nowadays


def is_turn_of_critic(state: State) -> bool:
    """Whether the next proposal is the critic's: it is, where it had less than its share of the latest steps.

    Steps are what rollouts cost. Those of long ago count less, by a factor e for every `SHARE_WINDOW` rollouts of
    usual length. Rollouts under way count as usual ones, and so does the next one.
    """
    lengths = np.array([float(trajectory.length) for trajectory in state.memory.trajectories])
    usual = float(np.mean(lengths[-RECENT_WINDOW:]))
    lengths = np.append(lengths, [usual] * len(state.pending))
    ago = np.sum(lengths) - np.cumsum(lengths)
    counted = lengths * np.exp(-ago / (SHARE_WINDOW * usual))
    own = np.array([not is_of_search(purpose) for purpose in state.purposes])
    return np.sum(counted[own]) + usual / 2 < critic_share(state) * (np.sum(counted) + usual)


def critic_share(state: State) -> float:
    """Share of the steps that the critic gets: how likely its actor is better than the average of the search.

    By the ranks of recent rollouts of each without noise, within `CRITIC_SHARES`. It is ½ until both have two. Until
    the average has two, perturbed policies stand for the search, and before those its design. A young search keeps
    half of the steps: until it has had as many rollouts after its design as in it.
    """
    rolled_out = (purpose for purpose in (CHECK, EXPLORE) if len(find_rows(state.memory, purpose)) > 1)
    search_by = next(rolled_out, DESIGN)
    actor, search = (recent_returns(state.memory, purpose) for purpose in (CRITIC, search_by))
    if min(len(actor), len(search)) < 2:
        return 0.5
    least, most = CRITIC_SHARES
    young = count_of_search(state.memory.purposes) < 2 * state.purposes.count(DESIGN)
    return float(np.clip(probability_of_lead(actor, search), least, 0.5 if young else most))


def recent_returns(memory: Memory, purpose: str) -> np.ndarray:
    """The latest returns of one purpose: of `JUDGED_WINDOW` rollouts, two at least, `COMPARED_WINDOW` at most.

    A source that is seldom rolled out changes meanwhile. So few of its rollouts count, they say little, and it is
    rolled out more often until they say more.

    Args:
        memory: every rollout.
        purpose: such as `critic`.
    """
    rows = find_rows(memory, purpose)
    recent = int(np.sum(rows >= memory.size - JUDGED_WINDOW))
    return memory.returns[rows[-min(max(recent, 2), COMPARED_WINDOW) :]]


def probability_of_lead(some: np.ndarray, others: np.ndarray) -> float:
    """Φ((U − nm/2) / √(nm (n + m + 1)/12)): how surely n numbers are higher than m others, by their ranks.

    U counts the pairs in which the first is higher, ties as half (Mann and Whitney): one very high number is one
    rank, and scales do not matter.

    Args:
        some: (n,).
        others: (m,).
    """
    n, m = len(some), len(others)
    above, below = np.sum(some[:, None] > others[None, :]), np.sum(some[:, None] < others[None, :])
    z = (int(above) - int(below)) / 2 / math.sqrt(n * m * (n + m + 1) / 12)
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))
