"""The policy file: what a user takes away. One safetensors file that describes itself.

The tensor is θ; the metadata hold one JSON object: spaces, policy class, horizon, configuration, version.
Reading one can run no code: safetensors holds numbers, and the description is checked field by field.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from ddopg._version import __version__
from ddopg.config import Config
from ddopg.core.action_noise import act_with_noise
from ddopg.core.answers import (
    SafeAction,
    answer,
    answer_with_memory,
    choose_safe_action,
    clip_to_range,
    read_observations,
    restart_memory,
)
from ddopg.core.policy_building import build_policy
from ddopg.core.problem import Problem, problem_from_dict
from ddopg.errors import ArtefactError, DDOPGError, ObservationError, require
from ddopg.parameters import Parameter, parameters_from_dict, parameters_to_dict
from ddopg.policies import Policy
from ddopg.policies.making import require_policy_class
from ddopg.support.files import write_atomically
from ddopg.support.records import from_dict, to_dict
from ddopg.support.showing import show_line, show_table

KEY = "ddopg"
FORMAT = "ddopg-policy"
SCHEMA = 1
LARGEST_FILE = 256 * 2**20  # bytes; a policy of 64 million parameters


class TrainedPolicy(NamedTuple):
    """A policy with fixed parameters, ready to act.

    Example:
        >>> trained = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=3).incumbent
        >>> trained.environment, trained.act([0.0, 0.0, 0.1, 0.0]).shape
        ('ddopg/Cartpole-v0', (1,))
    """

    theta: np.ndarray  # (D,)
    problem: Problem  # sizes, action range and horizon of the task
    config: Config  # what it was learnt with
    environment: str | None = None  # the Gymnasium id it was learnt on, if any
    note: dict[str, Any] = {}  # noqa: RUF012  what is known of it: return, steps, seed
    network: Policy | None = None  # a policy class of the user's own, in the place of the configured one
    safe_action: SafeAction = (
        None  # the answer to an observation that is not finite; None raises. Not in the file
    )

    @property
    def policy(self) -> Policy:
        """The policy class that θ belongs to."""
        return build_policy(self.problem, self.config, self.network)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of a controller in real units, by name, fixed ones included; empty for a network."""
        return self.policy.describe(self.theta)

    def __repr__(self) -> str:
        return show_line("TrainedPolicy", self._facts())

    def _repr_html_(self) -> str:
        return show_table("TrainedPolicy", self._facts())

    def _facts(self) -> dict[str, Any]:
        size: Any = self.policy.show(self.theta) or len(self.theta)
        return {"environment": self.environment, "parameters": size, **self.note}

    def act(self, observation: Any) -> np.ndarray:
        """The action for one observation.

        Args:
            observation: (O,).

        Returns:
            The action, (A,), before any clipping; `safe_action` where the observation is not finite.

        Raises:
            ObservationError: if the observation has another size, or is not finite and there is no safe action.
            ConfigError: if the policy has a memory: then `begin` gives what acts, or `predict` takes its state.
        """
        vector = _vector(read_observations(observation), self.problem.observation_size)
        return answer(self.policy, self.theta, vector, self.safe_action)

    def begin(self) -> Callable[[Any], np.ndarray]:
        """Begin an episode: what it returns acts, and remembers where the policy has a memory.

        Returns:
            A function from one observation (O,) to the action (A,), for the observations of one episode in order.
        """
        policy, size = self.policy, self.problem.observation_size
        if not policy.remembers:
            return self.act
        state: np.ndarray | None = None

        def act(observation: Any) -> np.ndarray:
            nonlocal state
            vector = _vector(read_observations(observation), size)
            action, state = answer_with_memory(policy, self.theta, state, vector, self.safe_action)
            return action

        return act

    def begin_with_noise(self, noise: np.ndarray) -> Callable[[Any], np.ndarray]:
        """Begin an episode with noise on the raw output.

        Args:
            noise: of each step, (H, A).

        Returns:
            A function from one observation (O,) to the action (A,), for the observations of one episode in order; the
            safe action where an observation is not finite.
        """
        with_noise = act_with_noise(self.policy, self.theta, noise)

        def act(observation: Any) -> np.ndarray:
            vector = _vector(read_observations(observation), self.problem.observation_size)
            return with_noise(vector) if np.isfinite(vector).all() else self.act(observation)

        return act

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Actions within the action range, in the form that stable-baselines3's tools expect.

        Args:
            observation: one observation (O,), or a batch of them (B, O).
            state: what a policy with a memory returned for the observation before, (S,) or (B, S); None at the start
                of an episode. A policy without a memory hands it back as it is.
            episode_start: whether an episode starts with this observation, one for all or one per row: the memory
                then starts anew.
            deterministic: not used; the policy always is.

        Returns:
            The action (A,), or actions (B, A), `safe_action` where an observation is not finite; and the state for
            the next call.

        Raises:
            ObservationError: if the observation has another size, or is not finite and there is no safe action.
        """
        observation = read_observations(observation)
        size = self.problem.observation_size
        batch = observation.ndim > 1 and observation.shape[0] * size == observation.size
        rows = observation.reshape(-1, size) if batch else _vector(observation, size)
        policy = self.policy
        if not policy.remembers:
            actions = answer(policy, self.theta, rows, self.safe_action)
        else:
            state = restart_memory(policy, self.theta, state, episode_start)
            actions, state = answer_with_memory(policy, self.theta, state, rows, self.safe_action)
        return clip_to_range(actions, self.problem), state

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as one safetensors file, whole or not at all.

        Args:
            path: the file; its directory is made if it is missing.

        Returns:
            The same path.

        Raises:
            ArtefactError: if it cannot be written.
        """
        path = Path(path)
        return write_atomically(path, encode_policy(describe(self), self.theta))


