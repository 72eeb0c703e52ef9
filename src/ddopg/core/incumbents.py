"""Which policy is handed over: the moving average of the centre, or a stored policy that the data favour."""

from __future__ import annotations

import numpy as np

from ddopg.config import Config
from ddopg.core.memory import Memory, find_rows
from ddopg.core.policy_update import Improvement
from ddopg.core.proposals import recheck_share
from ddopg.core.sharing import needs_check
from ddopg.core.state import CHECK, CRITIC, Incumbent, Proposal, State
from ddopg.core.surrogate_data import Sample
from ddopg.core.types import SurrogateData

SPREAD_WINDOW = 20  # rollouts that say how much returns differ
BEST_WINDOW = 20  # successive rollouts that say what a policy is worth
NEGLIGIBLE = 0.01  # of the range of returns: a difference that does not matter


def choose_incumbent(
    state: State,
    proposal: Proposal,
    sample: Sample,
    data: SurrogateData,
    found: Improvement,
    config: Config,
) -> Incumbent:
    """The policy to hand over after an improvement.

    Args:
        state: the learner after the improvement, with the incumbent of before.
        proposal: what was rolled out last.
        sample: the selected trajectories and the scales.
        data: the same, stacked.
        found: what the improvement says of the moving average, the incumbent and the best stored policy.
        config: `incumbent.ema_rate` and `incumbent.rule`.

    Returns:
        The moving average where there is one, guarded by re-checks. Without one, and with the rule `estimate`, the
        stored policy of the highest objective, if that is higher than the incumbent's; otherwise that of before.
    """
    if config.incumbent.ema_rate:
        return _follow_average(state, proposal, sample, data, found, config)
    before, best = state.found_by_search, found.best_stored
    if best is None:
        return before
    if bool(best.better):
        return Incumbent(np.asarray(best.theta), float(best.estimate.mean) * sample.reward_scale)
    return Incumbent(before.theta, float(found.at_incumbent.mean) * sample.reward_scale)


def hand_over(state: State) -> State:
    """The incumbent is the better of two: the average of the search, and the critic's actor.

    Each is worth what its rollouts without noise have shown: the surrogate may be too hopeful. Where the actor is
    surely behind there are no new checks: the average of now replaces those of before, and counts for no less than
    they have shown.
    """
    if state.critic is None:
        return state
    memory, found = state.memory, state.found_by_search
    average = find_best(memory, CHECK, found.theta) or found
    if not needs_check(state):
        average = found._replace(value=max(found.value, average.value))
    actor = find_best(memory, CRITIC)
    best = actor if actor and actor.value > average.value else average
    return state._replace(incumbent=best, searched=found)


def find_best(memory: Memory, purpose: str, successor: np.ndarray | None = None) -> Incumbent | None:
    """A policy that moves and is rolled out now and then, at its best; None before there are two such rollouts.

    Policies of successive rollouts are near each other, so the mean return of some of them says what they are worth,
    with a standard error. Every rollout is judged by itself and one to nineteen before it, by the highest mean less a
    standard error. The newest within one standard error of the best, or within `NEGLIGIBLE`, is chosen, or one before
    it in its window whose return was not below the mean: luck has little to say, and a decline is not followed. The
    newer of two policies that are as good has been learnt from more.

    Args:
        memory: every rollout.
        purpose: of those that count: `check` or `critic`.
        successor: what the policy has become since, (D,): it stands for the newest rollout, where that is chosen.

    Returns:
        The policy, and the mean less a standard error.
    """
    rolled = find_rows(memory, purpose)
    if len(rolled) < 2:
        return None
    size = float(np.max(np.abs(memory.returns[rolled]))) or 1.0
    returns = memory.returns[rolled] / size  # squares of large numbers would overflow
    deviation = deviation_of_neighbours(returns[-SPREAD_WINDOW:])
    widths = np.arange(2, min(BEST_WINDOW, len(rolled)) + 1)
    values = np.full((len(widths), len(rolled)), -np.inf)
    for row, width in zip(values, widths, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(returns, int(width))
        row[width - 1 :] = np.mean(windows, axis=1) - deviation / np.sqrt(width)
    best = np.max(values, axis=0)
    used = widths[np.argmax(values, axis=0)]
    error = deviation / np.sqrt(used[np.argmax(best)])
    negligible = NEGLIGIBLE * float(np.ptp(returns))
    chosen = int(np.flatnonzero(best >= np.max(best) - max(error, negligible))[-1])
    if successor is not None and chosen == len(rolled) - 1:
        return Incumbent(successor, size * float(best[chosen]))
    window = np.arange(chosen + 1 - used[chosen], chosen + 1)
    # The mean of equal numbers may be rounded to one above all of them.
    mean = min(np.mean(returns[window]), np.max(returns[window]))
    good = window[returns[window] >= mean - negligible][-1]
    return Incumbent(memory.trajectories[rolled[good]].theta, size * float(best[chosen]))


def deviation_of_neighbours(returns: np.ndarray) -> float:
    """√(½ mean (Rᵢ₊₁ − Rᵢ)²): the standard deviation of returns around what changes slowly (von Neumann)."""
    return float(np.sqrt(0.5 * np.mean(np.square(np.diff(returns)))))


def _follow_average(
    state: State,
    proposal: Proposal,
    sample: Sample,
    data: SurrogateData,
    found: Improvement,
    config: Config,
) -> Incumbent:
    """The moving average; once the search anneals, it replaces the incumbent only for a reason.

    Either the surrogate says that it is better by more than a standard error, or it was re-checked and did not
    disappoint: its return was not below what the incumbent is believed to have by more than the spread of returns.
    Beside a critic it is worth its estimate less a standard error: `hand_over` compares it.
    """
    estimate, error = float(found.at_ema.mean), float(np.sqrt(found.at_ema.variance / found.at_ema.ess))
    average = Incumbent(np.asarray(found.ema_params), estimate * sample.reward_scale)
    if state.critic is not None:
        return average._replace(value=(estimate - error) * sample.reward_scale)
    if not recheck_share(state, config):
        return average
    believed = float(found.at_incumbent.mean)
    kept = Incumbent(state.found_by_search.theta, believed * sample.reward_scale)
    if estimate > believed + error:
        return average
    newest = _return_of_newest(state, sample, data)
    if proposal.purpose == CHECK and newest > believed - float(found.objective_scale):
        return kept._replace(theta=proposal.theta)
    return kept


def _return_of_newest(state: State, sample: Sample, data: SurrogateData) -> float:
    """The return of the newest rollout in reward scales, without the effect of its start where the data hold it."""
    rows = np.flatnonzero(sample.selection.indices == state.memory.size - 1)
    if len(rows):
        return float(np.sum(np.asarray(data.rewards)[rows[0]]))
    return float(state.memory.returns[-1]) / sample.reward_scale
