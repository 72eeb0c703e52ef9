"""Which policy to roll out next: the initial design, then a perturbation of the centre, a fresh policy or a re-check.

Random numbers come from streams named by (seed, count, purpose): nothing is carried along, none is used twice.
"""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from ddopg.config import Config
from ddopg.core import param_scaling as explore
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.state import Proposal, State
from ddopg.policies import Policy

MOST_FRESH = 0.5  # of the proposals after the design may be fresh random policies
LATELY = 20  # rollouts that say how long one is nowadays


def propose(state: State, k: int, policy: Policy, config: Config) -> Proposal:
    """The k-th proposal: constants, the rest of the design; later a fresh policy, a re-check or a perturbation."""
    rng, outputs = make_rng(state.seed, k, "exploration"), len(policy.unit)
    place = k + state.added

    def proposal(purpose: str, theta: np.ndarray) -> Proposal:
        return Proposal(k, theta.astype(np.float32), draw_seed(state.seed, k, "rollout"), purpose)

    if place < config.design.constants:
        constant = explore.constant(rng, policy.size, outputs)
        return proposal("design", constant if policy.bias else first_policy(policy, state.seed, k))
    unit, design = explore.units(state.effects), place < config.design.policies
    if design and not config.search.effect_units:
        scatter = config.design.spread * rng.standard_normal(policy.size)
        return proposal("design", first_policy(policy, state.seed) + scatter)
    fresh, check = rng.random(2) < (_fresh_share(state, place, config), check_share(state, config))
    if design or fresh:
        gain = config.exploration.gain * np.sqrt(outputs)
        return proposal("design" if design else "fresh", explore.scattered(rng, unit, gain))
    if check:
        return proposal("check", state.average)
    noise = config.exploration.noise * np.sqrt(warmth(state, config))
    return proposal("explore", state.centre + explore.scattered(rng, unit, noise))


def warmth(state: State, config: Config) -> float:
    """min(1, cooling / episodes' worth of steps so far): 1 at first, falling as experience gathers."""
    if not config.search.cooling or not state.steps:
        return 1.0
    return min(1.0, config.search.cooling * state.memory.trajectories[0].horizon / state.steps)


def _fresh_share(state: State, place: int, config: Config) -> float:
    """Share p of fresh random policies: `fresh`/place = s of the rollouts, or of the *steps* where they are shorter
    than the others, from s = p f / (p f + (1 − p) l).

    f is the length of a rollout in the initial design, where all were random, and l that of one nowadays. Policies
    that fail at once are cheap, so there may be many, up to `MOST_FRESH`.
    """
    share, seen = min(config.exploration.fresh / max(place, 1), MOST_FRESH), state.memory.trajectories
    if not seen:
        return share
    random, lately = seen[: config.design.policies], seen[-LATELY:]
    cost = float(np.mean([t.length for t in random]) / np.mean([t.length for t in lately]))
    return min(share / (share + (1 - share) * cost), MOST_FRESH) if cost < 1 else share


def check_share(state: State, config: Config) -> float:
    """Share of re-checks: none while the search is warm and everything changes, `check` in the end."""
    return config.search.check * max(0.0, 1 - 2 * warmth(state, config))


@lru_cache(maxsize=8)
def first_policy(policy: Policy, seed: int, count: int = 0) -> np.ndarray:
    """The policy class' own random start, (D,)."""
    return np.asarray(policy.init(jax.random.key(draw_seed(seed, count, "initial policy"))), np.float32)
