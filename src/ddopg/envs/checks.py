"""Gymnasium's own check of an environment, and what it found in plain words."""

from __future__ import annotations

import re
import warnings

import gymnasium as gym

ADVICE = (
    (r"not within the observation space", "its observations do not fit the space it declares: shape, type or bounds"),
    (r"reset.*not a tuple", "reset() must return two things: (observation, info)"),
    (r"not enough values to unpack|too many values to unpack|did not return", "step() must return five things: "
     "(observation, reward, terminated, truncated, info)"),
    (r"does not provide a `?seed|unexpected keyword argument 'seed'", "reset() must take seed=..., so that a rollout "
     "can be played again"),
    (r"non-deterministic|not equivalent|not deterministic", "the same seed and actions must give the same episode; "
     "take all random numbers from self.np_random, and return no NaN"),
    (r"np_random|random number generator", "reset(seed=...) must seed self.np_random: call super().reset(seed=seed)"),
)  # fmt: skip
"""What the checker says → what it means."""


def check_contract(env: gym.Env) -> str | None:
    """Check an environment with Gymnasium's own checker.

    Args:
        env: it is reset and stepped once or twice, so give a spare one. One that returns arrays of JAX, as
            Gymnasium's functional environments do, is not: the checker knows those of NumPy.

    Returns:
        What is wrong with it, in plain words, or None.

    Example:
        >>> check_contract(gym.make("Pendulum-v1")) is None
        True
    """
    from gymnasium.utils.env_checker import check_env

    if env.unwrapped.metadata.get("jax", False):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)
    except (Exception, SystemExit) as error:
        return explain(error)
    return None


def explain(error: BaseException) -> str:
    """Say what the checker says, and what it means where we know that."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    meaning = next((advice for pattern, advice in ADVICE if re.search(pattern, said)), None)
    return f"{meaning}. Gymnasium's checker says: {said}" if meaning else f"Gymnasium's checker says: {said}"
