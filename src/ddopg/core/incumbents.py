"""Which policy is handed over: the moving average of the centre, or a stored policy that the data favour."""

from __future__ import annotations

import numpy as np

from ddopg.config import Config
from ddopg.core.policy_update import Improvement
from ddopg.core.proposals import recheck_share
from ddopg.core.state import Incumbent, Proposal, State
from ddopg.core.surrogate_data import Sample
from ddopg.core.types import SurrogateData


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
    best = found.best_stored
    if best is None:
        return state.incumbent
    if bool(best.better):
        return Incumbent(np.asarray(best.theta), float(best.estimate.mean) * sample.reward_scale)
    return Incumbent(state.incumbent.theta, float(found.at_incumbent.mean) * sample.reward_scale)


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
    """
    average = Incumbent(np.asarray(found.ema_params), float(found.at_ema.mean) * sample.reward_scale)
    if not recheck_share(state, config):
        return average
    believed = float(found.at_incumbent.mean)
    kept = Incumbent(state.incumbent.theta, believed * sample.reward_scale)
    if float(found.at_ema.mean) > believed + float(np.sqrt(found.at_ema.variance / found.at_ema.ess)):
        return average
    newest = _return_of_newest(state, sample, data)
    if proposal.purpose == "check" and newest > believed - float(found.objective_scale):
        return kept._replace(theta=proposal.theta)
    return kept


def _return_of_newest(state: State, sample: Sample, data: SurrogateData) -> float:
    """The return of the newest rollout in reward scales, without the effect of its start where the data hold it."""
    rows = np.flatnonzero(sample.selection.indices == state.memory.size - 1)
    if len(rows):
        return float(np.sum(np.asarray(data.rewards)[rows[0]]))
    return float(state.memory.returns[-1]) / sample.reward_scale
