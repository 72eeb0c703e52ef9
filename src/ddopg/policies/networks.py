"""Networks: fully connected, with a linear output; a linear policy is one without hidden layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.errors import require, require_size
from ddopg.policies.record import Policy, namespace_of, tanh


def mlp(
    observation_size: int,
    action_size: int,
    hidden: tuple[int, ...] = (16, 16),
    activation: Callable[[Any], Any] = tanh,
    linear_path: bool = False,
) -> Policy:
    """Fully connected network with a linear output; without hidden layers, a linear policy with bias.

    Args:
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        hidden: units of each hidden layer; empty for a linear policy.
        activation: of the hidden layers; it must take NumPy and JAX arrays alike, as `tanh` and `relu` here do.
        linear_path: the output layer sees the observation o too, beside the last hidden layer h: a = V·h + K·o + b.
            What a linear policy can do is then there from the start, and the hidden layers add to it. Without hidden
            layers it changes nothing.

    Returns:
        The policy class; its parameters are all weights and biases, layer by layer, the output's bias last, and K
        before it.

    Raises:
        ConfigError: if a size is no whole number above 0.

    Example:
        >>> mlp(4, 1, hidden=(16, 16)).size
        369
        >>> mlp(4, 1, hidden=(16, 16), linear_path=True).size
        373
    """
    sizes = require_size("observation_size", observation_size), require_size("action_size", action_size)
    require(
        isinstance(hidden, list | tuple),
        f"hidden must be the units of each hidden layer, such as (16, 16), got {hidden!r}",
    )
    units = tuple(require_size("a hidden layer", each) for each in hidden)
    return _make_network(*sizes, units, activation, linear_path)


@cache
def _make_network(
    observation_size: int,
    action_size: int,
    hidden: tuple[int, ...],
    activation: Callable[[Any], Any],
    linear_path: bool,
) -> Policy:
    """`mlp`, the same record each time, so that nothing is compiled twice."""
    beside = observation_size if linear_path and hidden else 0  # inputs that the output layer has beside h
    *inner, (last, outputs) = pairwise((observation_size, *hidden, action_size))
    layers = (*inner, (last + beside, outputs))
    size = sum(rows * columns + columns for rows, columns in layers)

    def init(key: jax.Array) -> jax.Array:
        """Glorot-uniform weights, zero biases."""
        parts = []
        for k, (rows, columns) in zip(jax.random.split(key, len(layers)), layers, strict=True):
            limit = float(np.sqrt(6 / (rows + columns)))
            weights = jax.random.uniform(k, (rows * columns,), minval=-limit, maxval=limit)
            parts += [weights, jnp.zeros(columns)]
        return jnp.concatenate(parts)

    def act(theta: Any, observation: Any) -> Any:
        x, (*first, (weights_out, bias_out)) = observation, _layers_of(theta, layers)
        for weights, bias in first:
            x = activation(x @ weights + bias)
        if beside:
            x = namespace_of(x).concatenate([x, observation], axis=-1)
        return x @ weights_out + bias_out

    def columns(theta: Any, observations: Any) -> Any:
        x, (*first, (weights_out, bias_out)) = observations, _layers_of(theta, layers)
        for weights, bias in first:
            x = activation(weights.T @ x + bias[:, None])
        if beside:
            x = jnp.concatenate([x, observations], axis=0)
        return weights_out.T @ x + bias_out[:, None]

    return Policy(
        size,
        init,
        act,
        action_scale=(1.0,) * action_size,
        linear=not hidden,
        bias=True,
        columns=columns,
        width=max((action_size, *hidden)),
        output_params=(last + beside + 1) * action_size,
        linear_params=(observation_size + 1) * action_size if beside else 0,
        bind=partial(_network_at, layers, activation, bool(beside)),
        on_standardised=partial(_see_standardised, layers, observation_size, bool(beside)),
        observation_size=observation_size,
    )


def linear(observation_size: int, action_size: int) -> Policy:
    """a = K·observation + b.

    Args:
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.

    Returns:
        The policy class; its parameters are K, row by row of the observation, and b.

    Example:
        >>> linear(4, 1).size
        5
    """
    return mlp(observation_size, action_size, ())


def _see_standardised(
    layers: tuple[tuple[int, int], ...],
    observation_size: int,
    linear_path: bool,
    theta: Any,
    mean: Any,
    deviation: Any,
) -> Any:
    """W·o + b = (W·deviation)·(o − mean)/deviation + (b + W·mean), in every layer that sees observations."""
    parts = _layers_of(theta, layers)
    for i in {0, len(layers) - 1} if linear_path else {0}:
        weights, bias = parts[i]
        start = len(weights) - observation_size  # of a linear path: below the hidden units
        inputs = weights[start:]
        parts[i] = weights.at[start:].set(inputs * deviation[:, None]), bias + mean @ inputs
    return jnp.concatenate([piece for weights, bias in parts for piece in (weights.ravel(), bias)])


def _network_at(
    layers: tuple[tuple[int, int], ...],
    activation: Callable[[Any], Any],
    linear_path: bool,
    theta: np.ndarray,
) -> Callable[[np.ndarray], np.ndarray]:
    """`act` of `mlp` at one θ."""
    *inner, (weights_out, bias_out) = _layers_of(theta, layers)
    bend = np.tanh if activation is tanh else activation

    def answer(observation: np.ndarray) -> np.ndarray:
        x = observation
        for weights, bias in inner:
            x = x.dot(weights)  # as `@`, at half its price
            x += bias
            x = bend(x, x) if bend is np.tanh else bend(x)  # in its place
        if linear_path:
            x = np.concatenate([x, observation])
        x = x.dot(weights_out)
        x += bias_out
        return x

    return answer


def _layers_of(theta: Any, layers: tuple[tuple[int, int], ...]) -> list[tuple[Any, Any]]:
    parts, start = [], 0
    for rows, columns in layers:
        middle, end = start + rows * columns, start + rows * columns + columns
        parts.append((theta[start:middle].reshape(rows, columns), theta[middle:end]))
        start = end
    return parts
