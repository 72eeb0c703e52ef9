"""A rollout elsewhere: from bytes to bytes, the same as here to the last bit.

An order is one line of JSON (environment, problem, configuration, seed, time limit) and the parameters; an answer is
one line of JSON and the arrays of the episode, or why there are none.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ddopg._version import __version__
from ddopg.config import Config
from ddopg.core.problem import Problem, build_policy, problem_from_dict
from ddopg.core.state import Proposal
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.envs.isolation import Isolated, made
from ddopg.errors import ConfigError, RolloutError, SpaceError, require
from ddopg.policies import Policy
from ddopg.rollouts.playing import require_same, rollout
from ddopg.rollouts.workers import Report
from ddopg.support.arrays import array_from_bytes, array_to_bytes
from ddopg.support.compilation import keep_compiled_programs
from ddopg.support.records import from_dict, to_dict


class Game(NamedTuple):
    """What is played: everything about a rollout but the proposal."""

    env: gym.Env
    given: gym.Env | str | None  # how the user named it; a name from a file is not one
    problem: Problem
    config: Config
    policy: Policy
    own_policy: bool  # the policy class is the user's, a function
    time_limit: float | None

    def play(self, theta: np.ndarray, seed: int) -> Trajectory:
        """One rollout, in this process."""
        require_same(self.problem, self.env, self.problem.horizon)
        return rollout(self.env, self.policy, theta, seed, self.problem.horizon, self.time_limit)


def rules_of(game: Game) -> dict[str, Any]:
    """The game in plain values, if it can be played elsewhere."""
    require(
        not game.own_policy,
        "a policy class of your own is a function of this process and cannot be sent to another one; use the "
        "configured policy (policy.hidden), or play the rollouts in this process: parallel=1",
    )
    return {
        "version": __version__,
        "env": _name(game.given),
        "isolate": isinstance(game.env, Isolated),
        "problem": game.problem._asdict(),
        "config": to_dict(game.config),
        "time_limit": game.time_limit,
    }


def order(rules: dict[str, Any], proposal: Proposal) -> bytes:
    """What the other side must know."""
    return json.dumps(rules | {"seed": proposal.seed}).encode() + b"\n" + array_to_bytes(proposal.theta)


def play(content: bytes, report: Report | None = None) -> bytes:
    """The other side: from an order to an answer. The environment is made once, and kept."""
    head, _, parameters = content.partition(b"\n")
    about = json.loads(head)
    theta = array_from_bytes(parameters, "float32", (len(parameters) // 4,))
    try:
        game = _game(json.dumps({**about, "seed": None}))
        return _packed(game.play(theta, about["seed"]))
    except RolloutError as error:
        return json.dumps({"error": str(error), "steps": error.steps}).encode() + b"\n"
    except (ConfigError, SpaceError) as error:
        return json.dumps({"refused": str(error)}).encode() + b"\n"


def answered(content: bytes, proposal: Proposal, problem: Problem) -> Trajectory | RolloutError:
    """What became of an order."""
    head, _, arrays = content.partition(b"\n")
    about = json.loads(head)
    if "refused" in about:
        raise SpaceError(f"the rollouts cannot be played there: {about['refused']}")
    if "error" in about:
        failure = RolloutError(about["error"])
        failure.steps = about["steps"]
        return failure
    steps, sizes = about["steps"], (4 * problem.observation_size, 4 * problem.action_size)
    first, second = steps * sizes[0], steps * sum(sizes)
    return make_trajectory(
        proposal.theta,
        array_from_bytes(arrays[:first], "float32", (steps, problem.observation_size)),
        array_from_bytes(arrays[first:second], "float32", (steps, problem.action_size)),
        array_from_bytes(arrays[second:], "float64", (steps,)),
        horizon=problem.horizon,
        terminated=about["terminated"],
        truncated=about["truncated"],
        seed=proposal.seed,
    )


def _packed(trajectory: Trajectory) -> bytes:
    steps = trajectory.length
    about = {"steps": steps, "terminated": trajectory.terminated, "truncated": trajectory.truncated}
    arrays = (trajectory.observations, trajectory.actions, trajectory.rewards)
    return b"".join(
        [json.dumps(about).encode() + b"\n", *(array_to_bytes(array[:steps]) for array in arrays)]
    )


def _name(given: gym.Env | str | None) -> str:
    """By which another process can make the environment."""
    if isinstance(given, str):
        return given
    spec = given.spec if given is not None else None
    require(
        spec is not None and gym.registry.get(spec.id) == spec,
        f"rollouts elsewhere need an environment that can be made by its name alone, got {given}; give the id, as in "
        'DDOPG("Pendulum-v1"), or DDOPG("module:Name-v0") where a module of yours registers it (--env when resuming)',
        SpaceError,
    )
    assert spec is not None
    return spec.id


@cache
def _game(text: str) -> Game:
    about = json.loads(text)
    require(
        about["version"] == __version__,
        f"there is ddopg {__version__}, here {about['version']}; install the same version everywhere",
    )
    keep_compiled_programs()  # of tasks that are played as one
    env, problem = _env(about["env"], about["isolate"]), problem_from_dict(about["problem"])
    config = from_dict(about["config"], Config)
    return Game(env, about["env"], problem, config, build_policy(problem, config), False, about["time_limit"])


@cache
def _env(name: str, isolate: bool) -> gym.Env:
    try:
        env = made(name, isolate)
    except (SpaceError, ConfigError, RolloutError):
        raise
    except Exception as error:
        raise SpaceError(f"{name} cannot be made: {type(error).__name__}: {error}") from error
    assert env is not None
    return env
