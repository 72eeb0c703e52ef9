"""The rows of a run store: rollouts, leaves of the state, the description of a run; each to a row and back.

Arrays are little-endian bytes in row-major order, without padding. What comes from a file is measured before anything
is made of it, and every row has a seal: SHA-256 over its values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.config import Config
from ddopg.core.algorithm import Info
from ddopg.core.problem import Problem, problem_from_dict
from ddopg.core.state import Proposal, State
from ddopg.core.types import Description, Evaluation, Trajectory, make_trajectory
from ddopg.errors import ArtefactError, ConfigError, TrajectoryError, require
from ddopg.storage.leaves import ARRAYS, Leaf, Length
from ddopg.support.arrays import array_from_bytes, array_to_bytes
from ddopg.support.records import from_dict, to_dict

MOST_NUMBERS = 2**26  # in one padded rollout, or in the parameters of a policy


class Rollout(NamedTuple):
    """A rollout as it is stored."""

    number: int  # from 1, in the order they were told
    proposal: int
    purpose: str
    value: float  # the (discounted) return
    trajectory: Trajectory


def described(description: Description) -> dict[str, str]:
    """The rows of the table `run`."""
    values = {
        "version": description.version,
        "environment": description.environment,
        "problem": description.problem._asdict(),
        "config": to_dict(description.config),
        "command": description.command,
        **({"own_policy": description.own_policy} if description.own_policy else {}),
    }
    texts = {name: json.dumps(value) for name, value in values.items()}
    return texts | {"seal": _seal_of_texts(texts)}


def understood(texts: dict[str, Any]) -> Description:
    """The inverse of `described`."""
    seal = texts.pop("seal")
    require(seal == _seal_of_texts(texts), "the description of the run was changed", ArtefactError)
    values = {name: json.loads(text) for name, text in texts.items()}
    try:
        config = from_dict(values["config"], Config)
    except ConfigError as error:
        raise ArtefactError(f"the configuration is not one of this version: {error}") from error
    problem, environment = problem_from_dict(values["problem"]), values["environment"]
    numbers = problem.horizon * (problem.observation_size + problem.action_size + 2)
    require(numbers <= MOST_NUMBERS, f"a rollout of {numbers} numbers is too long", ArtefactError)
    require(environment is None or type(environment) is str, "the environment has no name", ArtefactError)
    require(type(values["command"]) is dict, "the command is no table", ArtefactError)
    size = values.get("own_policy", 0)
    require(
        type(size) is int and 0 <= size <= MOST_NUMBERS, f"a policy of {size!r} parameters", ArtefactError
    )
    return Description(problem, config, environment, values["command"], str(values["version"]), size)


def rollout_row(
    number: int, proposal: Proposal, trajectory: Trajectory, value: float, info: Info
) -> tuple[Any, ...]:
    """A row of the table `rollout`, without its seal."""
    steps = trajectory.length
    arrays = (trajectory.observations, trajectory.actions, trajectory.rewards)
    return (
        number,
        proposal.number,
        proposal.purpose,
        trajectory.seed,
        steps,
        int(trajectory.terminated),
        int(trajectory.truncated),
        value,
        array_to_bytes(trajectory.theta),
        *(array_to_bytes(array[:steps]) for array in arrays),
        _info_text(info),
    )


def rollouts_of(
    found: Iterable[Sequence[Any]], problem: Problem, size: int
) -> Iterator[tuple[Rollout, bytes]]:
    """The rows of the table `rollout` in order, each checked, with its seal, which covers those before it too."""
    chain = b""
    for expected, row in enumerate(found, start=1):
        *content, seal = row
        chain = seal_of(chain, *content)
        check_seal(seal, chain, f"rollout {content[0]}")
        require(content[0] == expected, f"rollout {expected} is missing", ArtefactError)
        trajectory = trajectory_of(content, problem, size)
        info_of(content[12])
        yield Rollout(content[0], content[1], content[2], content[7], trajectory), chain


def trajectory_of(row: Sequence[Any], problem: Problem, size: int) -> Trajectory:
    """The inverse of `rollout_row`."""
    number, _, _, seed, steps, terminated, truncated, value, theta, observations, actions, rewards, _ = row
    require(
        type(steps) is int and 0 < steps <= problem.horizon and type(seed) is int and math.isfinite(value),
        f"rollout {number} has {steps} steps, expected 1 to {problem.horizon}",
        ArtefactError,
    )
    try:
        return make_trajectory(
            array_from_bytes(theta, "float32", (size,)),
            array_from_bytes(observations, "float32", (steps, problem.observation_size)),
            array_from_bytes(actions, "float32", (steps, problem.action_size)),
            array_from_bytes(rewards, "float64", (steps,)),
            horizon=problem.horizon,
            terminated=bool(terminated),
            truncated=bool(truncated),
            seed=seed,
        )
    except TrajectoryError as error:
        raise ArtefactError(f"rollout {number}: {error}") from error


def columns_of_log() -> tuple[str, ...]:
    """The names in a row of the log."""
    return tuple(name.rstrip("_") for name in Info._fields)


def named(info: Info) -> dict[str, Any]:
    """A row of the log: names and values."""
    return dict(zip(columns_of_log(), info, strict=True))


def info_of(text: str) -> dict[str, Any]:
    """A row of the log: names and values as `Info` had them."""
    values = json.loads(text)
    require(type(values) is dict, "a row of the log is no table", ArtefactError)
    special = {None: math.nan, "inf": math.inf, "-inf": -math.inf}
    return {name: special[v] if v is None or v in ("inf", "-inf") else v for name, v in values.items()}


def evaluation_of(row: Sequence[Any]) -> Evaluation:
    """A row of the table `evaluation`; SQLite has no NaN and says NULL."""
    return Evaluation._make(math.nan if value is None else value for value in row)


def leaf_row(leaf: Leaf) -> tuple[str, str, Any]:
    """(kind, shape, value) in the table `state`."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.name, json.dumps(leaf.shape), array_to_bytes(leaf)
    if isinstance(leaf, Length):
        return "tuple", "", leaf.members
    if type(leaf) is int and abs(leaf) >= 2**63:
        return "int", "", str(leaf)
    return type(leaf).__name__, "", int(leaf) if type(leaf) is bool else leaf


