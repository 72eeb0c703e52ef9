"""DD-OPG itself as a method among the others."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym

from ddopg.agent import DDOPG
from ddopg.baselines.base import Checkpoint
from ddopg.config import Config
from ddopg.rollouts.playing import rollout


def ddopg(env: gym.Env, seed: int, settings: Config) -> Iterator[Checkpoint]:
    """The incumbent after every rollout."""
    agent = DDOPG(env, config=settings, seed=seed)
    yield _checkpoint(agent)
    while True:
        for proposal in agent.ask():
            agent.tell(
                proposal, rollout(env, agent.policy, proposal.theta, proposal.seed, agent.problem.horizon)
            )
            yield _checkpoint(agent)


def _checkpoint(agent: DDOPG) -> Checkpoint:
    return Checkpoint(agent.state.steps, agent.policy, agent.state.incumbent.theta)
