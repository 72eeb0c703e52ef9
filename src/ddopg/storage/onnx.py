"""A trained policy for machines without this library: an ONNX file with squashing and clipping inside.

For a machine that has only NumPy, `numpy_policy.py` reads the policy file itself.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg._version import __version__
from ddopg.core.answers import float32_bounds
from ddopg.errors import ArtefactError, MissingPackageError
from ddopg.storage.numpy_form import require_trained
from ddopg.storage.policy_file import KEY, TrainedPolicy, describe, require_written_form
from ddopg.support.compilation import in_float32
from ddopg.support.files import write_atomically

OPSET = 18  # read by onnxruntime since 1.14 (2023): a robot's runtime is rarely the newest
INPUT, OUTPUT = "observation", "action"
STATE, NEXT_STATE, INITIAL_STATE = "state", "next_state", "initial_state"  # of a policy with a memory


@in_float32
def to_onnx(trained: TrainedPolicy, path: str | os.PathLike[str]) -> Path:
    """Write the policy as ONNX: `observation` (batch, O) → `action` (batch, A), both float32; whole or not at all.

    The action is `predict`'s: squashed, and clipped to the action range. The metadata entry `ddopg` describes the
    policy as its safetensors file does. A policy with a memory also takes `state` (batch, S) and gives `next_state`
    (batch, S); the state before the first step of an episode is the metadata entry `initial_state`, a JSON list.

    Args:
        trained: the policy with its parameters, such as `agent.incumbent` or what `ddopg.load` gives.
        path: the file, called something.onnx.

    Returns:
        The same path.

    Raises:
        MissingPackageError: without the extra `onnx`.
        ArtefactError: if it cannot be written, the policy is a black box, or it has an operation that the converter
            does not know.

    Example:
        >>> import ddopg
        >>> ddopg.deploy.to_onnx(ddopg.DDOPG("cartpole", seed=0).incumbent, "policy.onnx").name
        'policy.onnx'
    """
    require_trained(trained)
    policy, problem = trained.policy, trained.problem
    require_written_form(policy, "ONNX")
    try:
        from jax2onnx import to_onnx as convert
    except ImportError as error:
        raise MissingPackageError("writing ONNX needs the package jax2onnx", "onnx") from error
    theta, (low, high) = jnp.asarray(trained.theta, jnp.float32), map(jnp.asarray, float32_bounds(problem))

    def act(observation: Array) -> Array:
        return jnp.clip(policy.act(theta, observation), low, high)

    def step(observation: Array, state: Array) -> tuple[Array, Array]:
        assert policy.recurrence is not None
        after, action = policy.recurrence.step(theta, state, observation)
        return jnp.clip(action, low, high), after

    shapes, names = [("batch", problem.observation_size)], ([INPUT], [OUTPUT])
    entries = {KEY: json.dumps(describe(trained))}
    if policy.recurrence is not None:
        shapes, names = [*shapes, ("batch", policy.recurrence.size)], ([INPUT, STATE], [OUTPUT, NEXT_STATE])
        entries[INITIAL_STATE] = json.dumps(np.asarray(policy.recurrence.initial(theta)).tolist())
    with _silence_warnings(), _explain():
        model = convert(
            jax.vmap(act if policy.recurrence is None else step),
            shapes,
            model_name="ddopg policy",
            opset=OPSET,
            input_names=names[0],
            output_names=names[1],
        )
    model.producer_name, model.producer_version = "ddopg", __version__
    for key, value in entries.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return write_atomically(Path(path), model.SerializeToString())


@contextmanager
def _explain() -> Iterator[None]:
    """The converter raises whatever its many parts raise where it does not know an operation."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ArtefactError(
            f"this policy cannot be written as ONNX: {type(error).__name__}: {reason}; take the policy file, or the "
            "parameters (`trained.parameters`) and your own controller"
        ) from error


@contextmanager
def _silence_warnings() -> Iterator[None]:
    """jax2onnx warns of each of its examples that cannot be imported, and onnx_ir of shapes that it does not know; an
    error is raised all the same."""
    loggers = [logging.getLogger(name) for name in ("jax2onnx", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
