"""What a policy is: a record of functions over one flat parameter vector θ (D,)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.parameters import Parameter, decode_parameters, search_limits
from ddopg.support.compilation import in_float32
from ddopg.support.showing import show_line, show_table

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(θ, state (S,), observation (O,)) → (state (S,), action (A,))."""


class Recurrence(NamedTuple):
    """The memory of a policy within an episode: a state of S numbers, begun anew and handed on from step to step.

    Example:
        >>> import jax.numpy as jnp
        >>> count = Recurrence(1, lambda theta: jnp.zeros(1), lambda theta, state, seen: (state + 1, theta * state))
        >>> count.step(jnp.array([2.0]), jnp.array([3.0]), jnp.zeros(1))[1].tolist()
        [6.0]
    """

    size: int  # S
    initial: Callable[[Any], Any]  # θ → the state (S,) before the first step
    step: Step
    raw: Step | None = None  # `step` with the action before any squashing or clipping, where there is one


class BlackBox(NamedTuple):
    """A policy that is no function of JAX: it is called, and differentiated by differences.

    Example:
        >>> import numpy as np
        >>> double = BlackBox(None, lambda theta: None, lambda theta, state, seen: (state, 2 * seen), memory=False)
        >>> double.step(None, None, np.ones(1))[1].tolist()
        [2.0]
    """

    along: Callable[
        [Any, Any], Any
    ]  # (θ, observations (H, O)) → actions (H, A), of JAX arrays, by calling back
    initial: Callable[[np.ndarray], Any]  # θ → the state before the first step, any object
    step: Callable[[np.ndarray, Any, np.ndarray], tuple[Any, np.ndarray]]  # one step of NumPy arrays
    memory: bool  # whether the state matters


