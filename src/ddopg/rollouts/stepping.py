"""Episodes step by step: any Gymnasium environment, at NumPy's price, and what it does wrong said in words.

Every number that an environment returns is looked at, because environments do return nonsense. The looks are cheap
where all is well: a type, a shape, one sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
    space, expected = env.action_space, env.observation_space.shape
    assert isinstance(space, gym.spaces.Box)
    clip, shape, low, high = not takes_unclipped_actions(env), space.shape, space.low, space.high
    make_step = env.step
    observation, _ = call_env(lambda: env.reset(seed=seed), RESET, "reset", 0, seed)
    for step in range(horizon):
        seen = _to_vector(observation, expected, step, seed)
        if not _is_finite(seen):
            raise _bad_observation(seen, step, seed)
        action = np.array(act(seen), np.float32)  # ours, whatever becomes of the policy's array
        if not _is_finite(action):
            raise _bad_action(action, seen, step, seed)
        sent = np.minimum(np.maximum(action.reshape(shape), low), high) if clip else action.copy()
        try:
            returned = make_step(sent)
        except (Exception, SystemExit) as error:
            raise _explain_exception(error, "step", step, seed) from error
        observation, reward, terminated, truncated, _ = _require_parts(returned, STEP, "step", step, seed)
        if terminated is not False and terminated is not True:
            terminated = _to_bool(terminated, step, seed)
        if truncated is not False and truncated is not True:
            truncated = _to_bool(truncated, step, seed)
        yield (
            seen,
            action,
            reward if type(reward) is float else _to_float(reward, step, seed),
            terminated,
            truncated,
        )
        if terminated or truncated:
            return


def call_env(call: Callable[[], Any], parts: tuple[str, ...], what: str, step: int, seed: int) -> Any:
    """Call the environment: what it raises is a `RolloutError`, and so is another number of things than `parts`."""
    try:
        returned = call()
    except (Exception, SystemExit) as error:
        raise _explain_exception(error, what, step, seed) from error
    return _require_parts(returned, parts, what, step, seed)


def _explain_exception(error: BaseException, what: str, step: int, seed: int) -> RolloutError:
    place = f"in {what}() at step {step} (seed {seed})"
    if isinstance(error, RolloutError):
        return RolloutError(f"{error} {place}")
    return RolloutError(
        f"the environment raised {type(error).__name__}: {error} {place}; repair the environment"
    )


def _require_parts(returned: Any, parts: tuple[str, ...], what: str, step: int, seed: int) -> Any:
    if type(returned) is tuple and len(returned) == len(parts):
        return returned
    came = len(returned) if isinstance(returned, tuple) else type(returned).__name__
    raise RolloutError(
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


def _is_finite(vector: np.ndarray) -> bool:
    """Look at float32 numbers: their sum in double precision cannot overflow. Python's is the cheapest for a few."""
    if vector.size > _FEW:
        return bool(np.isfinite(vector).all())
    return math.isfinite(sum(vector.ravel().tolist()))


def _bad_observation(seen: np.ndarray, step: int, seed: int) -> RolloutError:
    return RolloutError(
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
