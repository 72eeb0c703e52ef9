"""A penalty on changes of the action, for machines that wear out."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import require_env
from ddopg.errors import ConfigError, require


class PenaliseChanges(gym.Wrapper):
    """Subtract weight · ‖aₜ − aₜ₋₁‖² from every reward but the first.

    Args:
        env: what is wrapped.
        weight: reward per squared change of the action, not negative; one number, or one per action.

    Raises:
        ConfigError: if a weight is negative.

    Example:
        >>> import gymnasium as gym
        >>> env = PenaliseChanges(gym.make("Pendulum-v1"), weight=0.1)
        >>> _ = env.reset(seed=0)
        >>> env.step([0.0])[1] > env.step([2.0])[1]
        True
    """

    def __init__(self, env: gym.Env, weight: Any) -> None:
        require_env(env)
        super().__init__(env)
        self.weight = _read_weight(weight)
        require(bool((self.weight >= 0).all()), f"the weight of changes must not be negative, got {weight}")
        self._before: np.ndarray | None = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            options: those of the environment.

        Returns:
            What the environment returns.
        """
        self._before = None
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make a step.

        Args:
            action: what is done; it is compared with the action before.

        Returns:
            What the environment returns, the reward less the penalty.
        """
        now = np.array(action, np.float64)
        cost = 0.0 if self._before is None else float(np.sum(self.weight * np.square(now - self._before)))
        self._before = now
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward) - cost, terminated, truncated, info


def _read_weight(weight: Any) -> np.ndarray:
    try:
        return np.asarray(weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the weight of changes must be one number, or one per action, got {weight!r}"
        ) from error
