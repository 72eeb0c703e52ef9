"""The learner's state as bytes, and back: one safetensors file, whose names are all written here.

They are not those of Python fields: a field may be renamed, and the files stay what they are. docs/run-format.md
describes the bytes, and what may change in which version. Rollouts are not among them: they are rows of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import NoneType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg._version import __version__
from ddopg.config import Config
from ddopg.core.critic import Critic
from ddopg.core.critic import init as init_critic
from ddopg.core.memory import Memory
from ddopg.core.policy_update import init_opt_state
from ddopg.core.state import Incumbent, Proposal, State
from ddopg.errors import ArtefactError, require
from ddopg.storage.tensors import Spec, read_header, read_tensors, write_tensors
from ddopg.support.compilation import in_float32

VERSION = 1
"""Of the bytes; every change of a name, a type or a meaning is another version."""
VERSION_WITH_CRITIC = 2
"""The same, and the parts of a critic: a run without one is readable by whoever reads version 1."""

PARAMS = ("centre", "ema_params", "param_sensitivity", "incumbent.params")
"""Tensors of D numbers."""
STATE_KINDS: dict[str, tuple[type, ...]] = {
    "seed": (int,),
    "asked": (int,),
    "steps": (int,),
    "pending": (list,),
    "opt_state": (int, NoneType),
}
CRITIC_KINDS: dict[str, tuple[type, ...]] = {"critic": (int,)}
PROPOSAL_KINDS: dict[str, tuple[type, ...]] = {"number": (int,), "seed": (int,), "purpose": (str,)}
NOISE_KINDS: dict[str, tuple[type, ...]] = {"noise": (list,)}  # of a proposal, where there is a critic


def encode_state(state: State) -> bytes:
    """The state without its rollouts, as bytes that are the same for the same state.

    Args:
        state: what the learner knows.

    Returns:
        A safetensors file.

    Raises:
        TypeError: for a state that holds something else than numbers of the documented kinds.
    """
    about = {
        "version": VERSION if state.critic is None else VERSION_WITH_CRITIC,
        "seed": state.seed,
        "asked": state.asked,
        "steps": state.steps,
        "pending": [_about_proposal(p, state.critic is not None) for p in state.pending],
        "opt_state": None if state.opt_state is None else len(state.opt_state),
    }
    critic = jax.tree.leaves(state.critic)
    if critic:
        about["critic"] = len(critic)
    tensors = {
        "return_bound": np.asarray(state.return_bound, np.float64),
        "incumbent.value": np.asarray(state.incumbent.value, np.float64),
        "centre": state.centre,
        "ema_params": state.ema_params,
        "param_sensitivity": state.param_sensitivity,
        "incumbent.params": state.incumbent.theta,
    }
    for name in PARAMS:
        _check_params(name, tensors[name], len(state.centre))
    tensors["pending.params"] = _stack([p.theta for p in state.pending], len(state.centre))
    leaves = {f"opt_state.{i}": _leaf_to_array(leaf) for i, leaf in enumerate(state.opt_state or ())}
    values = {f"critic.{i}": np.asarray(leaf) for i, leaf in enumerate(critic)}
    if critic:
        found = state.found_by_search
        values |= {"searched.value": np.asarray(found.value, np.float64), "searched.params": found.theta}
    return write_tensors(json.dumps(about), tensors | leaves | values)


def decode_state(data: bytes, memory: Memory, size: int, config: Config) -> State:
    """The inverse of `encode_state`; everything is checked before it is used.

    Args:
        data: what `encode_state` gave, of this version.
        memory: the rollouts, which are stored elsewhere.
        size: D, the number of parameters of the policy.
        config: the configuration of the run; it says what the optimiser's state looks like.

    Returns:
        The state. Whether it fits the rollouts is not looked at here.

    Raises:
        ArtefactError: for bytes of another version, and for anything that `encode_state` could not have written.
    """
    header = read_header(data)
    about = _parse(header.text)
    pending, kept = about["pending"], about["opt_state"] is not None
    leaves = _describe_opt_state(size, config) if kept else ()
    came = about["opt_state"] if kept else 0
    require(
        came == len(leaves), f"the optimiser's state has {came} parts, expected {len(leaves)}", ArtefactError
    )
    critic = _describe_critic(about["critic"], memory, size, config) if "critic" in about else None
    expected = {
        "return_bound": Spec("float64", ()),
        "incumbent.value": Spec("float64", ()),
        **{name: Spec("float32", (size,)) for name in PARAMS},
        "pending.params": Spec("float32", (len(pending), size)),
        **{f"opt_state.{i}": _spec_of(leaf) for i, leaf in enumerate(leaves)},
        **{f"critic.{i}": _spec_of(leaf) for i, leaf in enumerate(jax.tree.leaves(critic))},
    }
    if critic:
        expected |= {"searched.value": Spec("float64", ()), "searched.params": Spec("float32", (size,))}
    arrays = read_tensors(data, header, expected)
    for name in (*PARAMS, "pending.params", *(["searched.params"] if critic else [])):
        # Readings beyond 1e19 have an infinite effect, parameters are never infinite.
        sound = ~np.isnan(arrays[name]) if name == "param_sensitivity" else np.isfinite(arrays[name])
        require(bool(sound.all()), f"{name} holds what is not a finite number", ArtefactError)
    parts = tuple(_leaf_from_array(arrays[f"opt_state.{i}"], leaf) for i, leaf in enumerate(leaves))
    return State(
        seed=about["seed"],
        asked=about["asked"],
        pending=_join_proposals(pending, arrays["pending.params"]),
        memory=memory,
        centre=arrays["centre"],
        ema_params=arrays["ema_params"],
        param_sensitivity=arrays["param_sensitivity"],
        opt_state=parts if kept else None,
        return_bound=float(arrays["return_bound"]),
        incumbent=Incumbent(arrays["incumbent.params"], float(arrays["incumbent.value"])),
        steps=about["steps"],
        critic=_join_critic(critic, arrays) if critic else None,
        searched=Incumbent(arrays["searched.params"], float(arrays["searched.value"])) if critic else None,
    )


def _parse(text: str) -> dict[str, Any]:
    """The text of the metadata, with all its names and nothing else."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"the learner's state is damaged: {error!r}") from error
    require(type(about) is dict, "the learner's state is no table", ArtefactError)
    version = about.pop("version", None)
    require(
        version in (VERSION, VERSION_WITH_CRITIC),
        f"the learner's state is of version {version!r}, ddopg {__version__} reads {VERSION} and "
        f"{VERSION_WITH_CRITIC}; use the version of ddopg that wrote it",
        ArtefactError,
    )
    with_critic = version == VERSION_WITH_CRITIC
    _check_kinds("the learner's state", about, STATE_KINDS | (CRITIC_KINDS if with_critic else {}))
    for proposal in about["pending"]:
        _check_kinds("a pending proposal", proposal, PROPOSAL_KINDS | (NOISE_KINDS if with_critic else {}))
        for number in proposal.get("noise", ()):
            sound = type(number) is float and 0 < number < math.inf
            require(sound, f"the noise of a pending proposal is {number!r:.60}", ArtefactError)
    return about


