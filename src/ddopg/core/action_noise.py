"""Noise on the raw output of a policy, step by step: how the critic's actor explores.

A seed makes the whole sequence, so a rollout with noise can be played again like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ddopg.core.seeding import make_rng
from ddopg.policies import Policy


def draw_noise(seed: int, deviation: Sequence[float], horizon: int) -> np.ndarray:
    """What is added to the raw output at each step of an episode, (H, A).

    Args:
        seed: of the rollout.
        deviation: of the noise on each output, (A,).
        horizon: H, the longest episode.
    """
    rng = make_rng(seed, 0, "action noise")
    return (rng.standard_normal((horizon, len(deviation))) * np.asarray(deviation)).astype(np.float32)


def act_with_noise(
    policy: Policy, theta: np.ndarray, noise: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """What acts in one episode: a = squash(raw(θ, o) + noise of the step).

    Args:
        policy: the policy class, without a memory.
        theta: its parameters, (D,).
        noise: of each step, (H, A); afterwards there is none.

    Returns:
        A function from one observation (O,) to the action (A,), for the observations of one episode in order.
    """
    steps = iter(noise)

    def answer(observation: np.ndarray) -> np.ndarray:
        raw = np.asarray(policy.raw(theta, observation))
        return np.asarray(policy.squash_raw(raw + next(steps, np.float32(0))), np.float32)

    return answer
