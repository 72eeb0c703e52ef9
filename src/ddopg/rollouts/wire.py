"""A rollout in another process: from bytes to bytes, the same as here to the last bit.

A request is a line of JSON that all rollouts of a run have in common (environment, problem, configuration, name of a
policy class, time limit) and is read once, a line about this one (seed, noise), and the parameters; a response is one
line of JSON and the arrays of the episode, or why there are none.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import gymnasium as gym

from ddopg._version import __version__
from ddopg.config import Config
from ddopg.core.policy_building import build_policy
from ddopg.core.problem import Problem, problem_from_dict
from ddopg.core.state import Proposal
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.envs.isolation import Isolated, make_env
from ddopg.errors import ConfigError, RolloutError, SpaceError, require
from ddopg.policies import import_policy
from ddopg.rollouts.playing import play_proposal
from ddopg.rollouts.spec import RolloutSpec
from ddopg.support.arrays import array_from_bytes, array_to_bytes
from ddopg.support.compilation import keep_compiled_programs
from ddopg.support.processes import Report
from ddopg.support.records import from_dict, to_dict


def to_wire(spec: RolloutSpec) -> dict[str, Any]:
    """Turn what all rollouts of a run have in common into plain values.

    Raises:
        ConfigError: the policy class is the user's own, and cannot be sent.
        SpaceError: the environment cannot be made from its name alone.
    """
    require(
        not spec.own_policy or bool(spec.policy.home),
        "a policy class of your own is a function of this process and cannot be sent to another one; name it, with "
        "policy=ddopg.policies.import_policy('MODULE:NAME') (--policy MODULE:NAME on the command line), or play the "
        "rollouts in this process: parallel=1",
    )
    return {
        "version": __version__,
        "env": _require_name(spec.given),
        "isolate": isinstance(spec.env, Isolated),
        "problem": spec.problem._asdict(),
        "config": to_dict(spec.config),
        "policy": spec.policy.home,
        "time_limit": spec.time_limit,
    }


def encode_request(common: dict[str, Any], proposal: Proposal) -> bytes:
    """Encode one rollout: `common` is what `to_wire` gives."""
    about = {"seed": proposal.seed, "noise": proposal.noise}
    return f"{json.dumps(common)}\n{json.dumps(about)}\n".encode() + array_to_bytes(proposal.theta)


def handle_request(content: bytes, report: Report | None = None) -> bytes:
    """Play what a request asks for, on the other side. The environment is made once, and kept."""
    common, head, parameters = content.split(b"\n", 2)
    about = json.loads(head)
    theta = array_from_bytes(parameters, "float32", (len(parameters) // 4,))
    try:
        proposal = Proposal(0, theta, about["seed"], noise=tuple(about["noise"]))
        spec = _spec_from_wire(common)
        return _encode_trajectory(play_proposal(spec, proposal))
    except RolloutError as error:
        return json.dumps({"error": str(error), "steps": error.steps}).encode() + b"\n"
    except (ConfigError, SpaceError) as error:
        return json.dumps({"refused": str(error)}).encode() + b"\n"


def decode_response(content: bytes, proposal: Proposal, problem: Problem) -> Trajectory | RolloutError:
    """Decode what became of a rollout.

    Raises:
        SpaceError: no rollout can be played there.
    """
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


def _encode_trajectory(trajectory: Trajectory) -> bytes:
    steps = trajectory.length
    about = {"steps": steps, "terminated": trajectory.terminated, "truncated": trajectory.truncated}
    arrays = (trajectory.observations, trajectory.actions, trajectory.rewards)
    return b"".join(
        [json.dumps(about).encode() + b"\n", *(array_to_bytes(array[:steps]) for array in arrays)]
    )


def _require_name(given: gym.Env | str | None) -> str:
    """Return the name by which another process can make the environment."""
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
def _spec_from_wire(common: bytes) -> RolloutSpec:
    about = json.loads(common)
    require(
        about["version"] == __version__,
        f"there is ddopg {__version__}, here {about['version']}; install the same version everywhere",
    )
    keep_compiled_programs()  # of tasks that are played as one
    name, problem = about["env"], problem_from_dict(about["problem"])
    config = from_dict(about["config"], Config)
    own = import_policy(about["policy"]) if about["policy"] else None
    policy = build_policy(problem, config, own)
    env = _make_once(name, about["isolate"])
    return RolloutSpec(env, name, problem, config, policy, own is not None, about["time_limit"])


@cache
def _make_once(name: str, isolate: bool) -> gym.Env:
    try:
        env = make_env(name, isolate)
    except (SpaceError, ConfigError, RolloutError):
        raise
    except Exception as error:
        raise SpaceError(f"{name} cannot be made: {type(error).__name__}: {error}") from error
    assert env is not None
    return env
