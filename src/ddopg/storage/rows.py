"""The rows of a run store: rollouts, what each `tell` reported, evaluations, the description of a run; to and from
values of the package.

Arrays are little-endian bytes in row-major order, without padding. What comes from a file is measured before anything
is made of it, and every row has a checksum: SHA-256 over its values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.config import Config
from ddopg.core.algorithm import Info, check_names
from ddopg.core.problem import Problem, problem_from_dict
from ddopg.core.state import Proposal
from ddopg.core.types import Description, Evaluation, Trajectory, make_trajectory
from ddopg.errors import ArtefactError, ConfigError, TrajectoryError, require
from ddopg.parameters import parameters_from_dict, parameters_to_dict
from ddopg.support.arrays import array_from_bytes, array_to_bytes
from ddopg.support.records import from_dict, to_dict

MOST_NUMBERS = 2**26  # in one padded rollout, or in the parameters of a policy
CONTEXT = "context"  # in the JSON of a row of the log, and no column of the log
LOG_COLUMNS = tuple(name.rstrip("_") for name in Info._fields)
"""The names in a row of the log."""


class Rollout(NamedTuple):
    """A rollout as it is stored."""

    number: int  # from 1, in the order they were told
    proposal: int
    purpose: str
    value: float  # the (discounted) return
    trajectory: Trajectory


def description_to_rows(description: Description) -> dict[str, str]:
    """The rows of the table `run`: name → JSON, and the checksum of all of them."""
    values = {
        "version": description.version,
        "environment": description.environment,
        "problem": description.problem._asdict(),
        "config": to_dict(description.config),
        "command": description.command,
        **({"own_policy": description.own_policy} if description.own_policy else {}),
        **({"policy_home": description.policy_home} if description.policy_home else {}),
        **({"parameters": parameters_to_dict(description.parameters)} if description.parameters else {}),
    }
    texts = {name: json.dumps(value) for name, value in values.items()}
    return texts | {"checksum": digest_texts(texts)}


def description_from_rows(texts: Mapping[str, Any]) -> Description:
    """The inverse of `description_to_rows`.

    Raises:
        ArtefactError: for rows that were changed, or that describe no run of this version.
    """
    texts = dict(texts)
    check_checksum(texts.pop("checksum"), digest_texts(texts), "the description of the run")
    values = {name: json.loads(text) for name, text in texts.items()}
    try:
        config = from_dict(values["config"], Config)
        check_names(config)
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
    home = values.get("policy_home", "")
    require(type(home) is str, "the policy class has no name", ArtefactError)
    try:
        declared = parameters_from_dict(values.get("parameters", {}))
    except ConfigError as error:
        raise ArtefactError(f"the parameters are none that could be declared: {error}") from error
    version = str(values["version"])
    return Description(problem, config, environment, values["command"], version, size, declared, home)


def rollout_to_row(
    number: int, proposal: Proposal, trajectory: Trajectory, value: float, info: Info
) -> tuple[Any, ...]:
    """A row of the table `rollout`, without its checksum."""
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
        info_to_text(info, trajectory.context),
    )


def rollouts_from_rows(
    found: Iterable[Sequence[Any]], problem: Problem, size: int
) -> Iterator[tuple[Rollout, bytes]]:
    """The rows of the table `rollout` in order, each checked, with its checksum, which covers those before it too.

    Args:
        found: the rows.
        problem: what the run is about: it says the shapes.
        size: D, the number of parameters of the policy.

    Raises:
        ArtefactError: for a row that is missing, was changed, or does not fit the problem.
    """
    chain = b""
    for expected, row in enumerate(found, start=1):
        *content, checksum = row
        chain = digest(chain, *content)
        check_checksum(checksum, chain, f"rollout {content[0]}")
        require(content[0] == expected, f"rollout {expected} is missing", ArtefactError)
        trajectory = trajectory_from_row(content, problem, size)
        info_from_text(content[12])
        yield Rollout(content[0], content[1], content[2], content[7], trajectory), chain


def trajectory_from_row(row: Sequence[Any], problem: Problem, size: int) -> Trajectory:
    """The trajectory in a row that `rollout_to_row` made."""
    number, _, _, seed, steps, terminated, truncated, value, theta, observations, actions, rewards, text = row
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
            context=json.loads(text).get(CONTEXT),
        )
    except TrajectoryError as error:
        raise ArtefactError(f"rollout {number}: {error}") from error


def info_to_dict(info: Info) -> dict[str, Any]:
    """A row of the log: names and values."""
    return dict(zip(LOG_COLUMNS, info, strict=True))


def info_to_text(info: Info, context: np.ndarray) -> str:
    """A row of the log as JSON, which has neither NaN nor infinities; and the context, where there is one."""
    told = {CONTEXT: context.tolist()} if context.size else {}
    return json.dumps({name: _finite_or_text(value) for name, value in info_to_dict(info).items()} | told)


def info_from_text(text: str) -> dict[str, Any]:
    """A row of the log: names and values as `Info` had them."""
    values = json.loads(text)
    require(type(values) is dict, "a row of the log is no table", ArtefactError)
    values.pop(CONTEXT, None)
    special = {None: math.nan, "inf": math.inf, "-inf": -math.inf}
    return {name: special[v] if v is None or v in ("inf", "-inf") else v for name, v in values.items()}


def evaluation_from_row(row: Sequence[Any]) -> Evaluation:
    """A row of the table `evaluation`; SQLite has no NaN and says NULL."""
    return Evaluation._make(math.nan if value is None else value for value in row)


def digest(*values: Any) -> bytes:
    """SHA-256 over the values, each with its type and length; NaN and NULL are the same, as are 0.0 and −0.0, between
    which a REAL column does not distinguish."""
    total = hashlib.sha256()
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
        total.update(kind + len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()


def digest_texts(texts: Mapping[str, str]) -> str:
    """The same over names and texts, in the order of the names, written as text."""
    return digest(*(part for item in sorted(texts.items()) for part in item)).hex()


def check_checksum(found: Any, expected: bytes | str, what: str) -> None:
    """Refuse what was changed after it was written."""
    require(found == expected, f"{what} does not fit its checksum: it was damaged or changed", ArtefactError)


def _finite_or_text(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
