"""The policy class that a configuration asks for on a problem."""

from __future__ import annotations

import numpy as np

from ddopg.config import Config
from ddopg.core.problem import Problem
from ddopg.policies import Policy, make_policy


def build_policy(problem: Problem, config: Config, network: Policy | None = None) -> Policy:
    """The policy class of a configuration on a problem, or a network of the user's own in its place."""
    low, high = np.asarray(problem.low), np.asarray(problem.high)
    return make_policy(config.policy, problem.observation_size, low, high, network)
