"""The shell: `DDOPG` holds one `State`, an environment or a robot, and turns ask and tell into `learn`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg import algorithm
from ddopg.algorithm import Info, State
from ddopg.artefact import TrainedPolicy, load, policy_for
from ddopg.callbacks import Callback, as_callback, hearing
from ddopg.compilation import keep_compiled_programs
from ddopg.config import Config
from ddopg.config import preset as preset_config
from ddopg.data import Trajectory, make_trajectory
from ddopg.display import progress
from ddopg.envs.gym_adapter import Problem, make, problem_of, problem_of_spaces
from ddopg.errors import ConfigError, TrajectoryError, require
from ddopg.rollout import rollout


class Proposal:
    """A policy that asks to be rolled out once: `act` is what to run, `trajectory` packs what happened."""

    def __init__(self, proposal: algorithm.Proposal, trained: TrainedPolicy) -> None:
        self.number, self.theta, self.seed, self.purpose = proposal
        self._trained = trained

    def act(self, observation: Any) -> np.ndarray:
        """The action for one observation."""
        return self._trained.act(observation)

    def trajectory(
        self, observations: Any, actions: Any, rewards: Any, terminated: bool = False
    ) -> Trajectory:
        """The rollout as a `Trajectory`: one row per step, observations *before* each action."""
        return make_trajectory(
            self.theta,
            observations,
            actions,
            rewards,
            horizon=self._trained.problem.horizon,
            terminated=terminated,
        )


class DDOPG:
    """Data-efficient policy search by DD-OPG.

    With an environment, `learn` does everything. Without one (a robot), give the spaces and the horizon and use
    `ask` and `tell`.

    Args:
        env: a Gymnasium environment with Box spaces, or its id.
        observation_space, action_space, horizon: instead of `env`; `horizon` also overrides its time limit.
        preset: `default`, `paper` or `released`; or give a whole `config`.
        seed: the same seed, configuration and machine give the same run, bit for bit.
    """

    def __init__(
        self,
        env: gym.Env | str | None = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        horizon: int | None = None,
        preset: str = "default",
        config: Config | None = None,
        seed: int = 0,
    ) -> None:
        keep_compiled_programs()
        require(
            isinstance(seed, (int, np.integer)) and seed >= 0,
            f"the seed must be an integer and not negative, got {seed!r}",
        )
        self.env = make(env) if isinstance(env, str) else env
        self.config = config or preset_config(preset)
        self.problem = _problem(self.env, observation_space, action_space, horizon)
        self.policy = policy_for(self.problem, self.config)
        self.state: State = algorithm.init(self.policy, self.config, int(seed))

    def ask(self, n: int | None = None) -> list[Proposal]:
        """Policies to roll out next: the initial design first, one proposal afterwards (or `n`)."""
        require(n is None or n >= 1, f"ask for at least one proposal, got n = {n}")
        self.state, proposals = algorithm.ask(self.state, self.policy, self.config, n)
        return [self._hand_out(proposal) for proposal in proposals]

    def tell(self, proposal: Proposal, trajectory: Trajectory) -> Info:
        """Take in what happened when the proposal was rolled out, and improve the policy."""
        self._check(trajectory)
        pure = algorithm.Proposal(proposal.number, proposal.theta, proposal.seed, proposal.purpose)
        self.state, info = algorithm.tell(self.state, pure, trajectory, self.policy, self.config)
        return info

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress_bar: bool = False,
        *,
        total_episodes: int | None = None,
    ) -> DDOPG:
        """Roll out and improve until the budget is spent: environment steps, or episodes, more from now on.

        The last episode is played to its end, so `total_timesteps` may be exceeded by less than one horizon.
        `callback(agent, info)`, or each of a list of them, is called after each rollout; it ends the learning by
        returning False. `callbacks.py` has those of stable-baselines3.
        """
        env, after_each = self._env(), as_callback(callback)
        budget = _Budget(total_timesteps, total_episodes, self.state)
        with progress(progress_bar, budget.total, budget.unit) as show, hearing(after_each, self):
            while not budget.spent(self.state):
                for proposal in self._waiting() or self.ask():
                    trajectory = rollout(
                        env, self.policy, proposal.theta, proposal.seed, self.problem.horizon
                    )
                    info = self.tell(proposal, trajectory)
                    show(budget.used(self.state), info)
                    if not after_each(self, info) or budget.spent(self.state):
                        return self
        return self

    @property
    def incumbent(self) -> TrainedPolicy:
        """The policy to hand over now."""
        note = {"return": self.state.incumbent.value, "steps": self.state.steps, "seed": self.state.seed}
        return self._trained(self.state.incumbent.theta, note if self.state.memory.returns else {})

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """The incumbent's action for one observation or a batch of them; see `TrainedPolicy.predict`."""
        return self.incumbent.predict(observation, state, episode_start, deterministic)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the incumbent as one self-describing safetensors file; `ddopg.load` reads it."""
        return self.incumbent.save(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> TrainedPolicy:
        """Read a policy written by `save`, ready to act; the same as `ddopg.load`."""
        return load(path)

    def _env(self) -> gym.Env:
        if self.env is None:
            raise ConfigError("learn() needs an environment; without one, use ask() and tell()")
        return self.env

    def _waiting(self) -> list[Proposal]:
        """Proposals handed out earlier and never told: a stopped `learn` goes on with them."""
        return [self._hand_out(proposal) for proposal in self.state.pending]

    def _hand_out(self, proposal: algorithm.Proposal) -> Proposal:
        return Proposal(proposal, self._trained(proposal.theta, {}))

    def _trained(self, theta: np.ndarray, note: dict[str, Any]) -> TrainedPolicy:
        environment = self.env.spec.id if self.env is not None and self.env.spec is not None else None
        return TrainedPolicy(theta, self.problem, self.config, environment, note)

    def _check(self, trajectory: Trajectory) -> None:
        require(
            isinstance(trajectory, Trajectory),
            f"tell() expects a Trajectory, got {type(trajectory).__name__}; build one with "
            "proposal.trajectory(observations, actions, rewards)",
            TrajectoryError,
        )
        problem = self.problem
        expected = {
            "observations": (problem.horizon, problem.observation_size),
            "actions": (problem.horizon, problem.action_size),
            "rewards": (problem.horizon,),
        }
        for name, shape in expected.items():
            came = getattr(trajectory, name).shape
            require(
                came == shape,
                f"the trajectory's {name} must have shape {shape} (horizon first), got {came}; build it with "
                "proposal.trajectory(observations, actions, rewards), which pads short episodes",
                TrajectoryError,
            )


def check_budget(steps: int | None, episodes: int | None) -> int:
    """The one of both that is given, at least 1."""
    total = episodes if steps is None else steps
    require(
        total is not None and (steps is None) != (episodes is None),
        "give a budget either in steps (total_timesteps) or in episodes (total_episodes), "
        f"got {steps} and {episodes}",
    )
    assert total is not None
    require(total >= 1, f"the budget must be at least 1, got {total}")
    return total


class _Budget:
    """How much there is to spend, in steps or in episodes, counted from where the learner stands now."""

    def __init__(self, steps: int | None, episodes: int | None, state: State) -> None:
        self.unit = "steps" if steps is not None else "episodes"
        self.total = check_budget(steps, episodes)
        self._first = self.spent_so_far(state)

    def spent_so_far(self, state: State) -> int:
        """In the budget's own unit."""
        return state.steps if self.unit == "steps" else state.memory.size

    def used(self, state: State) -> int:
        """Since this budget was made."""
        return self.spent_so_far(state) - self._first

    def spent(self, state: State) -> bool:
        """Whether nothing is left."""
        return self.used(state) >= self.total


def _problem(env: gym.Env | None, observation_space: Any, action_space: Any, horizon: int | None) -> Problem:
    if env is not None:
        return problem_of(env, horizon)
    require(
        observation_space is not None and action_space is not None,
        "a learner needs an environment, or observation_space, action_space and horizon; got "
        f"{observation_space}, {action_space} and {horizon}",
    )
    return problem_of_spaces(observation_space, action_space, horizon)
