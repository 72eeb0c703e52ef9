"""A check of the user's own that ends a rollout: it counts as failed, with a stated return."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import gymnasium as gym

from ddopg.envs.adapter import require_env
from ddopg.errors import require, require_function


class EndOnFailure(gym.Wrapper):
    """End an episode as soon as a check says so, and let it count as a failure: the same as `Proposal.failure`.

    The rewards of a failed episode add up to the stated return, whatever was earned before. Choose it below what bad
    rollouts earn: policies near a failed one are then expected to fail too, and the search keeps away from them.

    Args:
        env: what is wrapped.
        check: `check(observation, action)` is true where the rollout must end: `action` is what was done last, and
            `observation` what it led to.
        return_: what a failure counts as, undiscounted.

    Raises:
        ConfigError: if the return is not finite, or the check cannot be called.

    Example:
        >>> import gymnasium as gym
        >>> pendulum = gym.make("Pendulum-v1")
        >>> env = EndOnFailure(pendulum, lambda observation, action: abs(observation[2]) > 6.0, return_=-3000.0)
        >>> agent = ddopg.DDOPG(env, horizon=60).learn(total_episodes=3)
    """

    def __init__(self, env: gym.Env, check: Callable[[Any, Any], bool], return_: float) -> None:
        require_env(env)
        super().__init__(env)
        require_function("check", check, ("observation", "action"))
        require(
            isinstance(return_, Real) and math.isfinite(return_),
            f"a failure must count as a finite return, got {return_}",
        )
        self.check, self.return_, self._earned = check, float(return_), 0.0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            options: those of the environment.

        Returns:
            What the environment returns.
        """
        self._earned = 0.0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make a step.

        Args:
            action: what is done.

        Returns:
            What the environment returns; where the check ends the episode, it is terminated, the reward is what is
            missing to the stated return, and `failed` in the info is true.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.check(observation, action):
            return observation, self.return_ - self._earned, True, False, {**info, "failed": True}
        self._earned += float(reward)
        return observation, reward, terminated, truncated, info
