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
from ddopg.memory import Memory, add, select
from ddopg.optimise import Outcome
from ddopg.policies import Policy
from ddopg.rollout import FIRST_EVALUATION_SEED


class Proposal(NamedTuple):
    """A policy to roll out, and the seed to roll it out with."""

    number: int
    theta: np.ndarray  # (D,)
    seed: int


class Incumbent(NamedTuple):
    """The policy the learner would hand over now."""

    theta: np.ndarray  # (D,)
    value: float  # the return it is believed to have


class State(NamedTuple):
    """Everything the next iteration needs; saved, it resumes bit for bit."""

    seed: int
    asked: int  # proposals handed out so far
    pending: tuple[Proposal, ...]  # handed out, not yet told
    memory: Memory
    centre: np.ndarray  # (D,) where the search stands
    effects: np.ndarray  # (D,) largest mean-square effect of each parameter on any path
    search: Any  # the optimiser's state, None before the first search
    return_bound: float  # ‖R‖∞ in use
    incumbent: Incumbent
    steps: int  # environment steps told


class Info(NamedTuple):
    """What people want to look at after a `tell`; never needed to go on."""

    rollout: int  # trajectories in the memory
    steps: int  # environment steps so far, all of them
    return_: float  # of this rollout
    length: int  # of this rollout
    incumbent: float  # the value the incumbent is believed to have
    predicted: float  # Ĵ at the new centre; NaN while the initial design runs
    lower_bound: float
    ess: float
    search_steps: int
    outcome: str


def init(policy: Policy, config: Config, seed: int) -> State:
    """θ₀ and an empty memory."""
    theta = _first_policy(policy, seed)
    return State(
        seed=seed,
        asked=0,
        pending=(),
        memory=Memory(),
        centre=theta,
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
    proposals = tuple(
        Proposal(k, _propose(state, k, policy, config), _integer(state.seed, k, "rollout"))
        for k in range(state.asked, state.asked + number)
    )
    return state._replace(asked=state.asked + number, pending=state.pending + proposals), proposals


def tell(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> tuple[State, Info]:
    """One turn of Algorithm 1, from the sampled trajectory to the next policy."""
    state = _remember(state, proposal, trajectory, policy, config)
    if state.memory.size < config.design.policies:
        return state, _info(state, trajectory)
    rng = _stream(state.seed, state.memory.size, "selection")
    selection = select(rng, np.asarray(state.memory.returns), config.selection)
    memory, evidence = prepare(state.memory, selection, state.centre, policy, config)
    state = state._replace(memory=memory, return_bound=_refreshed_bound(state, config))
    state, found = _improve(state, evidence, policy, config)
    return state, _info(state, trajectory, found)


def _propose(state: State, k: int, policy: Policy, config: Config) -> np.ndarray:
    """θ of the k-th proposal."""
    rng, outputs = _stream(state.seed, k, "exploration"), len(policy.unit)
    if k < config.design.constants:
        return explore.constant(rng, policy.size, outputs)
    unit, design = explore.units(state.effects), k < config.design.policies
    if design and not config.search.effect_units:
        scatter = config.design.spread * rng.standard_normal(policy.size)
        return (_first_policy(policy, state.seed) + scatter).astype(np.float32)
    if design or rng.random() < config.exploration.fresh:
        return explore.scattered(rng, unit, outputs, config.exploration.gain)
    return state.centre + explore.scattered(rng, unit, outputs, config.exploration.noise)


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
        steps=state.steps + trajectory.length,
    )


def _refreshed_bound(state: State, config: Config) -> float:
    """‖R‖∞ = max |R(τ)| over the memory, renewed when it has grown enough; 1 where every return is 0."""
    largest = float(np.max(np.abs(state.memory.returns))) or 1.0
    grown = largest > (1 + config.surrogate.bound_growth) * state.return_bound
    return largest if grown else state.return_bound


def _improve(state: State, evidence: Evidence, policy: Policy, config: Config) -> tuple[State, Improvement]:
    """The centre moves to the maximum of the surrogate objective; the incumbent follows it, where it is to."""
    found = improve(
        state.centre,
        state.incumbent.theta,
        state.search,
        jax.random.key(_integer(state.seed, state.memory.size, "search")),
        evidence,
        state.return_bound,
        explore.units(state.effects) if config.search.effect_units else np.ones(policy.size, np.float32),
        state.memory.size == config.design.policies,
        policy,
        config,
    )
    state = state._replace(
        centre=np.asarray(found.search.theta), search=found.search.memory if config.search.carry else None
    )
    if config.search.follow:
        incumbent = Incumbent(np.asarray(found.average), float(found.at_average.mean))
        state = state._replace(incumbent=incumbent)
    return state, found


def _info(state: State, trajectory: Trajectory, found: Improvement | None = None) -> Info:
    return Info(
        rollout=state.memory.size,
        steps=state.steps,
        return_=state.memory.returns[-1],
        length=trajectory.length,
        incumbent=state.incumbent.value,
        predicted=float(found.at_centre.mean) if found else np.nan,
        lower_bound=float(found.at_centre.lower_bound) if found else np.nan,
        ess=float(found.at_centre.ess) if found else np.nan,
        search_steps=int(found.search.steps) if found else 0,
        outcome=Outcome(int(found.search.outcome)).name.lower() if found else "initial_design",
    )


def _first_policy(policy: Policy, seed: int) -> np.ndarray:
    return np.asarray(policy.init(jax.random.key(_integer(seed, 0, "initial policy"))), np.float32)


def _stream(seed: int, count: int, purpose: str) -> np.random.Generator:
    """The random numbers for one purpose at one count: no generator is carried along, none is used twice."""
    return np.random.default_rng([seed, count, zlib.crc32(purpose.encode())])


def _integer(seed: int, count: int, purpose: str) -> int:
    return int(_stream(seed, count, purpose).integers(FIRST_EVALUATION_SEED))
