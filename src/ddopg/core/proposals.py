"""Which policy to roll out next: the initial design, then a perturbed centre, a random policy or a re-check.

Random numbers come from streams named by (seed, count, purpose): nothing is carried along, none is used twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import jax
import numpy as np

from ddopg.config import Config
from ddopg.core.memory import Memory, find_rows
from ddopg.core.param_scaling import LINEAR_SHARE, param_scale, sample_constant_policy, sample_params
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.state import (
    CHECK,
    CRITIC,
    DESIGN,
    EXPLORE,
    NOISY,
    Proposal,
    State,
    count_of_search,
    is_of_search,
)
from ddopg.parameters import reflect
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

MAX_RANDOM_FRACTION = 0.5  # of the proposals after the design
RECENT_WINDOW = 20  # rollouts that say how long one is nowadays
CRITIC_WINDOW = 8  # rollouts of each source that say which of them is better
CRITIC_SHARES = (0.1, 0.8)  # the least and the most of the steps that the critic gets
JUDGED_WINDOW = 40  # rollouts after which one says nothing any more about its source
SHARE_WINDOW = 5  # rollouts in which the critic gets its share


def propose(state: State, k: int, policy: Policy, config: Config) -> Proposal:
    """The k-th proposal: constants, the rest of the design; later a random policy, a re-check or a perturbation."""
    rng, outputs = make_rng(state.seed, k, "exploration"), len(policy.action_scale)
    place = count_of_search(state.purposes)

    def proposal(purpose: str, theta: np.ndarray) -> Proposal:
        inside = theta if policy.limits is None else reflect(theta, policy.limits)
        return Proposal(k, inside.astype(np.float32), draw_seed(state.seed, k, "rollout"), purpose)

    if policy.parameters and k == 0:
        return proposal(DESIGN, initial_params(policy, state.seed))  # the user's own start
    if place < config.design.constants and not policy.parameters:
        constant = sample_constant_policy(rng, policy.size, outputs)
        return proposal(DESIGN, constant if policy.bias else initial_params(policy, state.seed, k))
    if state.critic is not None and is_turn_of_critic(state):
        return _propose_actor(proposal, state)
    scale = search_scale(state, policy, config)
    design = place < config.design.policies
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


def is_turn_of_critic(state: State) -> bool:
    """Whether the next proposal is the critic's: it is, where it had less than its share of the latest steps.

    Steps are what rollouts cost. Those of long ago count less, by a factor e for every `SHARE_WINDOW` rollouts of
    usual length. Rollouts under way count as usual ones, and so does the next one.
    """
    lengths = np.array([float(trajectory.length) for trajectory in state.memory.trajectories])
    usual = float(np.mean(lengths[-RECENT_WINDOW:]))
    lengths = np.append(lengths, [usual] * len(state.pending))
    ago = np.sum(lengths) - np.cumsum(lengths)
    counted = lengths * np.exp(-ago / (SHARE_WINDOW * usual))
    own = np.array([not is_of_search(purpose) for purpose in state.purposes])
    return np.sum(counted[own]) + usual / 2 < critic_share(state) * (np.sum(counted) + usual)


def _propose_actor(proposal: Callable[[str, np.ndarray], Proposal], state: State) -> Proposal:
    """The critic's actor, in turns as it is and with its noise."""
    assert state.critic is not None
    actor = state.critic.actor
    own = [purpose for purpose in state.purposes if not is_of_search(purpose)]
    if not own or own[-1] == NOISY:
        return proposal(CRITIC, np.asarray(actor.theta))
    deviation = np.exp(np.asarray(actor.log_std, np.float64)).astype(np.float32)
    return proposal(NOISY, np.asarray(actor.theta))._replace(noise=tuple(map(float, deviation)))


def anneal_factor(state: State, config: Config) -> float:
    """min(1, `annealing.episodes` / episodes' worth of steps so far): 1 at first, falling as experience gathers."""
    if not config.annealing.episodes or not state.steps:
        return 1.0
    pairs = zip(state.memory.trajectories, state.memory.purposes, strict=True)
    of_critic = sum(t.length for t, purpose in pairs if not is_of_search(purpose)) if state.critic else 0
    horizon = state.memory.trajectories[0].horizon
    return min(1.0, config.annealing.episodes * horizon / max(state.steps - of_critic, 1))


