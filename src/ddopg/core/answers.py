"""What a policy answers outside of learning: within the action range, and never to a reading that is no number."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ddopg.core.problem import Problem
from ddopg.core.replay import begin_episode, respond_to_batch
from ddopg.errors import ObservationError, require
from ddopg.policies import BlackBox, Policy

CHOICES = ("raise", "safe")
"""What may be done about an observation that is not finite: raise an error, or answer with the safe action."""

SafeAction = tuple[float, ...] | None
"""The answer to an observation that is not finite, (A,); None raises."""


def choose_safe_action(on_invalid: str, safe_action: Any, problem: Problem) -> SafeAction:
    """Check the choice that a user made.

    Args:
        on_invalid: `raise` or `safe`.
        safe_action: for `safe`, numbers within the action range, (A,).
        problem: the action range.

    Returns:
        The safe action as it will be answered, or None.

    Raises:
        ConfigError: if the choice is another, or the action is missing or out of the range.
    """
    require(on_invalid in CHOICES, f"on_invalid must be 'raise' or 'safe', got {on_invalid!r}")
    if on_invalid == "raise":
        require(safe_action is None, "a safe_action is answered only with on_invalid='safe'; give both")
        return None
    require(
        safe_action is not None,
        "on_invalid='safe' needs a safe_action, such as the one that stops the machine",
    )
    size = problem.action_size
    try:
        numbers = np.asarray(safe_action, np.float64).ravel()
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    require(
        numbers.size == size and bool(np.isfinite(numbers).all()),
        f"safe_action must be {size} finite numbers, got {safe_action}",
    )
    require(
        bool(np.all((problem.low <= numbers) & (numbers <= problem.high))),
        f"safe_action must lie within the action range {problem.low} to {problem.high}, got {safe_action}",
    )
    return tuple(map(float, clip_to_range(numbers, problem)))


def read_observations(observations: Any) -> np.ndarray:
    """Numbers of a user as float32; what float32 cannot hold becomes infinite, and is found later.

    Raises:
        ObservationError: if they are no numbers, or rows of different lengths.
    """
    with np.errstate(over="ignore"):
        try:
            return np.asarray(observations, np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            came = type(observations).__name__
            raise ObservationError(
                f"an observation is a vector of numbers, or a batch of them, got {came}: {error}; make a vector of a "
                "nested one, as the learner did: gymnasium.spaces.utils.flatten(space, observation)"
            ) from error


def answer(
    policy: Policy, theta: np.ndarray, observations: np.ndarray, safe_action: SafeAction
) -> np.ndarray:
    """The policy's actions before any clipping; where there is none, the safe action or an error.

    Args:
        policy: the policy class.
        theta: its parameters, (D,).
        observations: (O,) or (B, O), float32.
        safe_action: what to answer where an observation, or the policy's answer to it, is not finite.

    Returns:
        Actions, (A,) or (B, A).

    Raises:
        ObservationError: where there is no answer and no safe action.
    """
    finite = _look_at(observations, safe_action)
    with np.errstate(over="ignore", invalid="ignore"):
        actions = np.asarray(policy.act(theta, observations))
    return _replace(observations, finite, actions, safe_action)


def answer_with_memory(
    policy: Policy, theta: np.ndarray, state: Any, observations: np.ndarray, safe_action: SafeAction
) -> tuple[np.ndarray, np.ndarray]:
    """`answer` of a policy with a memory, which it hands on.

    Args:
        policy: the policy class.
        theta: its parameters, (D,).
        state: what it remembers, (S,), or (B, S) for a batch; None at the start of an episode.
        observations: (O,) or (B, O), float32.
        safe_action: what to answer where an observation, or the policy's answer to it, is not finite; the memory then
            stays as it was.

    Returns:
        Actions (A,) or (B, A), and what is remembered after them.

    Raises:
        ObservationError: where there is no answer and no safe action, or the state has another shape.
    """
    if policy.black_box is not None:
        return _call_black_box(policy.black_box, theta, state, observations, safe_action)
    assert policy.recurrence is not None
    size, rows = policy.recurrence.size, observations.reshape(-1, observations.shape[-1])
    fresh = state is None
    before = np.tile(begin_episode(policy, theta), (len(rows), 1)) if fresh else _read_state(state)
    require(
        before.size == len(rows) * size,
        f"the state of this policy has {size} numbers per observation, got shape {before.shape} for {len(rows)} "
        "observations; give what the last call returned, or None at the start of an episode",
        ObservationError,
    )
    before = before.reshape(len(rows), size)
    finite = _look_at(rows, safe_action)
    known = np.where(finite, rows, 0.0).astype(np.float32)
    after, actions = respond_to_batch(policy, theta, before, known)
    assert after is not None
    sound = finite.all(axis=-1) & np.isfinite(actions).all(axis=-1)
    actions = _replace(rows, finite, actions, safe_action)
    shape = observations.shape[:-1]
    kept = np.where(sound[:, None], after, before)
    return actions.reshape(*shape, -1), kept.reshape(*shape, -1)


def _read_state(state: Any) -> np.ndarray:
    try:
        return np.asarray(state, np.float32)
    except (TypeError, ValueError) as error:
        raise ObservationError(
            f"the state of a policy is what the last call returned, or None at the start of an episode, got "
            f"{type(state).__name__}"
        ) from error


def restart_memory(policy: Policy, theta: np.ndarray, state: Any, episode_start: Any) -> Any:
    """The state with that of a new episode where one starts.

    Args:
        policy: the policy class.
        theta: its parameters, (D,).
        state: what it remembers, (S,) or (B, S), or None.
        episode_start: whether an episode starts, one for all or one per row, (B,); None: none does.
    """
    if state is None or episode_start is None:
        return state
    if policy.black_box is not None:
        if not isinstance(state, list):
            return None if np.any(episode_start) else state
        flags = np.broadcast_to(np.asarray(episode_start, bool).reshape(-1), len(state))
        fresh = policy.black_box.initial
        return [fresh(theta) if flag else one for flag, one in zip(flags, state, strict=True)]
    starts = np.asarray(episode_start, bool)
    starts = starts.reshape(-1, 1) if np.ndim(state) > 1 else starts.reshape(-1)[:1]
    return np.where(starts, begin_episode(policy, theta), np.asarray(state, np.float32))


def _call_black_box(
    box: BlackBox, theta: np.ndarray, state: Any, observations: np.ndarray, safe_action: SafeAction
) -> tuple[np.ndarray, Any]:
    """The state is any object; for a batch a list of them."""
    one = observations.ndim == 1
    rows = observations.reshape(-1, observations.shape[-1])
    finite = _look_at(rows, safe_action)
    states = [box.initial(theta) for _ in rows] if state is None else [state] if one else list(state)
    answered = [
        box.step(theta, before, row) if sound else (before, np.asarray(safe_action, np.float32))
        for before, row, sound in zip(states, rows, np.all(finite, axis=-1).tolist(), strict=True)
    ]
    actions = _replace(rows, finite, np.stack([action for _, action in answered]), safe_action)
    after = [state for state, _ in answered]
    return (actions[0], after[0]) if one else (actions, after)


def _look_at(observations: np.ndarray, safe_action: SafeAction) -> np.ndarray:
    """Which numbers are finite; an error where one is not, and there is no safe action."""
    finite = np.isfinite(observations)
    if safe_action is None and not finite.all():
        raise _bad_observation(observations, finite.all(axis=-1))
    return finite


def _replace(
    observations: np.ndarray, finite: np.ndarray, actions: np.ndarray, safe_action: SafeAction
) -> np.ndarray:
    """The safe action where an observation, or the answer to it, is not finite."""
    answered = np.isfinite(actions)
    if finite.all() and answered.all():
        return actions
    sound = finite.all(axis=-1) & answered.all(axis=-1)
    if safe_action is None:
        raise ObservationError(
            f"the policy has no finite action for {_first(observations, sound)}; such observations are too large for "
            "its parameters: check the sensors, or give on_invalid='safe' and a safe_action"
        )
    return np.where(sound[..., None], actions, np.asarray(safe_action, actions.dtype))


def clip_to_range(actions: np.ndarray, problem: Problem) -> np.ndarray:
    """Actions as float32 within the action range, also where float32 cannot say its bounds exactly."""
    low, high = float32_bounds(problem)
    with np.errstate(over="ignore"):
        return np.minimum(np.maximum(actions.astype(np.float32), low), high)


@lru_cache(maxsize=64)
def float32_bounds(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest float32 within the action range, (A,) each."""
    with np.errstate(over="ignore"):
        low, high = np.asarray(problem.low, np.float32), np.asarray(problem.high, np.float32)
    up, down = np.nextafter(low, np.float32(np.inf)), np.nextafter(high, np.float32(-np.inf))
    return np.where(low < problem.low, up, low), np.where(high > problem.high, down, high)


def _bad_observation(observations: np.ndarray, sound: np.ndarray) -> ObservationError:
    row = _first(observations, sound)
    place = int(np.flatnonzero(~np.isfinite(row))[0])
    where = f"at place {place}" + (f" in row {int(np.flatnonzero(~sound)[0])}" if sound.ndim else "")
    return ObservationError(
        f"a policy acts on finite observations, got {row[place]} {where} of {observations.shape[-1]} numbers; check "
        "the sensors, or give on_invalid='safe' and a safe_action to be answered then"
    )


def _first(observations: np.ndarray, sound: np.ndarray) -> np.ndarray:
    """The first observation that is not answered, (O,)."""
    return observations if not sound.ndim else observations[~sound][0]
