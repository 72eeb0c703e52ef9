"""What the learner knows: one `State`, handed from turn to turn, and the proposals in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ddopg.core.critic import Critic
from ddopg.core.memory import Memory, count_rows, find_rows
from ddopg.errors import TrajectoryError, require

if TYPE_CHECKING:
    from jax import Array

ADDED = "added"  # the purpose of a trajectory that was not asked for
DESIGN = "design"  # the purpose of a rollout of the initial design
EXPLORE = "explore"  # the purpose of a rollout of a perturbed centre
CHECK = "check"  # the purpose of a rollout of the moving average
CRITIC = "critic"  # the purpose of a rollout of the critic's actor
NOISY = "noisy"  # the purpose of a rollout of the actor with noise, for the critic to learn from
_OF_CRITIC = (CRITIC, NOISY)


class Proposal(NamedTuple):
    """A policy to roll out, and the seed to roll it out with."""

    number: int
    theta: np.ndarray  # (D,)
    seed: int
    purpose: str = EXPLORE  # or another of the purposes above, or "random"
    noise: tuple[float, ...] = ()  # (A,) deviation of the noise on the raw output; empty for none


class Incumbent(NamedTuple):
    """The policy the learner would hand over now."""

    theta: np.ndarray  # (D,)
    value: float  # the return it is believed to have


class State(NamedTuple):
    """Everything the next iteration needs; saved, it resumes bit for bit.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=3)
        >>> agent.state.memory.size, agent.state.told, agent.state.added
        (3, 3, 0)
    """

    seed: int  # of the run
    asked: int  # proposals handed out so far
    pending: tuple[Proposal, ...]  # handed out, not yet told
    memory: Memory  # every trajectory
    centre: np.ndarray  # (D,) where the search stands
    ema_params: np.ndarray  # (D,) the moving average of the centre
    param_sensitivity: np.ndarray  # (D,) largest mean-square effect of each parameter on any path
    opt_state: tuple[Array, ...] | None  # leaves of the optimiser's state, where it is kept
    return_bound: float  # ‖R‖∞ in use
    incumbent: Incumbent  # the policy to hand over now
    steps: int  # environment steps told; those of added trajectories were not paid for here
    critic: Critic | None = None  # what the critic knows, where there is one and it has begun
    searched: Incumbent | None = None  # what the search would hand over, where a critic may know better

    @property
    def found_by_search(self) -> Incumbent:
        """What the search would hand over."""
        return self.searched or self.incumbent

    @property
    def purposes(self) -> tuple[str, ...]:
        """Of every rollout, and of those that are under way."""
        return (*self.memory.purposes, *(waiting.purpose for waiting in self.pending))

    @property
    def told(self) -> int:
        """Proposals that were rolled out and told."""
        return self.asked - len(self.pending)

    @property
    def added(self) -> int:
        """Trajectories in the memory that were not asked for."""
        return self.memory.size - self.told


def is_of_search(purpose: str) -> bool:
    """Whether a rollout is the search's, and not the critic's."""
    return purpose not in _OF_CRITIC


def count_of_search(memory: Memory) -> int:
    """How many of the rollouts are the search's."""
    return memory.size - count_rows(memory, *_OF_CRITIC)


def indices_of_search(memory: Memory) -> np.ndarray:
    """Which of the rollouts are the search's, (n,)."""
    return np.delete(np.arange(memory.size), indices_of_critic(memory))


def indices_of_critic(memory: Memory) -> np.ndarray:
    """Which of the rollouts are the critic's, (n,)."""
    return find_rows(memory, *_OF_CRITIC)


def require_waiting(waiting: Collection[int], number: int) -> None:
    """A rollout may be told only of a proposal that waits for one."""
    require(
        number in waiting,
        f"proposal {number} is not waiting for a rollout; waiting: {', '.join(map(str, waiting)) or 'none'}. "
        "Each proposal is told once",
        TrajectoryError,
    )
