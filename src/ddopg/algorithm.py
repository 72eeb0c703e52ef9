"""Algorithm 1 of the paper: pure `init`, `ask` and `tell` over one `State`. The shell around them is `agent.py`.

sample a trajectory → add it to the memory → select → surrogate → maximise the lower bound → next policy
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import jax
import numpy as np

from ddopg import explore
from ddopg.config import Config
from ddopg.data import Evidence, Trajectory
from ddopg.errors import TrajectoryError, require
from ddopg.evidence import prepare
from ddopg.improve import Improvement, improve
from ddopg.magnitude import LARGEST_BOUND, is_sound, measured, remark, reward_unit
from ddopg.memory import Memory, Selection, add, select
from ddopg.optimise import Outcome
from ddopg.policies import Policy
from ddopg.rollout import FIRST_EVALUATION_SEED

MOST_FRESH = 0.5  # of the proposals after the design may be fresh random policies
LATELY = 20  # rollouts that say how long one is nowadays


class Proposal(NamedTuple):
    """A policy to roll out, and the seed to roll it out with."""

    number: int
    theta: np.ndarray  # (D,)
    seed: int
    purpose: str = "explore"  # or "design", "fresh" (a random policy), "check" (the running average itself)


class Incumbent(NamedTuple):
    """The policy the learner would hand over now."""

    theta: np.ndarray  # (D,)
    value: float  # the return it is believed to have


class State(NamedTuple):
    """Everything the next iteration needs; saved, it resumes bit for bit."""

    seed: int  # of the run
    asked: int  # proposals handed out so far
    pending: tuple[Proposal, ...]  # handed out, not yet told
    memory: Memory  # every trajectory, and what was computed for them
    centre: np.ndarray  # (D,) where the search stands
    average: np.ndarray  # (D,) the running average of the centre
    effects: np.ndarray  # (D,) largest mean-square effect of each parameter on any path
    search: Any  # the optimiser's state, None before the first search
    return_bound: float  # ‖R‖∞ in use
    incumbent: Incumbent  # the policy to hand over now
    steps: int  # environment steps told


class Info(NamedTuple):
    """What people want to look at after a `tell`; never needed to go on."""

    rollout: int  # trajectories in the memory
    steps: int  # environment steps so far, all of them
    return_: float  # of this rollout
    length: int  # of this rollout
    incumbent: float  # the value the incumbent is believed to have
    predicted: float  # Ĵ at the new centre; NaN while the initial design runs
    lower_bound: float  # L at the new centre
    ess: float  # effective sample size at the new centre
    search_steps: int  # gradient steps of the search
    outcome: str  # how the search ended: converged, step_limit, not_finite; or initial_design
    remark: str  # what is odd about the data and how it was met; mostly empty


def init(policy: Policy, config: Config, seed: int) -> State:
    """θ₀ and an empty memory."""
    theta = first_policy(policy, seed)
    return State(
        seed=seed,
        asked=0,
        pending=(),
        memory=Memory(),
        centre=theta,
        average=theta,
        effects=np.zeros(policy.size, np.float32),
        search=None,
        return_bound=0.0,
        incumbent=Incumbent(theta, -np.inf),
        steps=0,
    )


def ask(
    state: State, policy: Policy, config: Config, number: int | None = None
) -> tuple[State, tuple[Proposal, ...]]:
    """The initial design first, as much of it as can be said by now; afterwards one proposal (or `number`)."""
    if number is None:
        stages = (config.design.constants, config.design.policies, state.asked + 1)
        number = next(end - state.asked for end in stages if end > state.asked)
    proposals = tuple(_propose(state, k, policy, config) for k in range(state.asked, state.asked + number))
    return state._replace(asked=state.asked + number, pending=state.pending + proposals), proposals


def tell(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> tuple[State, Info]:
    """One turn of Algorithm 1, from the sampled trajectory to the next policy."""
    state = _remember(state, proposal, trajectory, policy, config)
    if state.memory.size < config.design.policies:
        return state, _info(state, trajectory)
    rng = stream(state.seed, state.memory.size, "selection")
    selection = select(rng, np.asarray(state.memory.returns), config.selection)
    unit = _units(state, config)
    worth = reward_unit(state.memory, selection)  # 1, unless the rewards are of an extraordinary size
    memory = measured(state.memory, selection, worth)
    memory, evidence = prepare(memory, selection, state.centre, unit, policy, config)
    memory = memory._replace(trajectories=state.memory.trajectories)
    state = state._replace(memory=memory, return_bound=_refreshed_bound(state, config))
    found = _improvement(state, evidence, unit, worth, policy, config)
    if is_sound(found):
        state = _moved(state, found, config)
        if config.search.follow:
            newest = _return_of_newest(state, selection, evidence, worth)
            incumbent = _next_incumbent(state, proposal, newest, found, config)
            state = state._replace(incumbent=incumbent._replace(value=incumbent.value * worth))
    return state, _info(state, trajectory, found, selection, worth)


def _propose(state: State, k: int, policy: Policy, config: Config) -> Proposal:
    """The k-th proposal: constants, the rest of the design; later a fresh policy, a re-check or a perturbation."""
    rng, outputs = stream(state.seed, k, "exploration"), len(policy.unit)

    def proposal(purpose: str, theta: np.ndarray) -> Proposal:
        return Proposal(k, theta.astype(np.float32), integer(state.seed, k, "rollout"), purpose)

    if k < config.design.constants:
        return proposal("design", explore.constant(rng, policy.size, outputs))
    unit, design = explore.units(state.effects), k < config.design.policies
    if design and not config.search.effect_units:
        scatter = config.design.spread * rng.standard_normal(policy.size)
        return proposal("design", first_policy(policy, state.seed) + scatter)
    fresh, check = rng.random(2) < (_fresh_share(state, k, config), _check_share(state, config))
    if design or fresh:
        gain = config.exploration.gain * np.sqrt(outputs)
        return proposal("design" if design else "fresh", explore.scattered(rng, unit, gain))
    if check:
        return proposal("check", state.average)
    noise = config.exploration.noise * np.sqrt(warmth(state, config))
    return proposal("explore", state.centre + explore.scattered(rng, unit, noise))


def warmth(state: State, config: Config) -> float:
    """min(1, cooling / episodes' worth of steps so far): 1 at first, falling as experience gathers."""
    if not config.search.cooling or not state.memory.size:
        return 1.0
    return min(1.0, config.search.cooling * state.memory.trajectories[0].horizon / state.steps)


def _fresh_share(state: State, k: int, config: Config) -> float:
    """Share p of fresh random policies: `fresh`/k = s of the rollouts, or of the *steps* where they are shorter than
    the others, from s = p f / (p f + (1 − p) l).

    f is the length of a rollout in the initial design, where all were random, and l that of one nowadays. Policies
    that fail at once are cheap, so there may be many, up to `MOST_FRESH`.
    """
    share, seen = min(config.exploration.fresh / max(k, 1), MOST_FRESH), state.memory.trajectories
    if not seen:
        return share
    random, lately = seen[: config.design.policies], seen[-LATELY:]
    cost = float(np.mean([t.length for t in random]) / np.mean([t.length for t in lately]))
    return min(share / (share + (1 - share) * cost), MOST_FRESH) if cost < 1 else share


def _check_share(state: State, config: Config) -> float:
    """Share of re-checks: none while the search is warm and everything changes, `check` in the end."""
    return config.search.check * max(0.0, 1 - 2 * warmth(state, config))


def _units(state: State, config: Config) -> np.ndarray:
    return explore.units(state.effects) if config.search.effect_units else np.ones_like(state.centre)


def _remember(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> State:
    """Put the trajectory into the memory; the best single rollout leads until the design is complete."""
    require(
        any(p.number == proposal.number for p in state.pending),
        f"proposal {proposal.number} is not waiting for a rollout; waiting: {[p.number for p in state.pending]}. "
        "Each proposal is told once",
        TrajectoryError,
    )
    trajectory = trajectory._replace(theta=proposal.theta)
    memory = add(state.memory, trajectory, config.discount)
    value = memory.returns[-1]
    better = value > max(memory.returns[:-1], default=-np.inf)
    starting = memory.size <= config.design.policies
    leads = starting or not config.search.follow
    if config.search.effect_units:
        state = state._replace(effects=np.maximum(state.effects, explore.effects(policy, trajectory)))
    return state._replace(
        pending=tuple(p for p in state.pending if p.number != proposal.number),
        memory=memory,
        incumbent=Incumbent(proposal.theta, value) if better and leads else state.incumbent,
        centre=proposal.theta if better and starting else state.centre,
        average=proposal.theta if better and starting else state.average,
        steps=state.steps + trajectory.length,
    )


def _refreshed_bound(state: State, config: Config) -> float:
    """‖R‖∞ = max |R(τ)| over the memory, renewed when it has grown enough; 1 where every return is 0."""
    largest = float(np.max(np.abs(state.memory.returns))) or 1.0
    grown = largest > (1 + config.surrogate.bound_growth) * state.return_bound
    return largest if grown else state.return_bound


def _improvement(
    state: State, evidence: Evidence, unit: np.ndarray, worth: float, policy: Policy, config: Config
) -> Improvement:
    """What the search finds; `worth` is the unit of the evidence's rewards."""
    return improve(
        state.centre,
        state.average,
        state.incumbent.theta,
        state.search,
        jax.random.key(integer(state.seed, state.memory.size, "search")),
        evidence,
        min(state.return_bound / worth, LARGEST_BOUND),
        unit,
        state.memory.size == config.design.policies,
        np.float32(warmth(state, config)),
        policy,
        config,
    )


def _moved(state: State, found: Improvement, config: Config) -> State:
    """The centre moves to the maximum of the surrogate objective; the running average follows it."""
    return state._replace(
        centre=np.asarray(found.search.theta),
        average=np.asarray(found.average),
        search=found.search.memory if config.search.carry else None,
    )


def _return_of_newest(state: State, selection: Selection, evidence: Evidence, worth: float) -> float:
    """The return of the newest rollout, without the luck of its start where the evidence holds it; in its unit."""
    rows = np.flatnonzero(selection.indices == state.memory.size - 1)
    return float(evidence.returns[rows[0]]) if len(rows) else state.memory.returns[-1] / worth


def _next_incumbent(
    state: State, proposal: Proposal, newest: float, found: Improvement, config: Config
) -> Incumbent:
    """The running average; once the search cools, it replaces the incumbent only for a reason.

    Either the surrogate says that it is better by more than a standard error, or it was re-checked and did not
    disappoint: its return was not below what the incumbent is believed to have by more than the spread of returns.
    """
    average, value = np.asarray(found.average), float(found.at_average.mean)
    if not _check_share(state, config):
        return Incumbent(average, value)
    kept = Incumbent(state.incumbent.theta, float(found.at_incumbent.mean))
    if value > kept.value + float(np.sqrt(found.at_average.variance / found.at_average.ess)):
        return Incumbent(average, value)
    if proposal.purpose == "check" and newest > kept.value - float(found.spread):
        return Incumbent(proposal.theta, kept.value)
    return kept


def _info(
    state: State,
    trajectory: Trajectory,
    found: Improvement | None = None,
    selection: Selection | None = None,
    worth: float = 1.0,
) -> Info:
    return Info(
        rollout=state.memory.size,
        steps=state.steps,
        return_=state.memory.returns[-1],
        length=trajectory.length,
        incumbent=state.incumbent.value,
        predicted=float(found.at_centre.mean) * worth if found else np.nan,
        lower_bound=float(found.at_centre.lower_bound) * worth if found else np.nan,
        ess=float(found.at_centre.ess) if found else np.nan,
        search_steps=int(found.search.steps) if found else 0,
        outcome=Outcome(int(found.search.outcome)).name.lower() if found else "initial_design",
        remark=remark(state.memory, selection, state.effects, worth, found) if found and selection else "",
    )


def first_policy(policy: Policy, seed: int) -> np.ndarray:
    """The policy class' own random start, (D,)."""
    return np.asarray(policy.init(jax.random.key(integer(seed, 0, "initial policy"))), np.float32)


def stream(seed: int, count: int, purpose: str) -> np.random.Generator:
    """The random numbers for one purpose at one count: no generator is carried along, none is used twice."""
    return np.random.default_rng([seed, count, zlib.crc32(purpose.encode())])


def integer(seed: int, count: int, purpose: str) -> int:
    """A seed for that purpose, below those of evaluation."""
    return int(stream(seed, count, purpose).integers(FIRST_EVALUATION_SEED))
