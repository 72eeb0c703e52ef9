"""A round of the critic after a rollout: how much it learns, from what, and with which random numbers."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from ddopg.config import Config, CriticConfig
from ddopg.core import critic as critics
from ddopg.core.proposals import initial_params
from ddopg.core.seeding import draw_seed
from ddopg.core.state import State
from ddopg.core.transitions import TransitionCache, Transitions
from ddopg.policies import Policy

MAX_UPDATES = 2**14  # per rollout
EARLY_GAIN = 4.0  # times as many updates per step while data are few
EARLY_UPDATES = 2**13  # over the steps so far: what an update per step falls with, down to `critic.updates`
FIRST_GAIN = 0.1  # of the actor's output layer at first: it begins in the middle of its range


def has_critic(policy: Policy, config: Config) -> bool:
    """Whether a critic learns beside the search: where the configuration asks for one and the policy is a network or
    a linear map. It has none for a policy with a memory, of which an observation does not say enough, nor for a few
    declared parameters."""
    return config.critic.updates > 0 and not policy.replayed and not policy.parameters


def learn_values(
    state: State, policy: Policy, config: Config, cache: TransitionCache | None = None
) -> critics.Critic | None:
    """What the critic knows after the newest rollout: `critic.updates` per step of it, on all stored steps.

    The first round learns from the whole initial design. A round has at most `MAX_UPDATES` updates.

    Args:
        state: the learner, the newest rollout in its memory.
        policy: the policy class of the actor.
        config: the whole configuration.
        cache: what was collected before; without one all steps are collected anew.

    Returns:
        The critic; that of before where no step has a known successor, and where a round ends in something that is
        not a finite number.
    """
    critic, new = state.critic, state.memory.trajectories[-1:]
    settings = within_episode(config.critic, new[0].horizon)
    transitions = (cache or TransitionCache()).collect(state.memory, settings.discount)
    if not transitions.number:
        return critic
    if critic is None:
        critic, new = _begin(state, transitions, policy, config), state.memory.trajectories
    after = critics.update(
        critic,
        transitions,
        draw_seed(state.seed, state.memory.size, "critic"),
        count_updates(sum(t.length for t in new), int(transitions.steps), settings.updates),
        policy,
        settings,
    )
    return (
        after if all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(after)) else state.critic
    )


def within_episode(config: CriticConfig, horizon: int) -> CriticConfig:
    """The same settings with γ ≤ 1 − 1/H: the critic looks no further ahead than an episode can last.

    Args:
        config: with the discount γ of long episodes.
        horizon: H, the longest episode.
    """
    return replace(config, discount=min(config.discount, 1 - 1 / max(horizon, 2)))


def count_updates(new: int, stored: int, rate: float) -> int:
    """How many updates a round has: `rate` per new step in the end, more of them while data are few.

    The rate is multiplied by `EARLY_GAIN` at first, and falls with one over the stored steps.

    Args:
        new: steps since the last round.
        stored: all steps that are learnt from.
        rate: `critic.updates`.
    """
    early = min(EARLY_UPDATES / stored, EARLY_GAIN * rate)
    return min(round(max(rate, early) * new), MAX_UPDATES)


def _begin(state: State, transitions: Transitions, policy: Policy, config: Config) -> critics.Critic:
    """A critic whose actor begins as the policy class does, on standardised observations where it can."""
    first = state.memory.trajectories[0]
    sizes = first.observations.shape[1], first.actions.shape[1]
    key = jax.random.key(draw_seed(state.seed, 0, "critic"))
    theta = jnp.asarray(initial_params(policy, state.seed))
    theta = theta.at[len(theta) - policy.output_params :].multiply(FIRST_GAIN)
    critic = critics.init(key, theta, *sizes, config.critic)
    critic = critic._replace(log_scale=transitions.log_scale, zero=transitions.zero)
    return critics.act_on_observations(critic, policy, transitions)
