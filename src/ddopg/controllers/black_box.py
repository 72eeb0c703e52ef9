"""Controllers that are no functions of JAX: of NumPy, in C++, in a PLC; or of which only returns are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.controllers.arguments import require_policy
from ddopg.controllers.declared import call_step, from_vector
from ddopg.errors import SpaceError, require, require_size
from ddopg.parameters import (
    Parameter,
    check_parameters,
    decode_parameters,
    encode_parameters,
    free_parameters,
)
from ddopg.policies import BlackBox, Policy
from ddopg.policies.own import call_once, check_functions, check_sizes, refuse_to_act

DIFFERENCE = 1e-2  # in scales of a parameter: half the width of a central difference


def black_box(
    parameters: Sequence[Parameter],
    step: Callable[..., Any],
    observation_size: int,
    action_size: int,
    *,
    initial: Callable[[dict[str, float]], Any] | None = None,
) -> Policy:
    """A controller that can only be called, for `DDOPG(…, policy=…)`.

    Stored observations are given to it again for the likelihoods, and derivatives are central differences in each
    parameter: one search step takes (2 D + 1) calls for every step that is compared. Rollouts take one call a step.

    Args:
        parameters: what is tuned, and what is only named (`fixed=True`).
        step: `step(parameters, observation)` gives the action, A numbers, where `parameters["kp"]` is a float in its
            own unit and the observation a NumPy array. With `initial`, `step(parameters, state, observation)` gives
            (state, action). It must be deterministic, and must not change the state it is given in place.
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        initial: `initial(parameters)` gives the state before the first step, any object.

    Returns:
        The policy class; its actions are clipped to the action range.

    Raises:
        ConfigError: if the parameters cannot be searched, `step` looks up another, or a function has other arguments
            or raises an error.
        SpaceError: if `step` does not give `action_size` finite numbers at the start.

    Example:
        >>> import numpy as np
        >>> def act(p, observation):
        ...     return [np.clip(p["kp"] * observation[0], -1.0, 1.0) if observation[0] > 0.1 else 0.0]
        >>> policy = black_box([Parameter("kp", 2.0, bounds=(0.0, 8.0))], act, observation_size=1, action_size=1)
        >>> policy.act(np.zeros(1), np.array([0.25])).tolist()
        [0.5]
    """
    known = check_parameters(parameters)
    check_functions("step", step, initial)
    names, size = [each.name for each in known], len(free_parameters(known))
    _, observation_size, action_size = check_sizes(size, observation_size, action_size)
    box = _make_box(step, initial, action_size, _remember_last(partial(_by_name, names, known)))
    zeros = np.zeros(size, np.float32)
    seen = np.zeros(observation_size, np.float32)
    _, first = call_once("step", lambda: box.step(zeros, box.initial(zeros), seen))
    require(
        first.shape == (action_size,) and bool(np.isfinite(first).all()),
        f"step must give {action_size} finite numbers for one observation of {observation_size}, got {first}",
        SpaceError,
    )
    return Policy(
        size,
        lambda key: zeros,
        refuse_to_act if initial is not None else _act_on_each(box),
        (1.0,) * action_size,
        parameters=known,
        bind=lambda theta: _play(box, theta),
        black_box=box,
        observation_size=observation_size,
    )


def returns_only(parameters: Sequence[Parameter], context_size: int = 1) -> Policy:
    """For a machine of which nothing is seen but parameters and returns: a kernel in the space of the parameters.

    The policy's one action is its own search coordinates, so that rollouts count for another policy by how near its
    parameters are, at a length-scale taken from the data. Observations, if there are any, are the context of the
    rollout. Use it with a horizon of 1 and an unbounded action space; `ddopg.tune_controller` does.

    Args:
        parameters: what is tuned, and what is only named (`fixed=True`).
        context_size: numbers that the world fixes per rollout; at least 1, which may stay 0.

    Returns:
        The policy class, with as many actions as there are free parameters.

    Raises:
        ConfigError: if the parameters cannot be searched.

    Example:
        >>> policy = returns_only([Parameter("kp", 2.0, bounds=(0.0, 8.0)), Parameter("kd", 0.1, scale=0.1)])
        >>> policy.size == len(policy.action_scale)
        True
    """
    known, context_size = check_parameters(parameters), require_size("context_size", context_size)
    size = len(free_parameters(known))
    policy = from_vector(known, lambda values, seen: jnp.zeros(size), (context_size, size))

    def act(theta: Any, observation: Any) -> Any:
        row = theta.reshape((1,) * (observation.ndim - 1) + theta.shape)  # JAX may be told to promote none
        return row + 0 * observation[..., :1]

    return policy._replace(act=act)


def theta_of(policy: Policy, values: dict[str, float]) -> np.ndarray:
    """The search coordinates of values in real units.

    Args:
        policy: a controller.
        values: name → value; free parameters that are left out have their start.

    Returns:
        θ, (D,).

    Raises:
        ConfigError: if a name is no parameter, or a value is out of its bounds.

    Example:
        >>> theta_of(returns_only([Parameter("kp", 2.0, bounds=(0.0, 8.0))]), {"kp": 4.0}).tolist()
        [1.0]
    """
    require_policy(policy)
    return encode_parameters(policy.parameters, values)


def _by_name(names: Sequence[str], known: Sequence[Parameter], theta: Any) -> dict[str, float]:
    return dict(zip(names, decode_parameters(known, np.asarray(theta, np.float64)).tolist(), strict=True))


def _remember_last(read: Callable[[Any], dict[str, float]]) -> Callable[[Any], dict[str, float]]:
    """`read` for many calls with the same θ; each gets a dictionary of its own, which a user may change."""
    last: tuple[bytes, dict[str, float]] = b"", {}

    def read_again(theta: Any) -> dict[str, float]:
        nonlocal last
        key, found = np.asarray(theta, np.float64).tobytes(), last
        if found[0] != key:
            last = found = key, read(theta)
        return dict(found[1])

    return read_again


def _make_box(
    step: Callable[..., Any],
    initial: Callable[[dict[str, float]], Any] | None,
    action_size: int,
    read: Callable[[Any], dict[str, float]],
) -> BlackBox:
    def begin(theta: np.ndarray) -> Any:
        return None if initial is None else initial(read(theta))

    def advance(theta: np.ndarray, state: Any, observation: np.ndarray) -> tuple[Any, np.ndarray]:
        if initial is None:
            action = call_step(step, read(theta), observation)
        else:
            state, action = _read_pair(call_step(step, read(theta), state, observation))
        return state, _read_action(action)

    box = BlackBox(lambda theta, seen: None, begin, advance, memory=initial is not None)
    return box._replace(along=_differentiable(box, action_size))


def _read_pair(answer: Any) -> tuple[Any, Any]:
    require(
        isinstance(answer, tuple | list) and len(answer) == 2,
        f"a controller with a memory gives two things, (state, action), got {answer!r:.80}",
        SpaceError,
    )
    return answer[0], answer[1]


def _read_action(answer: Any) -> np.ndarray:
    try:
        return np.asarray(answer, np.float32).reshape(-1)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"step must give numbers as its action, got {answer!r:.80}: {error}") from error


def _differentiable(box: BlackBox, action_size: int) -> Callable[[Any, Any], Any]:
    """Actions along a path as a function that JAX can call, map and differentiate with respect to θ."""

    def play(theta: Any, observations: Any) -> np.ndarray:
        act = _play(box, np.asarray(theta))
        return np.stack([act(seen) for seen in np.asarray(observations)])

    def slopes(theta: Any, observations: Any) -> np.ndarray:
        at = np.asarray(theta)
        moves = DIFFERENCE * np.eye(len(at), dtype=np.float32)
        each = [(play(at + move, observations) - play(at - move, observations)) for move in moves]
        return (np.stack(each, axis=-1) / (2 * DIFFERENCE)).astype(np.float32)

    def call(function: Callable[..., np.ndarray], shape: tuple[int, ...], *arguments: Any) -> jax.Array:
        result = jax.ShapeDtypeStruct(shape, jnp.float32)
        answer: jax.Array = jax.pure_callback(function, result, *arguments, vmap_method="sequential")
        return answer

    @jax.custom_jvp
    def along(theta: Any, observations: Any) -> jax.Array:
        return call(play, (len(observations), action_size), theta, observations)

    @along.defjvp
    def _(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        theta, observations = primals
        slope = call(slopes, (len(observations), action_size, len(theta)), theta, observations)
        return along(theta, observations), jnp.einsum("had,d->ha", slope, tangents[0])

    def either(theta: Any, observations: Any) -> Any:
        host = isinstance(theta, np.ndarray) and isinstance(observations, np.ndarray)
        return play(theta, observations) if host else along(theta, observations)

    return either


def _play(box: BlackBox, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from observation to action that carries the state of one episode."""
    state = box.initial(theta)

    def act(observation: np.ndarray) -> np.ndarray:
        nonlocal state
        state, action = box.step(theta, state, observation)
        return action

    return act


def _act_on_each(box: BlackBox) -> Callable[[Any, Any], np.ndarray]:
    def act(theta: Any, observation: Any) -> np.ndarray:
        rows = np.asarray(observation)
        each = [box.step(np.asarray(theta), None, row)[1] for row in rows.reshape(-1, rows.shape[-1])]
        return np.stack(each).reshape(*rows.shape[:-1], -1)

    return act
