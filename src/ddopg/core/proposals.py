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
from ddopg.core.memory import find_rows
from ddopg.core.param_scaling import LINEAR_SHARE, param_scale, sample_constant_policy, sample_params
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.state import CHECK, CRITIC, EXPLORE, NOISY, Proposal, State, count_of_search, is_of_search
from ddopg.parameters import reflect
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32

MAX_RANDOM_FRACTION = 0.5  # of the proposals after the design
RECENT_WINDOW = 20  # rollouts that say how long one is nowadays
CRITIC_WINDOW = 8  # rollouts of each source that say which of them is better
CRITIC_SHARES = (0.1, 0.8)  # the least and the most of the steps that the critic gets
EVEN_EPISODES = 4  # episodes' worth of steps in which both have the same share
SEARCH_ROLLOUTS = 20  # what a search needs to show what it can do: until then half of the steps are its own
SHARE_WINDOW = 20  # rollouts in which it gets its share


def propose(state: State, k: int, policy: Policy, config: Config) -> Proposal:
    """The k-th proposal: constants, the rest of the design; later a random policy, a re-check or a perturbation."""
    rng, outputs = make_rng(state.seed, k, "exploration"), len(policy.action_scale)
    place = count_of_search(state.purposes)

    def proposal(purpose: str, theta: np.ndarray) -> Proposal:
        inside = theta if policy.limits is None else reflect(theta, policy.limits)
        return Proposal(k, inside.astype(np.float32), draw_seed(state.seed, k, "rollout"), purpose)

    if policy.parameters and k == 0:
        return proposal("design", initial_params(policy, state.seed))  # the user's own start
    if place < config.design.constants and not policy.parameters:
        constant = sample_constant_policy(rng, policy.size, outputs)
        return proposal("design", constant if policy.bias else initial_params(policy, state.seed, k))
    if state.critic is not None and is_turn_of_critic(state):
        return _propose_actor(proposal, state)
    scale = search_scale(state, policy, config)
    design = place < config.design.policies
    if design and not config.search.scale_by_sensitivity:
        spread = config.design.spread * rng.standard_normal(policy.size)
        return proposal("design", initial_params(policy, state.seed) + spread)
    drawn_random, drawn_check = rng.random(2)
    random = drawn_random < _random_share(state, place, config)
    if design or random:
        gain = config.exploration.gain * np.sqrt(outputs)
        return proposal("design" if design else "random", sample_params(rng, scale, gain))
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

    Steps are what rollouts cost. Those under way count as average ones, and so does the next one.
    """
    told = [trajectory.length for trajectory in state.memory.trajectories[-SHARE_WINDOW:]]
    typical = float(np.mean(told))
    lengths = np.array([*told, *[typical] * len(state.pending)])
    own = [not is_of_search(purpose) for purpose in state.purposes[-len(lengths) :]]
    had, all_of_them = float(np.sum(lengths[own])), float(np.sum(lengths))
    return had + typical / 2 < critic_share(state) * (all_of_them + typical)


def _propose_actor(proposal: Callable[[str, np.ndarray], Proposal], state: State) -> Proposal:
    """The critic's actor, in turns with its noise and as it is."""
    assert state.critic is not None
    actor = state.critic.actor
    own = [purpose for purpose in state.purposes if not is_of_search(purpose)]
    if own and own[-1] == NOISY:
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

    Φ((mean of the actor − mean of the average) / standard error) over the latest rollouts of each without noise.
    Until the average has two, those of perturbed policies count. It is ½ in the first `EVEN_EPISODES`,
    at most ½ until the search has had `SEARCH_ROLLOUTS`, and always within `CRITIC_SHARES`.
    """
    returns = {
        purpose: state.memory.returns[find_rows(state.memory, purpose)][-CRITIC_WINDOW:]
        for purpose in (CRITIC, CHECK, EXPLORE)
    }
    actor, average = returns[CRITIC], returns[CHECK if len(returns[CHECK]) > 1 else EXPLORE]
    if _is_early(state) or min(len(actor), len(average)) < 2:
        return 0.5
    size = float(np.max(np.abs([*actor, *average]))) or 1.0  # squares of large numbers would overflow
    error = math.sqrt(sum(np.var(some / size, ddof=1) / len(some) for some in (actor, average)))
    lead = float(np.mean(actor / size) - np.mean(average / size))
    z = lead / error if error > 0 else math.copysign(math.inf, lead) if lead else 0.0
    least, most = CRITIC_SHARES
    tried = count_of_search(state.memory.purposes) >= SEARCH_ROLLOUTS
    return float(np.clip(0.5 * (1 + math.erf(z / math.sqrt(2))), least, most if tried else 0.5))


def _is_early(state: State) -> bool:
    """Whether both learners are in their first `EVEN_EPISODES`."""
    return state.steps < EVEN_EPISODES * state.memory.trajectories[0].horizon


def recheck_share(state: State, config: Config) -> float:
    """Share of re-checks: none before the search anneals, while everything changes; the configured one in the end.

    Beside a critic it is the configured one after the first episodes: rollouts decide between both.
    """
    if state.critic is not None:
        return 0.0 if _is_early(state) else config.incumbent.recheck_share
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
