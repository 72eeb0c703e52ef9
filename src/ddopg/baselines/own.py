"""DD-OPG itself as a method among the others."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym

from ddopg.agent import DDOPG
from ddopg.baselines.base import Checkpoint
from ddopg.config import Config
from ddopg.rollouts.playing import play_proposal
from ddopg.rollouts.spec import RolloutSpec


def ddopg(env: gym.Env, seed: int, settings: Config) -> Iterator[Checkpoint]:
    """The incumbent after every rollout."""
    agent = DDOPG(env, config=settings, seed=seed)
    spec = RolloutSpec(env, env, agent.problem, settings, agent.policy, False, None)
    yield _checkpoint(agent)
    while True:
        for proposal in agent.ask():
            agent.tell(proposal, play_proposal(spec, proposal.pure))
            yield _checkpoint(agent)


def _checkpoint(agent: DDOPG) -> Checkpoint:
    return Checkpoint(agent.state.steps, agent.policy, agent.state.incumbent.theta)
