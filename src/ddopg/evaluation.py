"""How good a policy is: the returns of fresh episodes, which nobody has learnt from."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np

from ddopg.agent import DDOPG
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.envs.adapter import get_env_id, make, problem_from_env, require_registered
from ddopg.errors import SpaceError, require, require_given, require_positive, require_whole
from ddopg.rollouts import playing
from ddopg.storage.policy_file import TrainedPolicy

SEEDS_APART = 1_000_003  # between the episodes of one seed and those of the next


def evaluate(
    policy: DDOPG | TrainedPolicy,
    env: gym.Env | gym.vector.VectorEnv | str | None = None,
    episodes: int = 100,
    *,
    seed: int = 0,
    time_limit: float | None = None,
) -> np.ndarray:
    """Play fresh episodes with the policy that an agent would hand over now, or with one that was saved.

    Args:
        policy: a learner, whose incumbent is meant, or a policy such as `ddopg.load` gives.
        env: an environment, a vector of them, or an id; the one that was learnt on, if not given.
        episodes: how many.
        seed: another seed takes other episodes. None of them is used in learning.
        time_limit: seconds that an episode may take; None waits for ever.

    Returns:
        Undiscounted returns, (episodes,).

    Raises:
        ConfigError: if there is no policy or no environment to play in, or no episode to play.
        SpaceError: if the environment has observations or actions of other sizes.
        RolloutError: if the environment spoils an episode.

    Warns:
        UserWarning: where the policy was learnt on another environment, or with other bounds of the actions.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=3)
        >>> ddopg.evaluate(agent, episodes=5).shape
        (5,)
        >>> ddopg.evaluate(agent.incumbent, "cartpole", episodes=5).shape
        (5,)
    """
    trained = policy.incumbent if isinstance(policy, DDOPG) else policy
    require(
        isinstance(trained, TrainedPolicy),
        f"evaluate takes an agent or a trained policy first, got {type(policy).__name__}; ddopg.load reads a policy "
        "from its file, and ddopg.rollouts.evaluate takes an environment, a policy class and its parameters",
    )
    episodes, seed = require_whole("the number of episodes", episodes), require_whole("the seed", seed)
    require(episodes >= 1, f"the number of episodes must be at least 1, got {episodes}")
    require(seed >= 0, f"the seed must not be negative, got {seed}")
    require_positive("time_limit", 1.0 if time_limit is None else time_limit)
    chosen = policy.env if env is None and isinstance(policy, DDOPG) else env
    played = _make_environment(trained, chosen)
    for difference in describe_differences(trained, played):
        warnings.warn(f"the policy was learnt {difference} now", stacklevel=2)
    return evaluate_policy(played, trained, episodes, seed, time_limit)


def evaluate_policy(
    env: gym.Env | gym.vector.VectorEnv,
    trained: TrainedPolicy,
    episodes: int,
    seed: int,
    time_limit: float | None = None,
) -> np.ndarray:
    """Play fresh episodes, never used for learning.

    Args:
        env: where they are played.
        trained: who plays.
        episodes: how many.
        seed: another seed takes other episodes.
        time_limit: seconds that an episode may take.

    Returns:
        Their returns, (episodes,).

    Raises:
        RolloutError: where the environment spoils an episode.

    Example:
        >>> from ddopg.evaluation import evaluate_policy
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=3)
        >>> evaluate_policy(agent.env, agent.incumbent, 2, seed=1).shape
        (2,)
    """
    first = FIRST_EVALUATION_SEED + seed * SEEDS_APART
    horizon = trained.problem.horizon
    seeds = range(first, first + episodes)
    return playing.evaluate(env, trained.policy, trained.theta, seeds, horizon, time_limit)


def require_fitting(
    trained: TrainedPolicy, env: gym.Env | gym.vector.VectorEnv, name: str | None = None
) -> None:
    """Refuse an environment whose sizes are not those of the policy.

    Args:
        trained: the policy.
        env: where it is to play.
        name: what the user calls the environment; its id, if not given.

    Raises:
        SpaceError: if the sizes differ.

    Example:
        >>> from ddopg.envs.adapter import make
        >>> from ddopg.evaluation import require_fitting
        >>> require_fitting(ddopg.DDOPG("cartpole").incumbent, make("cartpole"))
    """
    problem, own = problem_from_env(env, trained.problem.horizon), trained.problem
    require(
        (problem.observation_size, problem.action_size) == (own.observation_size, own.action_size),
        f"the policy maps {own.observation_size} observations to {own.action_size} actions, "
        f"{name or get_env_id(env) or 'the environment'} has {problem.observation_size} and {problem.action_size}; "
        "choose the environment it was learnt on",
        SpaceError,
    )


def describe_differences(trained: TrainedPolicy, env: gym.Env | gym.vector.VectorEnv) -> list[str]:
    """Describe what is not as it was when the policy was learnt; nothing is said of what the policy does not know.

    Args:
        trained: the policy.
        env: where it is to play.

    Returns:
        Ends of the sentence "the policy was learnt …".

    Example:
        >>> from ddopg.envs.adapter import make
        >>> from ddopg.evaluation import describe_differences
        >>> describe_differences(ddopg.DDOPG("cartpole").incumbent, make("cartpole"))
        []
    """
    here, learnt_on, own = get_env_id(env), trained.environment, trained.problem
    problem = problem_from_env(env, own.horizon)
    said = {
        f"on {learnt_on}, and runs on {here}": (
            None not in (learnt_on, here) and str(learnt_on).rpartition(":")[2] != here
        ),
        f"with actions from {own.low} to {own.high}, and runs with {problem.low} to {problem.high}": (
            (problem.low, problem.high) != (own.low, own.high)
        ),
    }
    return [text for text, holds in said.items() if holds]


def _make_environment(
    trained: TrainedPolicy, env: gym.Env | gym.vector.VectorEnv | str | None
) -> gym.Env | gym.vector.VectorEnv:
    """The given environment, the one of that name, or the one that the policy was learnt on."""
    if env is None:
        message = "the policy does not say which environment it was learnt on; give one with env=..."
        name = require_given(trained.environment, message)
        bare = name.rpartition(":")[2]  # no module is imported for it, where it is registered already
        env = require_registered(bare if bare in gym.registry else name, "env='{}'")
    played = make(env) if isinstance(env, str) else env
    require(
        isinstance(played, gym.Env | gym.vector.VectorEnv),
        f"env must be an environment of Gymnasium, a vector of them, or an id, got {type(played).__name__}",
        SpaceError,
    )
    require_fitting(trained, played)
    return played
