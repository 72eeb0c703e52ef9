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
from jax import Array

from ddopg._version import __version__
from ddopg.core.answers import float32_bounds
from ddopg.errors import ArtefactError, MissingPackageError, require
from ddopg.storage.policy_file import KEY, TrainedPolicy, describe
from ddopg.support.compilation import in_float32
from ddopg.support.files import write_atomically

OPSET = 18  # read by onnxruntime since 1.14 (2023): a robot's runtime is rarely the newest
INPUT, OUTPUT = "observation", "action"


@in_float32
def to_onnx(trained: TrainedPolicy, path: str | os.PathLike[str]) -> Path:
    """Write the policy as ONNX: `observation` (batch, O) → `action` (batch, A), both float32; whole or not at all.

    The action is `predict`'s: squashed, and clipped to the action range. The metadata entry `ddopg` describes the
    policy as its safetensors file does.

    Args:
        trained: the policy with its parameters, such as `agent.incumbent` or what `ddopg.load` gives.
        path: the file, called something.onnx.

    Returns:
        The same path.

    Raises:
        MissingPackageError: without the extra `onnx`.
        ArtefactError: if it cannot be written, or the policy has a memory.

    Example:
        >>> import ddopg
        >>> ddopg.deploy.to_onnx(ddopg.DDOPG("cartpole", seed=0).incumbent, "policy.onnx").name
        'policy.onnx'
    """
    require(
        not trained.policy.replayed,
        "this policy has a memory, or is a black box, and an ONNX file of ddopg maps one observation to one action; "
        "take the policy file, or the parameters (`trained.parameters`) and your own controller",
        ArtefactError,
    )
    try:
        from jax2onnx import to_onnx as convert
    except ImportError as error:
        raise MissingPackageError("writing ONNX needs the package jax2onnx", "onnx") from error
    problem = trained.problem
    theta, (low, high) = jnp.asarray(trained.theta, jnp.float32), map(jnp.asarray, float32_bounds(problem))

    def action(observation: Array) -> Array:
        return jnp.clip(trained.policy.act(theta, observation), low, high)

    with _silence_warnings():
        model = convert(
            jax.vmap(action),
            [("batch", problem.observation_size)],
            model_name="ddopg policy",
            opset=OPSET,
            input_names=[INPUT],
            output_names=[OUTPUT],
        )
    model.producer_name, model.producer_version = "ddopg", __version__
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(describe(trained))
    return write_atomically(Path(path), model.SerializeToString())


@contextmanager
def _silence_warnings() -> Iterator[None]:
    """jax2onnx warns of each of its examples that cannot be imported; an error is raised all the same."""
    logger = logging.getLogger("jax2onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
