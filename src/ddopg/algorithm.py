"""Algorithm 1 of the paper: pure `init`, `ask` and `tell` over one `State`. The shell around them is `agent.py`.

sample a trajectory → add it to the memory → select → surrogate → maximise the lower bound → next policy
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.config import Config
from ddopg.data import Estimate, Evidence, Trajectory
from ddopg.errors import TrajectoryError, require
from ddopg.memory import Memory, add, select
from ddopg.optimise import OPTIMISERS, Outcome, Search, maximise
from ddopg.policies import Policy
from ddopg.surrogate import estimate, objective, prepare


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
    design: tuple[np.ndarray, ...]  # initial policies not yet handed out
    pending: tuple[Proposal, ...]  # handed out, not yet told
    memory: Memory
    centre: np.ndarray  # (D,) where the search stands
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
    """θ₀, the initial design around it, an empty memory."""
    theta = np.asarray(policy.init(jax.random.key(_integer(seed, 0, "initial policy"))), np.float32)
    rng = _stream(seed, 0, "initial design")
    design = tuple(
        np.asarray(theta + config.design.spread * rng.standard_normal(policy.size), np.float32)
        for _ in range(config.design.policies)
    )
    return State(
        seed=seed,
        asked=0,
        design=design,
        pending=(),
        memory=Memory(),
        centre=theta,
        search=None,
        return_bound=0.0,
        incumbent=Incumbent(theta, -np.inf),
        steps=0,
    )


def ask(state: State, number: int | None = None) -> tuple[State, tuple[Proposal, ...]]:
    """The initial design first (all of it, or `number`), afterwards the centre of the search."""
    waiting = len(state.design)
    number = (waiting or 1) if number is None else number
    thetas = (*state.design[:number], *[state.centre] * (number - waiting))
    proposals = tuple(
        Proposal(k, theta, _integer(state.seed, k, "rollout")) for k, theta in enumerate(thetas, state.asked)
    )
    return state._replace(
        asked=state.asked + number, design=state.design[number:], pending=state.pending + proposals
    ), proposals


def tell(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> tuple[State, Info]:
    """One turn of Algorithm 1, from the sampled trajectory to the next policy."""
    state = _remember(state, proposal, trajectory, config)
    if state.memory.size < config.design.policies:
        return state, _info(state, trajectory)
    rng = _stream(state.seed, state.memory.size, "selection")
    selection = select(rng, np.asarray(state.memory.returns), config.selection)
    memory, evidence = prepare(
        state.memory, selection, config.selection.size, policy, config.surrogate, config.discount
    )
    state = state._replace(memory=memory, return_bound=_refreshed_bound(state, config))
    search, believed = _improve(state, evidence, policy, config)
    state = state._replace(
        centre=np.asarray(search.theta), search=search.memory if config.search.carry else None
    )
    return state, _info(state, trajectory, search, believed)


def _remember(state: State, proposal: Proposal, trajectory: Trajectory, config: Config) -> State:
    """Put the trajectory into the memory; the best one so far leads the search until the design is complete."""
    require(
        any(p.number == proposal.number for p in state.pending),
        f"proposal {proposal.number} is not waiting for a rollout; waiting: {[p.number for p in state.pending]}. "
        "Each proposal is told once",
        TrajectoryError,
    )
    memory = add(state.memory, trajectory._replace(theta=proposal.theta), config.discount)
    value = memory.returns[-1]
    better = value > state.incumbent.value
    starting = memory.size <= config.design.policies
    return state._replace(
        pending=tuple(p for p in state.pending if p.number != proposal.number),
        memory=memory,
        incumbent=Incumbent(proposal.theta, value) if better else state.incumbent,
        centre=proposal.theta if better and starting else state.centre,
        steps=state.steps + trajectory.length,
    )


def _refreshed_bound(state: State, config: Config) -> float:
    """‖R‖∞ = max |R(τ)| over the memory, renewed when it has grown enough; 1 where every return is 0."""
    largest = float(np.max(np.abs(state.memory.returns))) or 1.0
    grown = largest > (1 + config.surrogate.bound_growth) * state.return_bound
    return largest if grown else state.return_bound


def _improve(state: State, evidence: Evidence, policy: Policy, config: Config) -> tuple[Search, Estimate]:
    """θ ← argmax of the surrogate objective, from the centre."""
    key = jax.random.key(_integer(state.seed, state.memory.size, "search"))
    return _search(state.centre, state.search, key, evidence, state.return_bound, policy, config)


@partial(jax.jit, static_argnames=("policy", "config"))
def _search(
    theta: Array, memory: Any, key: Array, evidence: Evidence, bound: Array, policy: Policy, config: Config
) -> tuple[Search, Estimate]:
    optimiser = OPTIMISERS[config.search.optimiser](config.search, key)
    theta = jnp.asarray(theta)
    search = maximise(
        lambda point: objective(policy, point, evidence, bound, config.surrogate),
        theta,
        optimiser,
        optimiser.init(theta) if memory is None else memory,
        steps=config.search.steps,
        tolerance=config.search.tolerance,
        window=config.search.window,
    )
    return search, estimate(policy, search.theta, evidence, bound, config.surrogate)


def _info(
    state: State, trajectory: Trajectory, search: Search | None = None, believed: Estimate | None = None
) -> Info:
    return Info(
        rollout=state.memory.size,
        steps=state.steps,
        return_=state.memory.returns[-1],
        length=trajectory.length,
        incumbent=state.incumbent.value,
        predicted=float(believed.mean) if believed else np.nan,
        lower_bound=float(believed.lower_bound) if believed else np.nan,
        ess=float(believed.ess) if believed else np.nan,
        search_steps=int(search.steps) if search else 0,
        outcome=Outcome(int(search.outcome)).name.lower() if search else "initial_design",
    )


def _stream(seed: int, count: int, purpose: str) -> np.random.Generator:
    """The random numbers for one purpose at one count: no generator is carried along, none is used twice."""
    return np.random.default_rng([seed, count, zlib.crc32(purpose.encode())])


def _integer(seed: int, count: int, purpose: str) -> int:
    return int(_stream(seed, count, purpose).integers(2**31))