def load(
    path: str | os.PathLike[str],
    policy: Policy | None = None,
    *,
    on_invalid: str = "raise",
    safe_action: Any = None,
) -> TrainedPolicy:
    """Read a policy file written by `save`. Nothing in it is run as code.

    Args:
        path: the file.
        policy: the policy class, where it was your own: a file holds its numbers, not its code.
        on_invalid: what `act` and `predict` do about an observation that is not finite: `raise` an error, or answer
            with the `safe` action.
        safe_action: for `on_invalid="safe"`, numbers within the action range, (A,).

    Returns:
        The policy with its parameters.

    Raises:
        ArtefactError: if it cannot be read, is not a policy of ddopg, or was damaged or changed.
        ConfigError: if there is no such choice, or the safe action is missing or out of the range.

    Example:
        >>> _ = ddopg.DDOPG("cartpole", seed=0).save("policy.safetensors")
        >>> load("policy.safetensors").problem.horizon
        100
    """
    trained = _decode(Path(path), *read_unchecked(Path(path)), policy)
    return trained._replace(safe_action=choose_safe_action(on_invalid, safe_action, trained.problem))


def require_class(what: str, own_size: int, network: Policy | None, home: str = "") -> None:
    """Refuse a policy class that is not the one it was made with.

    Args:
        what: the file or the run, for the message.
        own_size: parameters of the user's own class that it was made with; 0 where that was the configured one.
        network: the class that is given now.
        home: `module:name` of the class, where it was imported by that; nothing is imported here.

    Raises:
        ArtefactError: if the sizes differ.
    """
    require_policy_class(network)
    came = network.size if network else 0
    if own_size == 0:
        told = "the configured policy class; leave out policy=... (--policy on the command line)"
    elif home:
        told = (
            f"the policy class {home}, with {own_size} parameters; got {_count(came)}. A file may not say which "
            f"module to import: if you trust this one, give policy=... (--policy {home} on the command line)"
        )
    else:
        told = (
            f"a policy class of its own, with {own_size} parameters; got {_count(came)}. Give policy=..., the one "
            "that DDOPG(..., policy=...) had (--policy MODULE:NAME on the command line)"
        )
    require(own_size == came, f"{what} was made with {told}", ArtefactError)


def require_same_parameters(what: str, stored: tuple[Parameter, ...], policy: Policy) -> None:
    """Refuse a controller whose declaration changed: θ counts scales from its start, and would mean another thing."""
    now = {each.name: each for each in policy.parameters}
    changed = [each.name for each in stored if now.get(each.name) != each]
    added = [name for name in now if name not in {each.name for each in stored}]
    require(
        policy.parameters == stored,
        f"{what} was made with other parameters; changed: {', '.join(changed + added) or 'their order'}. Declare "
        "them with the same names, starts, bounds and scales, or begin a new run",
        ArtefactError,
    )


def require_written_form(policy: Policy, form: str) -> None:
    """Refuse a black box: it is code that can only be called, and no `form` of a file can hold it."""
    require(
        policy.black_box is None,
        f"this policy is a black box, which can be called and not written as {form}; take the parameters "
        "(`trained.parameters`) and your own controller",
        ArtefactError,
    )


