"""Which policy to roll out next: the initial design, then a perturbed centre, a random policy or a re-check.

Random numbers come from streams named by (seed, count, purpose): nothing is carried along, none is used twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice

import jax
import numpy as np

from ddopg.config import Config
from ddopg.core.memory import Memory, find_rows
from ddopg.core.param_scaling import LINEAR_SHARE, param_scale, sample_constant_policy, sample_params
from ddopg.core.process_search import DESIGN_ROLLOUTS, is_process_search, propose_by_process
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.sharing import RECENT_WINDOW, is_turn_of_critic, needs_check
from ddopg.core.state import (
    CHECK,
    CRITIC,
    DESIGN,
    EXPLORE,
    NOISY,
    Proposal,
    State,
    count_of_search,
    indices_of_critic,
    indices_of_search,
    is_of_search,
)
from ddopg.parameters import reflect
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

MAX_RANDOM_FRACTION = 0.5  # of the proposals after the design
PLAIN_EVERY = 4  # rollouts of the actor, of which one is without noise
PLAIN_AT_FIRST = 16  # rollouts of the actor, of which every other one is without noise
CHECKED_WINDOW = 8  # rollouts of the average, as it is or perturbed, among which checks have their share


def propose(state: State, k: int, policy: Policy, config: Config) -> Proposal:
    """The k-th proposal: constants, the rest of the design; later a random policy, a re-check or a perturbation."""
    rng, outputs = make_rng(state.seed, k, "exploration"), len(policy.action_scale)
    place = count_of_search(state.memory) + sum(is_of_search(p.purpose) for p in state.pending)

    def proposal(purpose: str, theta: np.ndarray) -> Proposal:
        inside = theta if policy.limits is None else reflect(theta, policy.limits)
        return Proposal(k, inside.astype(np.float32), draw_seed(state.seed, k, "rollout"), purpose)

    if policy.parameters and k == 0:
        return proposal(DESIGN, initial_params(policy, state.seed))  # the user's own start
    if is_process_search(policy, config):
        purpose = EXPLORE if state.memory.size >= DESIGN_ROLLOUTS else DESIGN
        return proposal(purpose, propose_by_process(state, k, policy))
    if place < config.design.constants and not policy.parameters:
        constant = sample_constant_policy(rng, policy.size, outputs)
        return proposal(DESIGN, constant if policy.bias else initial_params(policy, state.seed, k))
    design = place < config.design.policies
    if not design and state.critic is not None and is_turn_of_critic(state):
        return _propose_actor(proposal, state)
    scale = search_scale(state, policy, config)
    if design and not config.search.scale_by_sensitivity:
        spread = config.design.spread * rng.standard_normal(policy.size)
        return proposal(DESIGN, initial_params(policy, state.seed) + spread)
    drawn_random, drawn_check = rng.random(2)
    random = drawn_random < _random_share(state, place, config)
    if design or random:
        gain = config.exploration.gain * np.sqrt(outputs)
        return proposal(DESIGN if design else "random", sample_params(rng, scale, gain))
    if _is_check(state, float(drawn_check), config):
        return proposal(CHECK, state.ema_params)
    noise = config.exploration.noise * np.sqrt(anneal_factor(state, config))
    return proposal(EXPLORE, state.centre + sample_params(rng, scale, noise))


def search_scale(state: State, policy: Policy, config: Config) -> np.ndarray:
    """The unit of each parameter in the search, (D,).

    Where there is a critic, a network with a linear path belongs to its actor: the search moves the linear path.
    """
    if not config.search.scale_by_sensitivity:
        return np.ones_like(state.centre)
    share = 1.0 if config.critic.updates else LINEAR_SHARE
    return param_scale(state.param_sensitivity, policy.linear_params, share)


def _propose_actor(proposal: Callable[[str, np.ndarray], Proposal], state: State) -> Proposal:
    """The average of the critic's actor as it is, or the actor of now with its noise."""
    assert state.critic is not None
    actor = state.critic.actor
    if _is_plain(state):
        return proposal(CRITIC, np.asarray(state.critic.average))
    deviation = np.exp(np.asarray(actor.log_std, np.float64)).astype(np.float32)
    return proposal(NOISY, np.asarray(actor.theta))._replace(noise=tuple(map(float, deviation)))