class Policy(NamedTuple):
    """A deterministic policy class a = act(θ, observation): a record of functions, without parameters of its own.

    `mlp`, `linear` and `custom` make one, `squashed`, `clipped`, `limited` and `normalised` wrap one. A policy with a
    memory has a `recurrence`, and its `act` raises: what it does depends on what it has seen before.

    Example:
        >>> import numpy as np
        >>> policy = ddopg.policies.linear(observation_size=2, action_size=1)
        >>> policy.size
        3
        >>> policy.act(np.array([1.0, 2.0, 0.5]), np.array([10.0, 1.0])).tolist()
        [12.5]
    """

    size: int  # D
    init: Callable[[jax.Array], Any]  # key → θ
    act: Callable[[Any, Any], Any]  # (θ, observation (…, O)) → action (…, A)
    action_scale: tuple[float, ...]  # (A,) what counts as one action: 1, or half the range where squashed
    unsquashed: Callable[[Any, Any], Any] | None = None  # `act` before the squashing, where there is one
    linear: bool = False  # the raw output is linear in θ
    bias: bool = (
        False  # the last A parameters are the output's bias; all others zero, it acts the same always
    )
    columns: Callable[[Any, Any], Any] | None = None  # `act` on observations as columns, if there is a way
    width: int = 1  # numbers per observation that the widest layer holds
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = (
        None  # smallest and largest action, where there are
    )
    linear_params: int = (
        0  # the last so many parameters are a linear path beside a network, its bias included
    )
    output_params: int = 0  # the last so many parameters are the output layer, a linear path included
    bind: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]] | None = None  # `at`, if there is a way
    parameters: tuple[Parameter, ...] = ()  # of a controller; θ are then their search coordinates
    recurrence: Recurrence | None = None  # the memory, where there is one
    squash: bool = False  # a class of one's own: tanh onto the action range instead of clipping to it
    black_box: BlackBox | None = None  # how it is called, where it is no function of JAX
    bounding: Callable[[Any], Any] | None = None  # raw outputs (…, A) → actions (…, A), where they differ
    on_standardised: Callable[[Any, Any, Any], Any] | None = None
    """(θ, mean (O,), deviation (O,)) → the θ that does on (o − mean) / deviation what θ does on o."""
    home: str = ""  # `module:name` that `import_policy` found it by
    observation_size: int = 0  # O that it was made for; 0 where that is not known

    def __repr__(self) -> str:
        return show_line("Policy", self._facts())

    def _repr_html_(self) -> str:
        return show_table("Policy", self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "observations": self.observation_size or None,
            "actions": len(self.action_scale),
            "parameters": self.show(np.zeros(self.size)) or self.size,
            "memory": self.remembers or None,
            "black_box": self.black_box is not None or None,
        }

    @property
    def remembers(self) -> bool:
        """Whether an action depends on what was seen before."""
        return self.recurrence is not None or (self.black_box is not None and self.black_box.memory)

    @property
    def replayed(self) -> bool:
        """Whether actions are computed path by path, and not observation by observation."""
        return self.recurrence is not None or self.black_box is not None

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The smallest and the largest θ, (D,) each, where parameters are declared with bounds."""
        return search_limits(self.parameters) if self.parameters else None

    def describe(self, theta: np.ndarray) -> dict[str, float]:
        """The declared parameters in real units, by name; empty for a network.

        Args:
            theta: the parameters of the search, (D,).

        Returns:
            Name → value, fixed ones included.
        """
        values = decode_parameters(self.parameters, np.asarray(theta, np.float64)) if self.parameters else []
        return {each.name: float(value) for each, value in zip(self.parameters, values, strict=True)}

    def show(self, theta: np.ndarray) -> str:
        """The declared parameters with their units, as people read them.

        Args:
            theta: the parameters of the search, (D,).

        Returns:
            One line, such as `kp = 2 N/m, kd = 0.5`; empty for a network.
        """
        units = {each.name: f" {each.unit}" if each.unit else "" for each in self.parameters}
        return ", ".join(f"{name} = {value:.6g}{units[name]}" for name, value in self.describe(theta).items())

    @property
    def raw(self) -> Callable[[Any, Any], Any]:
        """The output before any squashing: linear in θ for a linear policy."""
        return self.unsquashed or self.act

    def squash_raw(self, raw: Any) -> Any:
        """The actions of raw outputs: `act` is `squash_raw` of `raw`.

        Args:
            raw: what the policy puts out before any squashing or clipping, (…, A).

        Returns:
            The actions, (…, A).
        """
        return self.bounding(raw) if self.bounding else raw

    @property
    def on_columns(self) -> Callable[[Any, Any], Any]:
        """`act` on many observations as columns, (θ, (O, M)) → (A, M): features first, the fastest layout."""
        return self.columns or jax.vmap(self.act, in_axes=(None, 1), out_axes=1)

    def at(self, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """`act` at one θ on NumPy vectors, bit for bit, for many calls: what depends on θ alone is done once.

        Args:
            theta: the parameters, (D,).

        Returns:
            A function from one observation (O,) to its action (A,). That of a policy with a memory is for one
            episode, from its first observation to its last.
        """
        if self.bind:
            return self.bind(theta)
        return _remember(self.recurrence, theta) if self.recurrence else partial(self.act, theta)


def tanh(x: Any) -> Any:
    """Of NumPy and JAX arrays alike."""
    return namespace_of(x).tanh(x)


def relu(x: Any) -> Any:
    """max(x, 0), of NumPy and JAX arrays alike."""
    return namespace_of(x).maximum(x, 0)


def namespace_of(array: Any) -> Any:
    """NumPy for its own arrays, else JAX."""
    return np if isinstance(array, np.ndarray) else jnp


@cache
def compile_step(recurrence: Recurrence) -> Step:
    """`recurrence.step` as one compiled program in float32."""
    compiled: Step = in_float32(jax.jit(recurrence.step))
    return compiled


def _remember(recurrence: Recurrence, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from observation to action that carries the state of one episode."""
    step = compile_step(recurrence)
    state = in_float32(recurrence.initial)(theta)

    def answer(observation: np.ndarray) -> np.ndarray:
        nonlocal state
        state, action = step(theta, state, observation)
        return np.asarray(action)

    return answer
