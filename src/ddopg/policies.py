"""Policies: records of functions over one flat parameter vector θ (D,).

`act(θ, observation)` runs on NumPy arrays at NumPy's price (rollouts) and on JAX arrays under `jit`, `grad` and
`vmap` (the surrogate): one definition serves both. Observations may have leading axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ddopg.config import PolicyConfig
from ddopg.errors import SpaceError, require
from ddopg.support.compilation import in_float32


class Policy(NamedTuple):
    """A deterministic policy class a = act(θ, observation): a record of functions, without parameters of its own.

    `mlp`, `linear` and `custom` make one, `squashed`, `clipped` and `normalised` wrap one.

    Example:
        >>> import numpy as np
        >>> policy = linear(observation_size=2, action_size=1)
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
    bind: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]] | None = None  # `at`, if there is a way

    @property
    def raw(self) -> Callable[[Any, Any], Any]:
        """The output before any squashing: linear in θ for a linear policy."""
        return self.unsquashed or self.act

    @property
    def on_columns(self) -> Callable[[Any, Any], Any]:
        """`act` on many observations as columns, (θ, (O, M)) → (A, M): features first, the fastest layout."""
        return self.columns or jax.vmap(self.act, in_axes=(None, 1), out_axes=1)

    def at(self, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """`act` at one θ on NumPy vectors, bit for bit, for many calls: what depends on θ alone is done once.

        Args:
            theta: the parameters, (D,).

        Returns:
            A function from one observation (O,) to its action (A,).
        """
        return self.bind(theta) if self.bind else partial(self.act, theta)


def tanh(x: Any) -> Any:
    """Of NumPy and JAX arrays alike."""
    return _namespace(x).tanh(x)


def relu(x: Any) -> Any:
    """max(x, 0), of NumPy and JAX arrays alike."""
    return _namespace(x).maximum(x, 0)


@cache
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

    Example:
        >>> mlp(4, 1, hidden=(16, 16)).size
        369
        >>> mlp(4, 1, hidden=(16, 16), linear_path=True).size
        373
    """
    beside = observation_size if linear_path and hidden else 0  # inputs that the output layer has beside h
    *inner, (last, outputs) = pairwise((observation_size, *hidden, action_size))
    layers = (*inner, (last + beside, outputs))
    size = sum(rows * columns + columns for rows, columns in layers)

    def init(key: jax.Array) -> jax.Array:
        """Glorot-uniform weights, zero biases."""
        parts = []
        for k, (rows, columns) in zip(jax.random.split(key, len(layers)), layers, strict=True):
            limit = float(np.sqrt(6 / (rows + columns)))
            parts += [
                jax.random.uniform(k, (rows * columns,), minval=-limit, maxval=limit),
                jnp.zeros(columns),
            ]
        return jnp.concatenate(parts)

    def act(theta: Any, observation: Any) -> Any:
        x, (*first, (weights_out, bias_out)) = observation, _layers_of(theta, layers)
        for weights, bias in first:
            x = activation(x @ weights + bias)
        if beside:
            x = _namespace(x).concatenate([x, observation], axis=-1)
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
        linear_params=(observation_size + 1) * action_size if beside else 0,
        bind=partial(_network_at, layers, activation, bool(beside)),
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


@in_float32
def custom(
    init: Callable[[jax.Array], Any],
    apply: Callable[[Any, Any], Any],
    observation_size: int,
    action_size: int,
) -> Policy:
    """A policy class of your own, such as a module of Flax or Equinox.

    It must be deterministic, and smooth enough to be differentiated.

    Args:
        init: `init(key)` gives its parameters, any pytree of arrays.
        apply: `apply(parameters, observation)` gives the raw action (A,) for one observation (O,).
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.

    Returns:
        The policy class, for `DDOPG(…, policy=…)`.

    Raises:
        SpaceError: if `apply` does not give `action_size` numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> policy = custom(
        ...     init=lambda key: {"gain": jnp.array([2.0])},
        ...     apply=lambda parameters, observation: -parameters["gain"] * observation,
        ...     observation_size=1,
        ...     action_size=1,
        ... )
        >>> policy.size
        1
    """
    example, unravel = ravel_pytree(init(jax.random.key(0)))
    answer = jax.eval_shape(apply, unravel(example), jnp.zeros(observation_size))
    require(
        getattr(answer, "shape", None) == (action_size,),
        f"apply(parameters, observation) must give {action_size} numbers for one observation of {observation_size}, "
        f"got {answer}; let the last layer have {action_size} outputs",
        SpaceError,
    )

    def act(theta: Any, observation: Any) -> Any:
        each = jnp.vectorize(partial(apply, unravel(theta)), signature="(o)->(a)")
        return each(observation)

    compiled = in_float32(jax.jit(act))

    def act_on_either(theta: Any, observation: Any) -> Any:
        if isinstance(theta, np.ndarray) and isinstance(observation, np.ndarray):
            return np.asarray(compiled(theta, observation))
        return act(theta, observation)

    return Policy(len(example), lambda key: ravel_pytree(init(key))[0], act_on_either, (1.0,) * action_size)


@cache
def squashed(policy: Policy, low: tuple[float, ...], high: tuple[float, ...]) -> Policy:
    """tanh onto the action range: a = mid + half · tanh(policy).

    Args:
        policy: what is wrapped.
        low: the smallest action, (A,).
        high: the largest action, (A,).

    Returns:
        The policy class with the same parameters; its `action_scale` is half the range.

    Raises:
        SpaceError: if a bound is infinite, or low is not below high.

    Example:
        >>> import numpy as np
        >>> policy = squashed(linear(1, 1), low=(0.0,), high=(4.0,))
        >>> policy.act(np.zeros(2), np.array([3.0])).tolist()
        [2.0]
    """
    return _bounded(policy, low, high, tanh)


@cache
def clipped(policy: Policy, low: tuple[float, ...], high: tuple[float, ...]) -> Policy:
    """[−1, 1] onto the action range, and not beyond: a = mid + half · clip(policy).

    Args:
        policy: what is wrapped.
        low: the smallest action, (A,).
        high: the largest action, (A,).

    Returns:
        The policy class with the same parameters; its `action_scale` is half the range.

    Raises:
        SpaceError: if a bound is infinite, or low is not below high.

    Example:
        >>> import numpy as np
        >>> policy = clipped(linear(1, 1), low=(0.0,), high=(4.0,))
        >>> policy.act(np.array([9.0, 0.0]), np.array([3.0])).tolist()
        [4.0]
    """
    return _bounded(policy, low, high, lambda x: _namespace(x).clip(x, -1.0, 1.0))


@cache
def normalised(policy: Policy, centre: tuple[float, ...], scale: tuple[float, ...]) -> Policy:
    """The policy sees (observation − centre) / scale.

    Args:
        policy: what is wrapped.
        centre: what counts as zero of each observation, (O,).
        scale: what counts as one of each observation, (O,).

    Returns:
        The policy class with the same parameters.

    Raises:
        SpaceError: if a scale is not positive.

    Example:
        >>> import numpy as np
        >>> policy = normalised(linear(1, 1), centre=(20.0,), scale=(5.0,))
        >>> policy.act(np.array([1.0, 0.0]), np.array([30.0])).tolist()
        [2.0]
    """
    require(all(s > 0 for s in scale), f"observation scales must be positive, got {scale}", SpaceError)
    centre_, scale_ = np.asarray(centre, np.float32), np.asarray(scale, np.float32)

    def seeing(act: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda theta, observation: act(theta, (observation - centre_) / scale_)

    def columns(theta: Any, x: Any) -> Any:
        return policy.on_columns(theta, (x - centre_[:, None]) / scale_[:, None])

    def bind(theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        answer = policy.at(theta)
        return lambda observation: answer((observation - centre_) / scale_)

    unsquashed = seeing(policy.unsquashed) if policy.unsquashed else None
    return policy._replace(
        act=seeing(policy.act), unsquashed=unsquashed, columns=columns, bind=bind if policy.bind else None
    )


def make_policy(
    config: PolicyConfig,
    observation_size: int,
    low: np.ndarray,
    high: np.ndarray,
    network: Policy | None = None,
) -> Policy:
    """The policy class that a configuration asks for.

    Args:
        config: the hidden layers, and whether the output is squashed onto the action range.
        observation_size: numbers per observation, O.
        low: the smallest action, (A,).
        high: the largest action, (A,).
        network: a policy class of your own in the place of the configured network.

    Returns:
        The policy class, squashed if the configuration says so.

    Raises:
        SpaceError: if the action range cannot be squashed onto, or the network has other actions.

    Example:
        >>> import numpy as np
        >>> from ddopg.config import PolicyConfig
        >>> make_policy(PolicyConfig(hidden=(), squash=True), 4, np.array([-1.0]), np.array([1.0])).size
        5
    """
    policy = network or mlp(observation_size, len(low), tuple(config.hidden), linear_path=config.linear_path)
    require(
        len(policy.action_scale) == len(low),
        f"the policy has {len(policy.action_scale)} actions, the action space {len(low)}; they must be the same",
        SpaceError,
    )
    if not config.squash:
        return policy
    return squashed(policy, tuple(map(float, low)), tuple(map(float, high)))


def _bounded(
    policy: Policy, low: tuple[float, ...], high: tuple[float, ...], bound: Callable[[Any], Any]
) -> Policy:
    for lower, upper in zip(low, high, strict=True):
        require(
            math.isfinite(lower) and math.isfinite(upper) and lower < upper,
            f"squashing needs finite action bounds low < high, got [{lower}, {upper}]; wrap the environment in "
            "gymnasium.wrappers.RescaleAction or ClipAction with bounds, or set policy.squash to False",
            SpaceError,
        )
    low_, high_ = np.asarray(low, np.float32), np.asarray(high, np.float32)
    mid, half = (low_ + high_) / 2, (high_ - low_) / 2

    def act(theta: Any, observation: Any) -> Any:
        return mid + half * bound(policy.act(theta, observation))

    def columns(theta: Any, x: Any) -> Any:
        return mid[:, None] + half[:, None] * bound(policy.on_columns(theta, x))

    def bind(theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        answer, numpy_bound = policy.at(theta), np.tanh if bound is tanh else bound
        return lambda observation: mid + half * numpy_bound(answer(observation))

    action_scale = tuple(map(float, half))
    return policy._replace(
        act=act,
        action_scale=action_scale,
        unsquashed=policy.act,
        columns=columns,
        bind=bind if policy.bind else None,
        bounds=(low, high),
    )


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
            x = bend(x)
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


def _namespace(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else jnp