def _is_plain(state: State) -> bool:
    """Whether the actor's next rollout is without noise: every other one at first, later one of `PLAIN_EVERY`, and
    the one after a record with noise.

    Those without noise say what the actor is worth, and only those can be handed over; those with it say what other
    actions would bring.
    """
    newest_first = (purpose for purpose in reversed(state.purposes) if not is_of_search(purpose))
    latest = [*islice(newest_first, PLAIN_AT_FIRST)]
    every = PLAIN_EVERY if len(latest) == PLAIN_AT_FIRST else 2
    return CRITIC not in latest[: every - 1] or (CRITIC not in latest[:1] and _is_record(state.memory))


def _is_record(memory: Memory) -> bool:
    """Whether the actor's newest rollout is better than all of its others."""
    returns = memory.returns[find_rows(memory, CRITIC, NOISY)]
    return len(returns) > 1 and bool(returns[-1] > np.max(returns[:-1]))


def anneal_factor(state: State, config: Config) -> float:
    """min(1, `annealing.episodes` / episodes' worth of steps so far): 1 at first, falling as experience gathers."""
    if not config.annealing.episodes or not state.steps:
        return 1.0
    of_critic = int(np.sum(state.memory.lengths[indices_of_critic(state.memory)])) if state.critic else 0
    horizon = state.memory.trajectories[0].horizon
    return min(1.0, config.annealing.episodes * horizon / max(state.steps - of_critic, 1))


def _random_share(state: State, place: int, config: Config) -> float:
    """Share p of random policies: `random`/place = s of the rollouts, or of the *steps* where their episodes are
    shorter than the others, from s = p f / (p f + (1 − p) l).

    f is the length of a rollout in the initial design, where all were random, and l that of one nowadays. Policies
    that fail at once are cheap, so there may be many, up to `MAX_RANDOM_FRACTION`.
    """
    share = min(config.exploration.random / max(place, 1), MAX_RANDOM_FRACTION)
    seen = state.memory.lengths[indices_of_search(state.memory)]
    if not len(seen):
        return share
    cost = float(np.mean(seen[: config.design.policies]) / np.mean(seen[-RECENT_WINDOW:]))
    return min(share / (share + (1 - share) * cost), MAX_RANDOM_FRACTION) if cost < 1 else share


def recheck_share(state: State, config: Config) -> float:
    """Share of re-checks: none before the search anneals, while everything changes; the configured one in the end.

    Beside a critic it is always the configured one: rollouts decide between both.
    """
    if state.critic is not None:
        return config.incumbent.recheck_share
    return config.incumbent.recheck_share * max(0.0, 1 - 2 * anneal_factor(state, config))


def _is_check(state: State, drawn: float, config: Config) -> bool:
    """Whether to roll out the average as it is: by chance, or beside a critic in turn, where its actor comes near.

    In turn is where fewer than their share of the latest `CHECKED_WINDOW` were checks: those that were not needed for
    long are not made up for.
    """
    share = recheck_share(state, config)
    if state.critic is None or not share:
        return drawn < share
    of_average = (purpose for purpose in reversed(state.purposes) if purpose in (CHECK, EXPLORE))
    latest = [*islice(of_average, CHECKED_WINDOW - 1)]
    return needs_check(state) and latest.count(CHECK) + 1 <= share * (len(latest) + 1)


@lru_cache(maxsize=8)
@in_float32
def initial_params(policy: Policy, seed: int, count: int = 0) -> np.ndarray:
    """The policy class' own random initialisation, (D,)."""
    return np.asarray(policy.init(jax.random.key(draw_seed(seed, count, "initial policy"))), np.float32)