def read_unchecked(path: Path) -> tuple[dict[str, Any], Any]:
    """The description and the tensor of a safetensors file, nothing more known of them than that."""
    try:
        require(
            path.is_file() or not path.exists(), f"{path} is not a file; give a policy file", ArtefactError
        )
        require(
            path.stat().st_size <= LARGEST_FILE,
            f"{path} has {path.stat().st_size} bytes, a policy file has at most {LARGEST_FILE}",
            ArtefactError,
        )
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            theta = file.get_tensor("theta") if names == ["theta"] else None
    except OSError as error:
        raise ArtefactError(f"cannot read {path}: {error.strerror or error}; check the path") from error
    except (safetensors.SafetensorError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise ArtefactError(
            f"{path} is not a readable safetensors file ({error}); it is damaged, or not a policy of ddopg"
        ) from error
    return _parse(path, metadata.get(KEY, "null")), theta


def encode_policy(description: dict[str, Any], theta: np.ndarray) -> bytes:
    """The bytes of a policy file, with their checksum."""
    text = json.dumps(description | {"checksum": digest_policy(description, theta)})
    # One entry only: safetensors writes several in an order that differs from run to run.
    return safetensors.numpy.save({"theta": theta}, metadata={KEY: text})


def describe(trained: TrainedPolicy) -> dict[str, Any]:
    """Everything but θ, in plain values."""
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "problem": trained.problem._asdict(),
        "config": to_dict(trained.config),
        "environment": trained.environment,
        "note": trained.note,
        **({"own_policy": trained.network.size} if trained.network else {}),
        **({"policy_home": trained.network.home} if trained.network and trained.network.home else {}),
        **_describe_parameters(trained),
    }


def _describe_parameters(trained: TrainedPolicy) -> dict[str, Any]:
    """The declaration of a controller and its values, in real units: readable without this library."""
    values, declared = trained.parameters, parameters_to_dict(trained.policy.parameters)
    return (
        {"parameters": {name: {"value": values[name], **declared[name]} for name in values}} if values else {}
    )


def _decode(path: Path, description: dict[str, Any], theta: Any, network: Policy | None) -> TrainedPolicy:
    require(
        description.get("format") == FORMAT and theta is not None,
        f"{path} is a safetensors file, but not a policy of ddopg: expected one tensor 'theta' and a description "
        f"under {KEY!r} that names the format {FORMAT!r}",
        ArtefactError,
    )
    require(
        description.get("schema") == SCHEMA,
        f"{path} has schema {description.get('schema')!r}, this version of ddopg reads {SCHEMA}; update ddopg",
        ArtefactError,
    )
    checksum = description.pop("checksum", None)
    require(
        checksum == digest_policy(description, theta),
        f"{path} does not fit its checksum: it was damaged or changed after it was written; restore it from a copy",
        ArtefactError,
    )
    home = _text_or_none(description.get("policy_home"))
    require_class(str(path), description.get("own_policy", 0), network, home or "")
    try:
        trained = TrainedPolicy(
            theta=theta,
            network=network,
            problem=problem_from_dict(description["problem"]),
            config=from_dict(description["config"], Config),
            environment=_text_or_none(description["environment"]),
            note=dict(description["note"]),
        )
        size, stored = trained.policy.size, parameters_from_dict(description.get("parameters", {}))
    except (KeyError, TypeError, ValueError, OverflowError, DDOPGError) as error:
        raise ArtefactError(f"the description inside {path} is damaged: {error!r}") from error
    require(
        theta.dtype == np.float32 and theta.shape == (size,) and bool(np.isfinite(theta).all()),
        f"{path} describes a policy of {size} finite float32 parameters, but holds {theta.dtype} {theta.shape}",
        ArtefactError,
    )
    require_same_parameters(str(path), stored, trained.policy)
    return trained


def digest_policy(description: dict[str, Any], theta: np.ndarray) -> str:
    """SHA-256 of everything in the file: a flipped bit must not become another policy."""
    total = hashlib.sha256(json.dumps(description).encode())
    total.update(f"{theta.dtype.str}{theta.shape}".encode())
    total.update(np.ascontiguousarray(theta).tobytes())
    return total.hexdigest()


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"the description inside {path} is damaged: {error!r}") from error
    return description if isinstance(description, dict) else {}


def _count(parameters: int) -> str:
    return f"one with {parameters}" if parameters else "none"


def _text_or_none(value: Any) -> str | None:
    require(value is None or isinstance(value, str), f"expected a name, got {value!r}", ArtefactError)
    return value


def _vector(observation: np.ndarray, size: int) -> np.ndarray:
    vector = observation.ravel()
    require(
        vector.size == size,
        f"the policy expects an observation of {size} numbers, got {vector.size}",
        ObservationError,
    )
    return vector
