"""Episodes step by step: any Gymnasium environment, at NumPy's price, and what it does wrong said in words.

Every number that an environment returns is looked at, because environments do return nonsense. The looks are cheap
where all is well: a type, a shape, one sum; and what can wait until the episode is over is looked at in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import takes_unclipped_actions
from ddopg.errors import RolloutError

RESET = ("observation", "info")
STEP = ("observation", "reward", "terminated", "truncated", "info")
_FEW = 50  # numbers
_SHOWN = 80  # characters of a wrong reward

Step = tuple[np.ndarray, np.ndarray, float, bool, bool]


def iterate_steps(env: gym.Env, act: Callable[[np.ndarray], Any], seed: int, horizon: int) -> Iterator[Step]:
    """Play an episode step by step.

    Shapes and actions are looked at in every step, the observations all at once when the episode is over, or as soon
    as anything else is wrong: whoever consumes the steps to their end has seen no number that is not finite.

    Args:
        env: a Gymnasium environment whose spaces are boxes.
        act: the policy, from an observation to an action; the action is clipped to the space, unless the environment
            clips itself.
        seed: what the environment is reset with.
        horizon: the longest episode in steps.

    Yields:
        (observation, action, reward, terminated, truncated) of each step, until the episode is over.

    Raises:
        RolloutError: the environment raised, or returned something that it must not return.
    """
    observations: list[np.ndarray] = []
    try:
        yield from _iterate(env, act, seed, horizon, observations)
    except RolloutError:
        _require_finite(observations, seed)  # which came first, and may be the reason
        raise
    _require_finite(observations, seed)


def _iterate(
    env: gym.Env,
    act: Callable[[np.ndarray], Any],
    seed: int,
    horizon: int,
    observations: list[np.ndarray],
) -> Iterator[Step]:
    """`iterate_steps`, but that what was observed is kept and not looked at."""
    space, expected = env.action_space, env.observation_space.shape
    assert isinstance(space, gym.spaces.Box)
    make_step, keep, send = env.step, observations.append, _make_sender(env, space)
    plain = expected if expected is not None and len(expected) == 1 else None
    flat = (math.prod(space.shape),) if math.prod(space.shape) <= _FEW else None
    observation, _ = call_env(lambda: env.reset(seed=seed), RESET, "reset", 0, seed)
    for step in range(horizon):
        if type(observation) is np.ndarray and observation.shape == plain and observation.dtype.char in "fd":
            seen = observation.astype(np.float32)
        else:
            seen = _to_vector(observation, expected, step, seed)
        keep(seen)
        answer = act(seen)  # the policy's own array, which it may change: the copy is ours
        if type(answer) is np.ndarray and answer.dtype.char == "f" and answer.shape == flat:
            action = answer.copy()
            finite = isfinite(sum(action.tolist()))  # in double precision: the sum cannot overflow
        else:
            action = np.array(answer, np.float32)
            finite = bool(np.isfinite(action).all())
        if not finite:
            raise _bad_action(action, seen, step, seed)
        sent = send(action)
        try:
            returned = make_step(sent)
        except (Exception, SystemExit) as error:
            raise _explain_exception(error, "step", step, seed) from error
        if type(returned) is not tuple or len(returned) != len(STEP):
            raise _wrong_parts(returned, STEP, "step", step, seed)
        observation, reward, terminated, truncated, _ = returned
        if terminated is not False and terminated is not True:
            terminated = _to_bool(terminated, step, seed)
        if truncated is not False and truncated is not True:
            truncated = _to_bool(truncated, step, seed)
        if type(reward) is not float:
            reward = _to_float(reward, step, seed)
        yield seen, action, reward, terminated, truncated
        if terminated or truncated:
            return


def _make_sender(env: gym.Env, space: gym.spaces.Box) -> Callable[[np.ndarray], np.ndarray]:
    """What an environment is given for an action: a copy, which it may change, clipped unless it clips itself."""
    if takes_unclipped_actions(env):
        return np.ndarray.copy
    shape, low, high = space.shape, space.low, space.high
    if shape == (1,) and low.dtype.char == "f":  # most are not clipped, and Python sees that sooner
        lowest, highest = float(low[0]), float(high[0])
        return lambda action: (
            action.copy()
            if action.shape == shape and lowest <= action.item() <= highest
            else np.minimum(np.maximum(action.reshape(shape), low), high)
        )
    return lambda action: np.minimum(np.maximum(action.reshape(shape), low), high)


def call_env(call: Callable[[], Any], parts: tuple[str, ...], what: str, step: int, seed: int) -> Any:
    """Call the environment: what it raises is a `RolloutError`, and so is another number of things than `parts`."""
    try:
        returned = call()
    except (Exception, SystemExit) as error:
        raise _explain_exception(error, what, step, seed) from error
    if type(returned) is not tuple or len(returned) != len(parts):
        raise _wrong_parts(returned, parts, what, step, seed)
    return returned


def _explain_exception(error: BaseException, what: str, step: int, seed: int) -> RolloutError:
    place = f"in {what}() at step {step} (seed {seed})"
    if isinstance(error, RolloutError):
        return RolloutError(f"{error} {place}")
    return RolloutError(
        f"the environment raised {type(error).__name__}: {error} {place}; repair the environment"
    )


def _wrong_parts(returned: Any, parts: tuple[str, ...], what: str, step: int, seed: int) -> RolloutError:
    came = len(returned) if isinstance(returned, tuple) else type(returned).__name__
    return RolloutError(
        f"{what}() of the environment returned {came} at step {step} (seed {seed}), expected the {len(parts)} things "
        f"({', '.join(parts)}); repair the environment"
    )


def _to_vector(observation: Any, expected: tuple[int, ...] | None, step: int, seed: int) -> np.ndarray:
    """Copy the observation into a flat vector, as the policy sees it, whatever becomes of the environment's array."""
    try:
        array = np.asarray(observation)
    except ValueError:
        array = np.asarray(None)
    if array.shape != expected or array.dtype.kind not in "fiub":
        raise RolloutError(
            f"the environment returned an observation of {array.dtype} {array.shape} at step {step} (seed {seed}), "
            f"expected numbers of shape {expected}; repair the environment, or the space it declares"
        )
    array = array.astype(np.float32)
    return array if array.ndim == 1 else array.ravel()


