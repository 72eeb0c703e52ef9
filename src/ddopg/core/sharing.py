"""Whose turn it is: the search and the critic's actor share the environment steps, by what their rollouts brought."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ddopg.core.memory import Memory, count_rows, find_rows
from ddopg.core.state import (
    ADDED,
    CHECK,
    CRITIC,
    DESIGN,
    EXPLORE,
    NOISY,
    State,
    count_of_search,
    indices_of_critic,
    is_of_search,
)

ALMOST_SURE = 0.95  # a probability
CLEAR = 0.8  # the probability from which a lead counts
COMPARED_WINDOW = 8  # rollouts of each source that say which of them is better
LEAST_SHARE = 0.1  # of the steps, for the search and for the critic
SEARCH_KEEPS = 0.35  # of the steps at least, at first
EXPERIENCED = 24  # episodes' worth of steps after which the search keeps less
SHARE_BESIDE_PROGRESS = 0.35  # the most that the critic gets while the search makes progress
YOUNG = 6  # rollouts after the design until which search and actor have half of the steps each
JUDGED_WINDOW = 40  # rollouts after which one says nothing any more about its source
SHARE_WINDOW = 5  # rollouts in which the critic gets its share
RECENT_WINDOW = 20  # rollouts that say how long one is nowadays


def is_turn_of_critic(state: State) -> bool:
    """Whether the next proposal is the critic's: it is, where it had less than its share of the latest steps.

    Steps are what rollouts cost. Those of long ago count less, by a factor e for every `SHARE_WINDOW` rollouts of
    usual length. Rollouts under way count as usual ones, and so does the next one.
    """
    lengths = state.memory.lengths.astype(float)
    usual = float(np.mean(lengths[-RECENT_WINDOW:]))
    lengths = np.append(lengths, [usual] * len(state.pending))
    ago = np.sum(lengths) - np.cumsum(lengths)
    counted = lengths * np.exp(-ago / (SHARE_WINDOW * usual))
    own = np.append(
        indices_of_critic(state.memory),
        [state.memory.size + i for i, p in enumerate(state.pending) if not is_of_search(p.purpose)],
    ).astype(int)
    return np.sum(counted[own]) + usual / 2 < critic_share(state) * (np.sum(counted) + usual)


def critic_share(state: State) -> float:
    """Share of the steps that the critic gets: how likely its actor is better than the search.

    It is ½ while either is young, `LEAST_SHARE` at least, and no more than `search_keeps` leaves. A search that makes
    progress keeps most of the steps, unless the actor is almost surely better: what is behind today may end higher.
    For the same reason an actor that has learnt gets most of them from a search that had its chance and stands still.
    """
    lead = lead_of_actor(state.memory)
    if lead is None or is_young(state.memory):
        return 0.5
    most = 1 - search_keeps(state)
    if lead >= ALMOST_SURE:
        return most
    if makes_progress(state.memory):
        return float(np.clip(lead, LEAST_SHARE, SHARE_BESIDE_PROGRESS))
    if episodes_so_far(state) > EXPERIENCED and actor_has_learnt(state.memory):
        return most
    return float(np.clip(lead, LEAST_SHARE, most))


def is_young(memory: Memory) -> bool:
    """Whether the search or the actor had too few rollouts to be judged by them: both learn quickly at first."""
    of_search = count_of_search(memory) - count_rows(memory, DESIGN, ADDED)
    return min(of_search, count_rows(memory, CRITIC, NOISY)) < YOUNG


def search_keeps(state: State) -> float:
    """The least share of the search where the actor leads: it falls as one over the experience, to `LEAST_SHARE`.

    A search that is still behind after many episodes' worth of steps has had its chance.
    """
    return max(LEAST_SHARE, SEARCH_KEEPS * min(1.0, EXPERIENCED / max(episodes_so_far(state), 1.0)))


def episodes_so_far(state: State) -> float:
    """Environment steps so far, in episodes of the longest kind."""
    return state.steps / state.memory.trajectories[0].horizon


def lead_of_actor(memory: Memory, judged_by: Sequence[str] = (CHECK, EXPLORE, DESIGN)) -> float | None:
    """How likely the actor is better than the search, by the ranks of the better half of recent rollouts of each.

    The actor's rollouts with noise count too: a quick learner has soon left behind what its few others have shown.
    Of each only the better half counts: rollouts that try something fail more often than those that try nothing.

    Args:
        memory: every rollout.
        judged_by: purposes of the search's rollouts; the first of which there are two stands for the search.

    Returns:
        A probability; None until the search was rolled out twice, and the actor without noise.
    """
    actor = recent_returns(memory, CRITIC, NOISY)
    search = next((found for found in (recent_returns(memory, p) for p in judged_by) if len(found) > 1), None)
    if count_rows(memory, CRITIC) < 2 or search is None:
        return None
    return probability_of_lead(better_half(actor), better_half(search))


def better_half(returns: np.ndarray) -> np.ndarray:
    """The higher half of some returns (n,), two at least: what a source can reach while it still tries."""
    return np.sort(returns)[-max(len(returns) // 2, 2) :]


def is_clear(probability: float | None) -> bool:
    """Whether a lead is more than likely."""
    return probability is not None and probability >= CLEAR


def makes_progress(memory: Memory) -> bool:
    """Whether the latest rollouts of the search are clearly better than those before, at first than its design and
    what was added in its place."""
    rows = find_rows(memory, EXPLORE, CHECK)
    if len(rows) < COMPARED_WINDOW // 2:
        return False
    if len(rows) < COMPARED_WINDOW:
        latest, before = rows, find_rows(memory, DESIGN, ADDED)
    else:
        newer = min(len(rows) // 2, COMPARED_WINDOW)
        latest, before = rows[-newer:], rows[:-newer][-COMPARED_WINDOW:]
    return is_clear(probability_of_lead(memory.returns[latest], memory.returns[before]))


def actor_has_learnt(memory: Memory) -> bool:
    """Whether the newer half of the actor's rollouts is almost surely better than the older half: it gains from steps
    here, and may go on to do so."""
    returns = memory.returns[find_rows(memory, CRITIC, NOISY)]
    older = len(returns) // 2
    return probability_of_lead(returns[older:], returns[:older]) >= ALMOST_SURE


def needs_check(state: State) -> bool:
    """Whether rollouts must decide between search and actor; not where the actor is below even perturbed policies."""
    lead = lead_of_actor(state.memory, (EXPLORE,))
    return lead is None or lead >= 1 - ALMOST_SURE


def recent_returns(memory: Memory, *purposes: str) -> np.ndarray:
    """The latest returns of some purposes: of `JUDGED_WINDOW` rollouts, two at least, `COMPARED_WINDOW` at most.

    A source that is seldom rolled out changes meanwhile. So few of its rollouts count, they say little, and it is
    rolled out more often until they say more.

    Args:
        memory: every rollout.
        purposes: such as `critic`.
    """
    rows = find_rows(memory, *purposes)
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
    n, m, ordered = len(some), len(others), np.sort(others)
    above = np.sum(np.searchsorted(ordered, some, side="left"))
    below = n * m - np.sum(np.searchsorted(ordered, some, side="right"))
    z = (int(above) - int(below)) / 2 / math.sqrt(n * m * (n + m + 1) / 12)
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))
