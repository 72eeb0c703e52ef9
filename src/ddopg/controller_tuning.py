"""Tune a controller in one call: on an environment, or by a function that plays a rollout and says what it earned."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ddopg.agent import DDOPG
from ddopg.config import Config, preset
from ddopg.controllers import Parameter, returns_only
from ddopg.errors import ConfigError, require, require_function, require_whole
from ddopg.policies import Policy
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.support.showing import show_line, show_table

Play = Callable[[dict[str, float]], float]
"""Parameters by name → the return of one rollout with them."""


class Tuned(NamedTuple):
    """What a controller was tuned to.

    Example:
        >>> result = ddopg.tune_controller(
        ...     lambda p: -(p["x"] - 1) ** 2, [ddopg.controllers.Parameter("x", 0.0, bounds=(-2.0, 2.0))], rollouts=3)
        >>> len(result.history)
        3
    """

    parameters: dict[str, float]  # the best known ones, by name, in real units
    value: float  # the return that they are believed to have
    history: list[tuple[dict[str, float], float]]  # parameters and return of every rollout, in order
    agent: DDOPG  # the learner, to look at or to go on with
    trained: TrainedPolicy  # the controller with these parameters, to act or to be saved

    def __repr__(self) -> str:
        return show_line("Tuned", self._facts())

    def _repr_html_(self) -> str:
        return show_table("Tuned", self._facts())

    def _facts(self) -> dict[str, Any]:
        shown = self.trained.policy.show(self.trained.theta)
        return {"parameters": shown, "value": self.value, "rollouts": len(self.history)}


def tune_controller(
    target: gym.Env | str | Play,
    controller: Policy | Sequence[Parameter],
    rollouts: int,
    *,
    seed: int = 0,
    config: Config | None = None,
    run_directory: str | os.PathLike[str] | None = None,
    horizon: int | None = None,
) -> Tuned:
    """Tune the parameters of a controller by rollouts. The first one is your own start; none leaves the bounds.

    Args:
        target: a Gymnasium environment or its id; or a function that plays one rollout with the parameters it is
            given, on whatever machine, and returns what it earned (more is better).
        controller: with an environment, a controller of `ddopg.controllers`; with a function, the parameters alone.
        rollouts: how many.
        seed: the same seed, configuration and machine give the same run.
        config: a whole configuration; the preset `trajectory` without its random rollouts, if not given.
        run_directory: every rollout is kept there, safe before the next one is played.
        horizon: the longest episode in steps; the environment's own time limit, if not given.

    Returns:
        The parameters, what they are worth, and every rollout.

    Raises:
        ConfigError: if target and controller do not fit each other, the parameters cannot be searched, or the
            function has other arguments or returns no finite number.
        SpaceError: if the controller does not fit the environment.

    Example:
        >>> from ddopg.controllers import Parameter
        >>> gain = Parameter("gain", 1.0, bounds=(0.0, 5.0), unit="N/m")
        >>> result = tune_controller(lambda p: -(p["gain"] - 3.0) ** 2, [gain], rollouts=20)
        >>> result.history[0]
        ({'gain': 1.0}, -4.0)
        >>> abs(result.parameters["gain"] - 3.0) < 0.7
        True
    """
    rollouts = require_whole("the number of rollouts", rollouts)
    require(rollouts >= 1, f"tuning takes at least one rollout, got {rollouts}")
    chosen = _without_random_rollouts(preset("trajectory")) if config is None else config
    if isinstance(target, gym.Env | str):
        require(
            isinstance(controller, Policy),
            "with an environment, give a controller, such as ddopg.controllers.pid(...); parameters alone go with a "
            "function that plays a rollout",
        )
        assert isinstance(controller, Policy)
        agent = DDOPG(
            target, policy=controller, config=chosen, seed=seed, run_directory=run_directory, horizon=horizon
        )
        agent.learn(total_episodes=rollouts)
        return _summarise(agent)
    if isinstance(controller, Policy) or not callable(target):
        raise ConfigError(
            "without an environment, give a function of the parameters that plays a rollout and returns what it "
            f"earned, and the list of Parameters; got {type(target).__name__} and {type(controller).__name__}"
        )
    require_function(
        "the function that plays a rollout", target, ("parameters",), "they come as one dictionary"
    )
    require(
        horizon is None,
        f"a horizon goes with an environment; a function plays its rollout itself, got {horizon}",
    )
    agent = _make_agent(controller, chosen, seed, run_directory)
    for _ in range(rollouts):
        (proposal,) = agent.ask(1)
        agent.tell(proposal, _require_return(target(proposal.parameters)))
    return _summarise(agent)


def _require_return(earned: Any) -> float:
    try:
        number = float(earned)
    except (TypeError, ValueError):
        number = math.nan
    require(
        math.isfinite(number),
        f"the function must return what the rollout earned, one finite number, got {earned!r}; for a rollout that "
        "failed, return a number below what bad rollouts earn",
    )
    return number


def _without_random_rollouts(config: Config) -> Config:
    """Machines are tuned around what is known to be safe: no policy is drawn anew far away from it."""
    return dataclasses.replace(config, exploration=dataclasses.replace(config.exploration, random=0.0))


def _make_agent(
    parameters: Sequence[Parameter], config: Config, seed: int, run_directory: str | os.PathLike[str] | None
) -> DDOPG:
    policy = returns_only(parameters)
    return DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (1,)),
        action_space=gym.spaces.Box(-np.inf, np.inf, (policy.size,)),
        horizon=1,
        policy=policy,
        config=config,
        seed=seed,
        run_directory=run_directory,
    )


def _summarise(agent: DDOPG) -> Tuned:
    memory, trained = agent.state.memory, agent.incumbent
    history: list[tuple[dict[str, float], Any]] = [
        (agent.policy.describe(trajectory.theta), value)
        for trajectory, value in zip(memory.trajectories, memory.returns.tolist(), strict=True)
    ]
    return Tuned(trained.parameters, agent.state.incumbent.value, history, agent, trained)
