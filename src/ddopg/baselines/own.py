"""DD-OPG itself as a method among the others."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym

from ddopg.agent import DDOPG
from ddopg.baselines.base import Checkpoint
from ddopg.config import Config
from ddopg.policies import Policy
from ddopg.rollouts.playing import play_proposal
from ddopg.rollouts.spec import RolloutSpec


def ddopg(env: gym.Env, seed: int, settings: Config, network: Policy | None = None) -> Iterator[Checkpoint]:
    """The incumbent after every rollout.

    Args:
        env: the task.
        seed: of the run.
        settings: the configuration.
        network: a policy class of the user's own in the place of the configured one.
    """
    agent = DDOPG(env, config=settings, seed=seed, policy=network)
    spec = RolloutSpec(env, env, agent.problem, settings, agent.policy, network is not None, None)
    yield _checkpoint(agent)
    while True:
        for proposal in agent.ask():
            agent.tell(proposal, play_proposal(spec, proposal.pure))
            yield _checkpoint(agent)


def _checkpoint(agent: DDOPG) -> Checkpoint:
    return Checkpoint(agent.state.steps, agent.policy, agent.state.incumbent.theta)