def _about_proposal(proposal: Proposal, with_critic: bool) -> dict[str, Any]:
    about = {"number": proposal.number, "seed": proposal.seed, "purpose": proposal.purpose}
    return about | ({"noise": list(proposal.noise)} if with_critic else {})


def _check_kinds(what: str, values: Any, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Every name is there, none beside them, and every value is of its kind; an integer is a count."""
    names = sorted(values) if type(values) is dict else []
    require(names == sorted(kinds), f"{what} holds {names[:9]}, expected {sorted(kinds)}", ArtefactError)
    for name, value in values.items():
        require(
            type(value) in kinds[name] and (type(value) is not int or value >= 0),
            f"{name} of {what} is {value!r:.60}, expected {kinds[name][0].__name__}, not negative",
            ArtefactError,
        )


def _stack(params: list[np.ndarray], size: int) -> np.ndarray:
    """(P, D), also of nothing."""
    for one in params:
        _check_params("a pending proposal", one, size)
    return np.concatenate(params).reshape(-1, size) if params else np.zeros((0, size), np.float32)


def _check_params(what: str, params: np.ndarray, size: int) -> None:
    """Refuse to write what could not be read."""
    if params.dtype != np.float32 or params.shape != (size,):
        raise TypeError(f"{what} is {params.dtype} {params.shape}, which a run store cannot hold")


def _join_proposals(pending: list[dict[str, Any]], params: np.ndarray) -> tuple[Proposal, ...]:
    return tuple(
        Proposal(one["number"], theta, one["seed"], one["purpose"], tuple(one.get("noise", ())))
        for one, theta in zip(pending, params, strict=True)
    )


@in_float32
def _describe_opt_state(size: int, config: Config) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and types of the leaves of the optimiser's state; no array is made."""
    return jax.eval_shape(lambda: init_opt_state(size, config))


@in_float32
def _describe_critic(parts: int, memory: Memory, size: int, config: Config) -> Critic:
    """Shapes and types of the critic's parts; no array is made."""
    require(
        memory.size > 0, "there is a critic, and no rollout that it could have learnt from", ArtefactError
    )
    first = memory.trajectories[0]
    sizes = first.observations.shape[1], first.actions.shape[1]
    critic = jax.eval_shape(lambda: init_critic(jax.random.key(0), jnp.zeros(size), *sizes, config.critic))
    number = len(jax.tree.leaves(critic))
    require(parts == number, f"the critic has {parts} parts, expected {number}", ArtefactError)
    return critic


def _join_critic(like: Critic, arrays: Mapping[str, np.ndarray]) -> Critic:
    leaves, structure = jax.tree.flatten(like)
    names = [f"critic.{i}" for i in range(len(leaves))]
    for name in names:
        sound = bool(np.isfinite(arrays[name]).all())
        require(sound, f"{name} holds what is not a finite number", ArtefactError)
    return jax.tree.unflatten(structure, [jnp.asarray(arrays[name]) for name in names])


def _spec_of(leaf: jax.ShapeDtypeStruct) -> Spec:
    plain = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return Spec(np.dtype(plain.dtype).name, tuple(plain.shape))


def _leaf_to_array(leaf: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _leaf_from_array(array: np.ndarray, like: jax.ShapeDtypeStruct) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(like) else jnp.asarray(array)


def _is_key(leaf: Array | jax.ShapeDtypeStruct) -> bool:
    """Whether it is a key of JAX's random numbers, which is stored as its bits."""
    kinds = jax.Array | jax.ShapeDtypeStruct
    return isinstance(leaf, kinds) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
