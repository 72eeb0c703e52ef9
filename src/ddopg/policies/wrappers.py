"""What goes around a policy: bounds of its actions, scales of its observations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from ddopg.errors import ConfigError, SpaceError, require
from ddopg.policies.record import BlackBox, Policy, Step, namespace_of, tanh

Wrapper = TypeVar("Wrapper", bound=Callable[..., Policy])


def _checked(wrap: Wrapper) -> Wrapper:
    """A wrapper that takes any rows of numbers, and gives the same policy for the same ones."""
    cached = cache(wrap)

    @wraps(wrap)
    def wrap_checked(policy: Policy, *given: Any, **named: Any) -> Policy:
        require(
            isinstance(policy, Policy),
            f"{wrap.__name__} takes a policy class first, such as a controller or ddopg.policies.linear(...) gives, "
            f"got {type(policy).__name__}",
        )
        rows = {name: _as_row(name, value) for name, value in named.items()}
        return cached(
            policy, *(_as_row(f"each bound or scale of {wrap.__name__}", value) for value in given), **rows
        )

    return cast(Wrapper, wrap_checked)


def _as_row(name: str, value: Any) -> tuple[float, ...] | bool:
    """A row of numbers that can be compared; a choice stays as it is."""
    if isinstance(value, bool):
        return value
    try:
        return tuple(map(float, value))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} must be a row of numbers, such as (-1.0, 1.0), got {value!r:.80}"
        ) from error


@_checked
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
        >>> policy = squashed(ddopg.policies.linear(1, 1), low=(0.0,), high=(4.0,))
        >>> policy.act(np.zeros(2), np.array([3.0])).tolist()
        [2.0]
    """
    return _bounded(policy, low, high, tanh)


