"""What the rollouts of a run have in common."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym

from ddopg.config import Config
from ddopg.core.problem import Problem
from ddopg.policies import Policy


class RolloutSpec(NamedTuple):
    """Everything about a rollout but the proposal."""

    env: gym.Env
    given: gym.Env | str | None  # how the user named the environment; a name from a file is not one
    problem: Problem
    config: Config
    policy: Policy
    own_policy: bool  # the policy class is the user's, a function of this process
    time_limit: float | None  # seconds per rollout
