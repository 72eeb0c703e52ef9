"""A rollout is credited to the policy that made it: by its parameters, and by the actions it shows.

Other parameters are refused: the return would be counted as another policy's. Other actions get a remark: a robot's
log may be a little off, and only its owner knows why.
"""

from __future__ import annotations

import numpy as np

from ddopg.core.imitation import root_mean_square
from ddopg.core.problem import Problem
from ddopg.core.replay import act_along
from ddopg.core.state import Proposal, State, require_waiting
from ddopg.core.types import Trajectory
from ddopg.errors import TrajectoryError, require
from ddopg.policies import Policy

SUSPICIOUS = 1e-3  # of an action's scale: a log whose actions are further from the policy's gets a remark


def check_credit(trajectory: Trajectory, proposal: Proposal, state: State) -> None:
    """Refuse a trajectory of other parameters than the proposal's; none at all (nobody knows them) will do.

    Args:
        trajectory: what happened, with the parameters that acted.
        proposal: which of the pending proposals it is told as.
        state: the learner, which knows its own proposals.

    Raises:
        TrajectoryError: if the proposal does not wait here, or the trajectory is not its own.
    """
    waiting = {one.number: one for one in state.pending}
    require_waiting(waiting, proposal.number)
    require(
        np.array_equal(waiting[proposal.number].theta, proposal.theta),
        f"proposal {proposal.number} has other parameters than the proposal {proposal.number} that waits here: "
        "it is of another learner; tell it to the one that was asked",
        TrajectoryError,
    )
    if trajectory.theta.size and not np.array_equal(trajectory.theta, proposal.theta):
        raise TrajectoryError(
            f"the trajectory was made by {_find_owner(trajectory.theta, state)}, and is told as proposal "
            f"{proposal.number}'s; tell each proposal what its own `trajectory` packed, and anything else with "
            "`agent.add`"
        )


def describe_deviation(trajectory: Trajectory, policy: Policy, problem: Problem) -> str:
    """A sentence where the actions are not the policy's: it was not the one that ran, or time slipped.

    Args:
        trajectory: what happened, with the parameters that should have acted.
        policy: the policy class.
        problem: its action range; actions that were clipped to it are the policy's too.

    Returns:
        How far they are apart, or nothing where that is below `SUSPICIOUS` of the action's scale.
    """
    steps = trajectory.length
    # The padding is answered too: rows of one number are compiled once where the policy is a user's own.
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows differs, and is said
        own = np.asarray(act_along(policy, trajectory.theta, trajectory.observations))[:steps]
        shown, inside = trajectory.actions[:steps], np.clip(own, problem.low, problem.high)
        apart = np.minimum(root_mean_square(shown - own), root_mean_square(shown - inside))
    if np.all(apart <= SUSPICIOUS * np.asarray(policy.action_scale)):
        return ""
    return (
        f"the logged actions differ from the policy's by {np.array2string(apart, precision=3)} (root mean square): "
        "is each observation the one before its action, and did this policy run?"
    )


def _find_owner(theta: np.ndarray, state: State) -> str:
    for proposal in state.pending:
        if np.array_equal(theta, proposal.theta):
            return f"proposal {proposal.number}"
    for number, told in enumerate(state.memory.trajectories, start=1):
        if np.array_equal(theta, told.theta):
            return f"the policy of rollout {number}, which is in the memory"
    return "parameters that no proposal of this learner has"
