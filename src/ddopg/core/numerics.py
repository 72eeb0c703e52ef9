"""Numbers that cannot poison: returns of any size are measured in a unit that float32 can hold, and what is odd about
the data is said in words. Ordinary data pass through untouched, bit for bit.
"""

from __future__ import annotations

import math

import numpy as np

from ddopg.core.memory import Memory
from ddopg.core.optimisers import Outcome
from ddopg.core.policy_update import Improvement
from ddopg.core.selection import Selection
from ddopg.core.surrogate_data import Sample

ORDINARY = (2.0**-40, 2.0**40)  # largest rewards and returns whose squares are safe in float32
LARGEST_BOUND = 2.0**60  # of ‖R‖∞ in the unit of the selected rewards: a disaster of long ago may be larger


def choose_reward_scale(memory: Memory, selection: Selection) -> float:
    """1, or the power of two nearest to the largest selected reward or return if that is out of the ordinary."""
    rewards = [memory.trajectories[i].rewards for i in selection.indices]
    largest = float(max(np.max(np.abs(rewards)), np.max(np.abs(memory.returns[selection.indices]))))
    low, high = ORDINARY
    return 1.0 if low <= largest <= high or largest == 0 else 2.0 ** (math.frexp(largest)[1] - 1)


def is_finite(found: Improvement) -> bool:
    """Whether everything that would be kept of an improvement is a number."""
    estimates = (found.at_centre.mean, found.at_ema.mean, found.at_incumbent.mean)
    kept = (found.search.theta, found.ema_params, *estimates)
    return all(bool(np.isfinite(np.asarray(value)).all()) for value in kept)


def describe_oddities(memory: Memory, sample: Sample, sensitivity: np.ndarray, found: Improvement) -> str:
    """What is odd about the selected data and how it was met, in words; empty where nothing is."""
    indices, reward_scale = sample.selection.indices, sample.reward_scale
    trajectories = [memory.trajectories[i] for i in indices]
    returns, first = memory.returns[indices], trajectories[0].theta
    same = len(trajectories) > 1 and all(np.array_equal(t.theta, first) for t in trajectories[1:])
    finite = is_finite(found) and int(found.search.outcome) != Outcome.NOT_FINITE
    said = {
        "a single trajectory": len(trajectories) == 1,
        "all returns are equal, none is preferred": len(trajectories) > 1 and np.ptp(returns) == 0,
        "all policies are the same": same,
        f"returns are measured in units of 2^{math.frexp(reward_scale)[1] - 1}": reward_scale != 1,
        "readings beyond 1e19 have no unit, their gains stay": not np.isfinite(sensitivity).all(),
        "the objective was not finite, the policy stays": not finite,
    }
    return "; ".join(text for text, holds in said.items() if holds)
