"""A controller, or any policy with a memory, with NumPy alone. Copy this one file to the robot; reading runs no code.

controller = load("policy.json")  # which ddopg.deploy.to_numpy or `ddopg export DIR policy.json` wrote
act = controller.begin()  # at the start of every episode
action = act(observation)  # (O,) → (A,), clipped to the action range

The file is a list of array operations; `OPERATIONS` are all that there are.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

FORMAT = "ddopg-program"
LARGEST = 64 * 2**20  # bytes of a file
KINDS = {"float32": np.float32, "int32": np.int32, "bool": np.bool_}


def _broadcast(x: np.ndarray, shape: list, broadcast_dimensions: list) -> np.ndarray:
    full = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        full[axis] = size
    return np.broadcast_to(x.reshape(full), shape)


def _slice(x: np.ndarray, start_indices: list, limit_indices: list, strides: list | None) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(slice(*each) for each in zip(start_indices, limit_indices, steps, strict=True))]


def _slice_from(x: np.ndarray, *starts: np.ndarray, slice_sizes: list) -> np.ndarray:
    sizes = zip(x.shape, starts, slice_sizes, strict=True)
    firsts = [int(np.clip(first, 0, whole - size)) for whole, first, size in sizes]
    return x[tuple(slice(first, first + size) for first, size in zip(firsts, slice_sizes, strict=True))]


def _take(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return x[np.clip(indices[..., 0], 0, len(x) - 1)]


OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    **{
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "pow": np.power,
        "neg": np.negative,
    },
    **{"add_any": np.add, "rem": np.fmod, "atan2": np.arctan2, "max": np.maximum, "min": np.minimum},
    **{
        "exp": np.exp,
        "log": np.log,
        "log1p": np.log1p,
        "expm1": np.expm1,
        "sqrt": np.sqrt,
        "square": np.square,
    },
    **{"sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh},
    **{"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "abs": np.abs, "sign": np.sign},
    **{"floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite},
    **{"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal},
    **{"ne": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "stop_gradient": lambda x: x,
    "copy": lambda x: x,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "select_n": lambda which, *cases: np.choose(which.astype(int), cases),
    "integer_pow": lambda x, y: np.power(x, y) if y >= 0 else 1 / np.power(x, -y),
    "reshape": lambda x, new_sizes: x.reshape(new_sizes),
    "squeeze": lambda x, dimensions: np.squeeze(x, tuple(dimensions)),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "slice": _slice,
    "dynamic_slice": _slice_from,
    "take": _take,
    "reduce_sum": lambda x, axes: np.sum(x, tuple(axes), dtype=x.dtype),
    "reduce_max": lambda x, axes: np.max(x, tuple(axes)),
    "reduce_min": lambda x, axes: np.min(x, tuple(axes)),
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "dot_general": lambda x, y, axes: np.tensordot(x, y, axes=([axes[0]], [axes[1]])),
    "convert_element_type": lambda x, kind: x.astype(KINDS[kind]),
}
"""Name → what it does with arrays and settings."""


class Controller:
    """What a file says: from an observation and the state to an action and the next state.

    Args:
        about: the program, as JSON has it.

    Example:
        >>> about = {"format": FORMAT, "schema": 1, "inputs": ["o", "s"], "initial_state": [0.0],
        ...          "steps": [["add", ["o", "s"], "t", {}]], "outputs": ["t", "t"], "constants": {}}
        >>> act = Controller(about).begin()
        >>> act([1.0]).tolist(), act([2.0]).tolist()
        ([1.0], [3.0])
    """

    def __init__(self, about: dict) -> None:
        if about["format"] != FORMAT or about["schema"] != 1:
            raise ValueError(
                f"expected a {FORMAT} of schema 1, found {about['format']!r} of {about['schema']!r}"
            )
        self.parameters = {k: v["value"] for k, v in about.get("policy", {}).get("parameters", {}).items()}
        self.inputs, self.outputs, self.steps = about["inputs"], about["outputs"], about["steps"]
        self.initial_state = np.array(about["initial_state"], np.float32)
        self.constants = {
            name: np.array(each["values"], KINDS[each["kind"]]).reshape(each["shape"])
            for name, each in about["constants"].items()
        }
        unknown = {name for name, *_ in self.steps} - OPERATIONS.keys()
        if unknown:
            raise ValueError(
                f"this file has operations that are not known here: {', '.join(sorted(unknown))}"
            )

    def step(self, observation: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step.

        Args:
            observation: (O,).
            state: what the step before gave, `initial_state` at first, (S,).

        Returns:
            The action (A,), and the next state (S,).

        Raises:
            ValueError: if a number of the observation is not finite.
        """
        seen = np.asarray(observation, np.float32)
        if not np.isfinite(seen).all():
            raise ValueError(f"a policy acts on finite observations, got {seen}; check the sensors")
        values = {**self.constants, self.inputs[0]: seen, self.inputs[1]: state}
        with np.errstate(all="ignore"):
            for name, arguments, output, settings in self.steps:
                values[output] = np.asarray(
                    OPERATIONS[name](*(values[each] for each in arguments), **settings)
                )
        action, after = (values[name] for name in self.outputs)
        return action, after

    def begin(self) -> Callable[[object], np.ndarray]:
        """Begin an episode.

        Returns:
            A function from one observation (O,) to the action (A,), for the observations of one episode in order.
        """
        state = self.initial_state

        def act(observation: object) -> np.ndarray:
            nonlocal state
            action, state = self.step(np.asarray(observation), state)
            return action

        return act


def load(path: str) -> Controller:
    """Read a file that `ddopg.deploy.to_numpy` wrote.

    Args:
        path: the file.

    Returns:
        The controller; `begin` gives what acts.

    Raises:
        ValueError: if it is not such a file, or it does not fit its checksum: it was damaged or changed.
        OSError: if it cannot be read.

    Example:
        >>> import ddopg
        >>> _ = ddopg.deploy.to_numpy(ddopg.DDOPG("cartpole", seed=0).incumbent, "policy.json")
        >>> load("policy.json").begin()(np.zeros(4)).shape
        (1,)
    """
    try:
        if Path(path).stat().st_size > LARGEST:
            raise ValueError(f"expected a file of at most {LARGEST} bytes")
        whole = json.loads(Path(path).read_text())
        if hashlib.sha256(whole["program"].encode()).hexdigest() != whole["checksum"]:
            raise ValueError("it does not fit its checksum; restore it from a copy")
        return Controller(json.loads(whole["program"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a controller file of ddopg, or it is damaged: {error!r}") from error
