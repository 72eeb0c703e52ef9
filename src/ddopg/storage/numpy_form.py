"""A policy as a list of array operations, for `numpy_controller.py`: controllers, and whatever has a memory.

The policy is traced once by JAX. All that depends on the parameters alone is computed now; what is left, from an
observation and the state to an action and the next state, is written down operation by operation as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Literal

from ddopg.core.answers import float32_bounds
from ddopg.core.replay import begin, respond
from ddopg.errors import ArtefactError, require
from ddopg.numpy_controller import FORMAT, OPERATIONS
from ddopg.storage.policy_file import TrainedPolicy, describe, require_written_form
from ddopg.support.compilation import in_float32
from ddopg.support.files import write_atomically

INLINED = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")  # calls of other programs
SETTINGS = {  # of each operation that has any: what is written down
    "integer_pow": ("y",),
    "reshape": ("new_sizes",),
    "squeeze": ("dimensions",),
    "expand_dims": ("dimensions",),
    "broadcast_in_dim": ("shape", "broadcast_dimensions"),
    "concatenate": ("dimension",),
    "stack": ("axis",),
    "slice": ("start_indices", "limit_indices", "strides"),
    "dynamic_slice": ("slice_sizes",),
    "reduce_sum": ("axes",),
    "reduce_max": ("axes",),
    "reduce_min": ("axes",),
    "transpose": ("permutation",),
}


@in_float32
def to_numpy(trained: TrainedPolicy, path: str | os.PathLike[str]) -> Path:
    """Write the policy as a file that `numpy_controller.py` plays with NumPy alone, its memory included.

    Args:
        trained: the policy with its parameters, such as `agent.incumbent` or what `ddopg.load` gives.
        path: the file, called something.json.

    Returns:
        The same path.

    Raises:
        ArtefactError: if it cannot be written, the policy is a black box, or it has an operation that
            `numpy_controller.py` does not know.

    Example:
        >>> import ddopg
        >>> ddopg.deploy.to_numpy(ddopg.DDOPG("cartpole", seed=0).incumbent, "policy.json").name
        'policy.json'
    """
    require_trained(trained)
    policy, problem = trained.policy, trained.problem
    require_written_form(policy, "a file for NumPy")
    theta, (low, high) = jnp.asarray(trained.theta, jnp.float32), map(jnp.asarray, float32_bounds(problem))
    state = jnp.asarray(begin(policy, theta), jnp.float32).reshape(-1)

    def step(observation: Array, state: Array) -> tuple[Array, Array]:
        after, action = respond(policy, theta, state, observation)
        return jnp.clip(action, low, high), jnp.asarray(after, jnp.float32).reshape(-1)

    program = Program()
    traced = jax.make_jaxpr(step)(jnp.zeros(problem.observation_size), state)
    inputs = [program.name() for _ in traced.jaxpr.invars]
    outputs = program.add(traced.jaxpr, traced.consts, inputs)
    about = {"format": FORMAT, "schema": 1, "policy": describe(trained), "inputs": inputs} | {
        "initial_state": np.asarray(state).tolist(),
        "steps": program.steps,
        "outputs": [program.refer(output) for output in outputs],
        "constants": program.constants,
    }
    text = json.dumps(about)
    whole = {"checksum": hashlib.sha256(text.encode()).hexdigest(), "program": text}
    return write_atomically(Path(path), json.dumps(whole).encode())


class Program:
    """The operations so far. A value is a name, where it depends on the input, or else an array that is known."""

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []
        self.constants: dict[str, dict[str, Any]] = {}
        self._count = 0

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count}"

    def refer(self, value: Any) -> str:
        """The name of a value; that of a new constant where it is an array."""
        if isinstance(value, str):
            return value
        array, name = np.asarray(value), self.name()
        kind = {"f": "float32", "i": "int32", "u": "int32", "b": "bool"}[array.dtype.kind]
        values = array.astype(kind).ravel().tolist()
        self.constants[name] = {"kind": kind, "shape": list(array.shape), "values": values}
        return name

    def add(self, jaxpr: Any, constants: Any, arguments: list[Any]) -> list[Any]:
        """Write down a traced program; its outputs, as names or arrays.

        Args:
            jaxpr: the program.
            constants: its own.
            arguments: names or arrays.
        """
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
        known |= dict(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            values = self._compute(equation, [read(atom) for atom in equation.invars])
            known |= dict(zip(equation.outvars, values, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _compute(self, equation: Any, values: list[Any]) -> list[Any]:
        primitive, settings = equation.primitive, equation.params
        inner = settings.get("jaxpr", settings.get("call_jaxpr"))
        if primitive.name in INLINED and inner is not None:
            return self.add(inner.jaxpr, inner.consts, values)
        if not any(isinstance(value, str) for value in values):
            found = primitive.bind(*values, **settings)
            return list(found) if primitive.multiple_results else [found]
        if primitive.name == "split":
            return self._split(values[0], equation)
        operation, written = _write_settings(primitive.name, equation)
        require(
            operation in OPERATIONS,
            f"this policy cannot be written for NumPy: it has the operation {primitive.name}, which "
            "numpy_controller.py does not know; take ONNX, or the parameters (`trained.parameters`) and your own "
            "controller",
            ArtefactError,
        )
        return [self._write(operation, values, written)]

    def _write(self, operation: str, values: list[Any], written: dict[str, Any]) -> str:
        output = self.name()
        self.steps.append([operation, [self.refer(value) for value in values], output, written])
        return output

    def _split(self, value: str, equation: Any) -> list[Any]:
        """A split is a slice for each part."""
        (atom,), settings, parts, first = equation.invars, equation.params, [], 0
        for size in settings["sizes"]:
            low, high = [0] * atom.aval.ndim, [int(whole) for whole in atom.aval.shape]
            low[settings["axis"]], high[settings["axis"]] = first, first + int(size)
            about = {"start_indices": low, "limit_indices": high, "strides": None}
            parts.append(self._write("slice", [value], about))
            first += int(size)
        return parts


def _write_settings(name: str, equation: Any) -> tuple[str, dict[str, Any]]:
    """The operation and its settings in plain values; what is a special case of another goes by its name."""
    settings = equation.params
    if name == "convert_element_type":
        kind = {"f": "float32", "i": "int32", "b": "bool"}.get(
            np.dtype(settings["new_dtype"]).kind, "float32"
        )
        return name, {"kind": kind}
    if name == "dot_general":
        (left, right), batch = settings["dimension_numbers"]
        plain = not any(batch) and len(left) == len(right) == 1
        return name if plain else f"{name} in batches", {
            "axes": [int(left[0]), int(right[0])]
        } if plain else {}
    if name == "gather":
        return _write_gather(equation)
    return name, {key: _plain(settings[key]) for key in SETTINGS.get(name, ())}


def _write_gather(equation: Any) -> tuple[str, dict[str, Any]]:
    """Entries of a vector by their numbers, as `observation[[0, 2]]` has it; no other gathering."""
    operand, indices = (atom.aval.shape for atom in equation.invars)
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    simple = len(operand) == 1 and indices[-1:] == (1,) and tuple(sizes) == (1,)
    simple = simple and tuple(numbers.collapsed_slice_dims) == (0,) and not numbers.offset_dims
    return ("take" if simple else "gather of blocks"), {}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [int(each) for each in value]
    return None if value is None else int(value)


def require_trained(given: object) -> None:
    """Refuse what is no policy with its parameters, where one is to be written."""
    require(
        isinstance(given, TrainedPolicy),
        f"expected a policy with its parameters, such as agent.incumbent or what ddopg.load gives, got "
        f"{type(given).__name__}",
        ArtefactError,
    )