def _require_finite(observations: list[np.ndarray], seed: int) -> None:
    """Look at all observations of an episode; the first that is not finite is named."""
    if not observations or np.isfinite(np.concatenate(observations)).all():
        return
    step, seen = next((i, seen) for i, seen in enumerate(observations) if not np.isfinite(seen).all())
    raise RolloutError(
        f"the environment returned the observation {seen} at step {step} (seed {seed}), expected finite "
        "numbers; repair the environment or end the episode before that happens"
    )


def _bad_action(action: np.ndarray, seen: np.ndarray, step: int, seed: int) -> RolloutError:
    return RolloutError(
        f"the policy answered {action} at step {step} (seed {seed}) to the finite observation {seen}; "
        "its parameters have grown too large: use a smaller design.spread or learning rate"
    )


def _to_float(reward: Any, step: int, seed: int) -> float:
    try:
        if np.asarray(reward).dtype.kind in "biufO":  # text that looks like a number is no number
            return float(reward)
    except Exception as error:  # too large, or anything that its own conversion may raise
        raise _bad_reward(reward, step, seed) from error
    raise _bad_reward(reward, step, seed)


def _bad_reward(reward: Any, step: int, seed: int) -> RolloutError:
    kind = type(reward).__name__
    try:
        text = repr(reward)
    except Exception:  # such as an integer of too many digits
        came = f"of type {kind}"
    else:
        came = f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'} ({kind})"
    return RolloutError(
        f"the environment returned the reward {came} at step {step} (seed {seed}), expected a number that float64 "
        "can hold; repair the environment"
    )


def _to_bool(value: Any, step: int, seed: int) -> bool:
    if isinstance(value, np.bool_ | int) or (isinstance(value, np.ndarray) and value.size == 1):
        return bool(value)
    raise RolloutError(
        f"the environment said {value!r} for terminated or truncated at step {step} (seed {seed}), expected a bool"
    )