def _random_share(state: State, place: int, config: Config) -> float:
    """Share p of random policies: `random`/place = s of the rollouts, or of the *steps* where their episodes are
    shorter than the others, from s = p f / (p f + (1 − p) l).

    f is the length of a rollout in the initial design, where all were random, and l that of one nowadays. Policies
    that fail at once are cheap, so there may be many, up to `MAX_RANDOM_FRACTION`.
    """
    share = min(config.exploration.random / max(place, 1), MAX_RANDOM_FRACTION)
    pairs = zip(state.memory.trajectories, state.memory.purposes, strict=True)
    seen = [trajectory for trajectory, purpose in pairs if is_of_search(purpose)]
    if not seen:
        return share
    random, recent = seen[: config.design.policies], seen[-RECENT_WINDOW:]
    cost = float(np.mean([t.length for t in random]) / np.mean([t.length for t in recent]))
    return min(share / (share + (1 - share) * cost), MAX_RANDOM_FRACTION) if cost < 1 else share


def critic_share(state: State) -> float:
    """Share of the steps that the critic gets: how likely its actor is better than the average of the search.

    Φ((mean of the actor − mean of the average) / standard error) over recent rollouts of each without noise, within
    `CRITIC_SHARES`. It is ½ until both have two. Until the average has two, perturbed policies stand for the search.
    A young search keeps half of the steps: until it has had as many rollouts as the initial design, after that.
    """
    own = (CHECK, EXPLORE, DESIGN)
    search_by = next((purpose for purpose in own if len(find_rows(state.memory, purpose)) > 1), DESIGN)
    actor, search = (recent_returns(state.memory, purpose) for purpose in (CRITIC, search_by))
    if min(len(actor), len(search)) < 2:
        return 0.5
    least, most = CRITIC_SHARES
    young = count_of_search(state.memory.purposes) < 2 * state.purposes.count(DESIGN)
    return float(np.clip(probability_of_lead(actor, search), least, 0.5 if young else most))


def recent_returns(memory: Memory, purpose: str) -> np.ndarray:
    """The latest returns of one purpose: at most `CRITIC_WINDOW`, of the last `JUDGED_WINDOW` rollouts or two of all.

    A source that is seldom rolled out changes meanwhile. So few of its rollouts count, they say little, and it is
    rolled out more often until they say more.

    Args:
        memory: every rollout.
        purpose: such as `critic`.
    """
    rows = find_rows(memory, purpose)
    recent = int(np.sum(rows >= memory.size - JUDGED_WINDOW))
    return memory.returns[rows[-min(max(recent, 2), CRITIC_WINDOW) :]]


def probability_of_lead(some: np.ndarray, others: np.ndarray) -> float:
    """Φ((U − nm/2) / √(nm (n + m + 1)/12)): how surely n numbers are higher than m others, by their ranks.

    U counts the pairs in which the first is higher, ties as half (Mann and Whitney): one very high number is one
    rank, and scales do not matter.

    Args:
        some: (n,).
        others: (m,).
    """
    n, m = len(some), len(others)
    above, below = np.sum(some[:, None] > others[None, :]), np.sum(some[:, None] < others[None, :])
    z = (int(above) - int(below)) / 2 / math.sqrt(n * m * (n + m + 1) / 12)
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))


def recheck_share(state: State, config: Config) -> float:
    """Share of re-checks: none before the search anneals, while everything changes; the configured one in the end.

    Beside a critic it is always the configured one: rollouts decide between both.
    """
    if state.critic is not None:
        return config.incumbent.recheck_share
    return config.incumbent.recheck_share * max(0.0, 1 - 2 * anneal_factor(state, config))


def _is_check(state: State, drawn: float, config: Config) -> bool:
    """Whether to roll out the average as it is: by chance, or beside a critic in turn."""
    share = recheck_share(state, config)
    if state.critic is None or not share:
        return drawn < share
    checks = state.purposes.count(CHECK)
    return checks + 1 <= share * (state.purposes.count(EXPLORE) + checks + 1)


@lru_cache(maxsize=8)
@in_float32
def initial_params(policy: Policy, seed: int, count: int = 0) -> np.ndarray:
    """The policy class' own random initialisation, (D,)."""
    return np.asarray(policy.init(jax.random.key(draw_seed(seed, count, "initial policy"))), np.float32)
