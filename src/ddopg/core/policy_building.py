"""The policy class that a configuration asks for on a problem."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ddopg.config import Config
from ddopg.controllers import NEEDS, READY_MADE
from ddopg.core.problem import Problem
from ddopg.errors import UnknownNameError, unknown
from ddopg.policies import Policy, make_policy


def build_policy(problem: Problem, config: Config, network: Policy | None = None) -> Policy:
    """The policy class of a configuration on a problem, or a class of the user's own in its place.

    Raises:
        UnknownNameError: if the configuration names a controller that does not exist.
        SpaceError: if the policy does not fit the problem.
    """
    if network is None and config.policy.controller:
        network = build_ready_made(config.policy.controller, problem)
    low, high = np.asarray(problem.low), np.asarray(problem.high)
    return make_policy(config.policy, problem.observation_size, low, high, network)


@lru_cache(maxsize=64)
def build_ready_made(name: str, problem: Problem) -> Policy:
    """The controller of that name for a problem; the same record each time, so that nothing is compiled twice."""
    if name not in READY_MADE:
        raise _refuse_name(name)
    return READY_MADE[name](problem.observation_size, problem.low, problem.high)


def _refuse_name(name: str) -> UnknownNameError:
    """Why a controller cannot be chosen by this name, and what to write instead."""
    by_name, declared = " and ".join(READY_MADE), ", ".join(NEEDS)
    example = name if name in NEEDS else "pid"
    remedy = (
        f"declare it in a file of your own, such as mine.py with tuned = ddopg.controllers.{example}(...), and give "
        "it as policy=... (--policy mine:tuned on the command line); docs/controllers.md shows how"
    )
    if name in NEEDS:
        return UnknownNameError(
            f"{name} cannot be chosen by its name alone, as {by_name} can: it must know {NEEDS[name]}; {remedy}. "
            f"Ready-made are {by_name}, {declared}"
        )
    found = unknown("ready-made controller", name, [*READY_MADE, *NEEDS])
    return UnknownNameError(
        f"{found} (by its name alone: {by_name}; {declared} must know more). For these, {remedy}"
    )