@_checked
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
        >>> policy = clipped(ddopg.policies.linear(1, 1), low=(0.0,), high=(4.0,))
        >>> policy.act(np.array([9.0, 0.0]), np.array([3.0])).tolist()
        [4.0]
    """
    return _bounded(policy, low, high, lambda x: namespace_of(x).clip(x, -1.0, 1.0))


@_checked
def limited(policy: Policy, low: tuple[float, ...], high: tuple[float, ...], smooth: bool = False) -> Policy:
    """Actions in their own unit, clipped to the action range: a = min(max(policy, low), high).

    Args:
        policy: what is wrapped.
        low: the smallest action, (A,); −∞ sets no limit.
        high: the largest action, (A,).
        smooth: approach the bounds as tanh does, mid + half · tanh((policy − mid) / half): small answers stay as they
            are.

    Returns:
        The policy class with the same parameters; its `action_scale` is half the range, where that is finite.

    Raises:
        SpaceError: if there is not one number per action, a low is above its high, or a smooth limit is infinite.

    Example:
        >>> import numpy as np
        >>> policy = limited(ddopg.policies.linear(1, 1), low=(-10.0,), high=(10.0,))
        >>> policy.act(np.array([2.0, 0.0]), np.array([3.0])).tolist()
        [6.0]
        >>> policy.act(np.array([2.0, 0.0]), np.array([30.0])).tolist()
        [10.0]
    """
    require(
        len(low) == len(high) == len(policy.action_scale)
        and all(lower <= upper for lower, upper in zip(low, high, strict=True)),
        f"low and high must have one number per action, {len(policy.action_scale)}, low not above high, got {low} "
        f"and {high}",
        SpaceError,
    )
    if smooth:
        _require_range(low, high)
    low_, high_ = np.asarray(low, np.float32), np.asarray(high, np.float32)
    finite = np.isfinite(low_) & np.isfinite(high_) & (low_ < high_)
    own = np.asarray(policy.action_scale, np.float32)
    bottom, top = np.where(finite, low_, -own), np.where(finite, high_, own)
    half, mid = (top - bottom) / 2, (top + bottom) / 2

    def bound(x: Any) -> Any:
        low, high, centre, width = (_rows_of(x, numbers) for numbers in (low_, high_, mid, half))
        return centre + width * tanh((x - centre) / width) if smooth else namespace_of(x).clip(x, low, high)

    return _wrap(policy, bound, lambda x: (x - _rows_of(x, mid)) / _rows_of(x, half))._replace(
        action_scale=tuple(map(float, half)),
        bounds=(low, high) if bool(finite.all()) else None,
        bounding=lambda raw: bound(_rows_of(raw, mid) + _rows_of(raw, half) * raw),
    )


@_checked
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
        >>> policy = normalised(ddopg.policies.linear(1, 1), centre=(20.0,), scale=(5.0,))
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
        act=seeing(policy.act),
        unsquashed=unsquashed,
        columns=columns,
        bind=bind if policy.bind else None,
        on_standardised=None,
    )


def _bounded(
    policy: Policy, low: tuple[float, ...], high: tuple[float, ...], bound: Callable[[Any], Any]
) -> Policy:
    _require_range(low, high)
    low_, high_ = np.asarray(low, np.float32), np.asarray(high, np.float32)
    mid, half = (low_ + high_) / 2, (high_ - low_) / 2

    def act(theta: Any, observation: Any) -> Any:
        return mid + half * bound(policy.act(theta, observation))

    def columns(theta: Any, x: Any) -> Any:
        return mid[:, None] + half[:, None] * bound(policy.on_columns(theta, x))

    def bind(theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        answer, numpy_bound = policy.at(theta), np.tanh if bound is tanh else bound
        return lambda observation: mid + half * numpy_bound(answer(observation))

    def bounding(raw: Any) -> Any:
        return _rows_of(raw, mid) + _rows_of(raw, half) * bound(raw)

    action_scale = tuple(map(float, half))
    if policy.recurrence:
        outer = _wrap(policy, lambda x: mid + half * bound(x), lambda x: x)
        return outer._replace(action_scale=action_scale, bounds=(low, high))
    return policy._replace(
        act=act,
        action_scale=action_scale,
        unsquashed=policy.act,
        columns=columns,
        bind=bind if policy.bind else None,
        bounds=(low, high),
        bounding=bounding,
    )


def _rows_of(x: Any, numbers: np.ndarray) -> np.ndarray:
    """(A,) with as many axes as `x` (…, A): JAX may be told to promote none."""
    return numbers.reshape((1,) * (x.ndim - 1) + numbers.shape)


def _wrap_black_box(box: BlackBox, outer: Callable[[Any], Any]) -> BlackBox:
    def step(theta: np.ndarray, state: Any, observation: np.ndarray) -> tuple[Any, np.ndarray]:
        after, action = box.step(theta, state, observation)
        return after, outer(action)

    def along(theta: Any, observations: Any) -> Any:
        return outer(box.along(theta, observations))

    return box._replace(along=along, step=step)


def _require_range(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    require(
        len(low) == len(high),
        f"low and high must have one number per action, got {low} and {high}",
        SpaceError,
    )
    for lower, upper in zip(low, high, strict=True):
        require(
            math.isfinite(lower) and math.isfinite(upper) and lower < upper,
            f"squashing needs finite action bounds low < high, got [{lower}, {upper}]; wrap the environment in "
            "gymnasium.wrappers.RescaleAction or ClipAction with bounds, or set policy.squash to False",
            SpaceError,
        )


def _wrap(policy: Policy, outer: Callable[[Any], Any], raw: Callable[[Any], Any]) -> Policy:
    """The policy whose actions a go through `outer`; `raw` of them is what counts as the output before that."""

    def acting(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda theta, observation: change(policy.act(theta, observation))

    def bind(theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        answer = policy.at(theta)
        return lambda observation: outer(answer(observation))

    if policy.recurrence is None:
        return policy._replace(
            act=policy.act if policy.remembers else acting(outer),
            unsquashed=acting(raw),
            columns=None,
            bind=bind if policy.bind else None,
            black_box=policy.black_box and _wrap_black_box(policy.black_box, outer),
        )
    inside = policy.recurrence

    def stepping(change: Callable[[Any], Any]) -> Step:
        def step(theta: Any, state: Any, observation: Any) -> tuple[Any, Any]:
            after, action = inside.step(theta, state, observation)
            return after, change(action)

        return step

    return policy._replace(
        recurrence=inside._replace(step=stepping(outer), raw=stepping(raw)),
        bind=bind if policy.bind else None,
    )