def leaf_of(kind: str, shape: str, value: Any) -> Leaf:
    """The inverse of `leaf_row`."""
    if kind in ARRAYS and shape:
        sizes = json.loads(shape)
        require(all(type(n) is int and n >= 0 for n in sizes), f"a shape of {shape}", ArtefactError)
        return array_from_bytes(value, kind, tuple(sizes))
    if kind == "float":
        return math.nan if value is None else float(value)
    if kind not in ("tuple", "int", "bool", "str", "NoneType"):
        raise ArtefactError(f"a value of unknown kind {kind!r}")
    if kind == "NoneType":
        return None
    return {"tuple": Length, "int": int, "bool": bool, "str": str}[kind](value)


def seal_of(*values: Any) -> bytes:
    """SHA-256 over the values, each with its type and length; NaN and NULL are the same, as are 0.0 and −0.0, between
    which a REAL column does not distinguish."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, bytes):
            kind, data = b"b", value
        elif value is None or value != value:
            kind, data = b"n", b""
        else:
            kind, data = (
                type(value).__name__[0].encode(),
                repr(value + 0.0 if type(value) is float else value).encode(),
            )
        digest.update(kind + len(data).to_bytes(8, "little") + data)
    return digest.digest()


def check_seal(found: Any, expected: bytes, what: str) -> None:
    """Refuse what was changed after it was written."""
    require(found == expected, f"{what} does not fit its seal: it was damaged or changed", ArtefactError)


def check_state(
    state: State, found: Mapping[str, Leaf], fresh: Mapping[str, Leaf], lengths: Sequence[int]
) -> None:
    """Counts must be counts, and what has the same name in a fresh state must have its shape and no NaN.

    `lengths` are the steps of each rollout that was asked for.
    """
    for name, leaf in found.items():
        require(type(leaf) is not int or leaf >= 0, f"{name} is negative", ArtefactError)
        like = fresh.get(name)
        if isinstance(like, np.ndarray) and isinstance(leaf, np.ndarray) and not name.startswith("memory."):
            fits = (leaf.dtype, leaf.shape) == (like.dtype, like.shape) and not np.isnan(leaf).any()
            require(fits, f"{name} is {leaf.dtype} {leaf.shape}, or not a number", ArtefactError)
    size = state.centre.shape
    require(
        state.steps == sum(lengths)
        and state.memory.longest == max((t.length for t in state.memory.trajectories), default=0)
        and state.told == len(lengths)
        and all(p.theta.shape == size and p.theta.dtype == np.float32 for p in state.pending),
        "the state does not fit the rollouts",
        ArtefactError,
    )


def _info_text(info: Info) -> str:
    return json.dumps({name: _finite_or_text(value) for name, value in named(info).items()})


def _finite_or_text(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _seal_of_texts(texts: Mapping[str, str]) -> str:
    return seal_of(*(part for item in sorted(texts.items()) for part in item)).hex()
