"""A policy that asks to be rolled out: what `DDOPG.ask` hands to a robot or to your own loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from ddopg.core.action_noise import draw_noise
from ddopg.core.state import Proposal as PureProposal
from ddopg.core.types import Trajectory, make_trajectory, read_rewards
from ddopg.errors import TrajectoryError, require
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.support.showing import Shown


class Proposal(Shown):
    """A policy that asks to be rolled out once: `act` is what to run, `trajectory` packs what happened.

    `DDOPG.ask` makes proposals; nobody else needs to.

    Args:
        proposal: number, parameters, seed and purpose, as the state holds them.
        trained: the policy with these parameters.

    Attributes:
        number: its place in the order of asking, from 0.
        theta: the parameters, (D,).
        seed: what to reset a simulator with.
        purpose: why it is asked for: `design`, `explore`, `random`, `check`, `critic` or `noisy`.
        noise: the standard deviation of the noise that `act` adds to the raw output at every step, (A,); empty for
            most proposals. Only a critic asks for noise; a machine that cannot have it may leave it out.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0)
        >>> proposal = agent.ask()[0]
        >>> proposal.number, proposal.purpose, proposal.act([0.0, 0.0, 0.1, 0.0]).shape
        (0, 'design', (1,))
    """

    def __init__(self, proposal: PureProposal, trained: TrainedPolicy) -> None:
        self.pure, self._trained = proposal, trained
        self.number, self.theta, self.seed, self.purpose, self.noise = proposal
        self._act = self.begin() if self.noise else trained.act

    def _facts(self) -> dict[str, Any]:
        about = {"number": self.number, "purpose": self.purpose}
        size: Any = self._trained.policy.show(self.theta) or len(self.theta)
        return about | {"parameters": size, "seed": self.seed}

    def act(self, observation: Any) -> np.ndarray:
        """The action for one observation.

        Args:
            observation: what the machine reads now, (O,).

        Returns:
            What it should do, (A,), before any clipping; the learner's safe action where a reading is not finite.

        Raises:
            ObservationError: if the observation has another size, or is not finite and there is no safe action.
            ConfigError: if the policy has a memory: then `begin` gives what acts.
        """
        return self._act(observation)

    def begin(self) -> Callable[[Any], np.ndarray]:
        """Begin an episode: what it returns acts, and remembers where the policy has a memory.

        Returns:
            A function from one observation (O,) to the action (A,), for the observations of one episode in order.
        """
        if not self.noise:
            return self._trained.begin()
        noise = draw_noise(self.seed, self.noise, self._trained.problem.horizon)
        return self._trained.begin_with_noise(noise)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of a controller in real units, by name, fixed ones included; empty for a network."""
        return self._trained.parameters

    def trajectory(
        self, observations: Any, actions: Any, rewards: Any, terminated: bool = False, context: Any = None
    ) -> Trajectory:
        """The rollout as a `Trajectory`, for `agent.tell`.

        Args:
            observations: what the policy saw *before* each action, (T, O).
            actions: what it answered, (T, A).
            rewards: what each step earned, (T,).
            terminated: the task ended the episode, not the clock.
            context: what the world fixed for this rollout, (C,), as in `DDOPG.tell`.

        Returns:
            The trajectory of this proposal.

        Raises:
            TrajectoryError: if lengths or shapes do not fit, or a number is not finite.
        """
        horizon = self._trained.problem.horizon
        told = {"horizon": horizon, "terminated": terminated, "context": context}
        return make_trajectory(self.theta, observations, actions, rewards, **told)

    def failure(self, observations: Any, actions: Any, rewards: Any, return_: float) -> Trajectory:
        """A rollout that your own check ended early, with the return that such a failure counts as.

        Without one a rollout that is cut short may look good, because costs add up with time. Choose it below what
        bad rollouts earn: policies near it are then expected to fail too, and the search keeps away from them.

        Args:
            observations: what the policy saw before each action, up to the end, (T, O).
            actions: what it answered, (T, A).
            rewards: what each step earned, (T,); the last is changed so that all add up to the return.
            return_: what the failure counts as, undiscounted.

        Returns:
            The trajectory of this proposal, terminated.

        Raises:
            TrajectoryError: if lengths or shapes do not fit, or a number is not finite.
        """
        require(
            isinstance(return_, Real) and math.isfinite(return_),
            f"a failure counts as a return, one finite number, got {return_!r}",
            TrajectoryError,
        )
        each = read_rewards(rewards)
        if each.size:
            each[-1] += return_ - each.sum()
        return self.trajectory(observations, actions, each, terminated=True)

    def outcome(self, return_: float, context: Any = None) -> Trajectory:
        """The rollout of a machine of which only the return is known (`ddopg.controllers.returns_only`).

        Args:
            return_: what the rollout earned in all.
            context: what the world fixed for this rollout, (O,): a friction, a load; zeros if not given.

        Returns:
            The trajectory of this proposal, for `agent.tell`.

        Raises:
            TrajectoryError: if the policy acts step by step, and its log is needed.
        """
        problem = self._trained.problem
        require(
            problem.horizon == 1 and problem.action_size == len(self.theta),
            "a return alone may be told where the policy is ddopg.controllers.returns_only(...), the horizon 1. "
            "This one acts step by step: tell proposal.trajectory(observations, actions, rewards)",
            TrajectoryError,
        )
        seen = np.zeros(problem.observation_size) if context is None else context
        return self.trajectory([seen], [self.theta], [return_], terminated=True)

    @property
    def trained(self) -> TrainedPolicy:
        """The policy as one that can be saved."""
        return self._trained
