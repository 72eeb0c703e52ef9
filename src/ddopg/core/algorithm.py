"""Algorithm 1 of the paper: pure `init`, `ask` and `tell` over one `State`. The shell around them is `agent.py`.

sample a trajectory → add it to the memory → select → surrogate → maximise the lower bound → next policy
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from ddopg.config import Config
from ddopg.core import param_scaling as explore
from ddopg.core.memory import Memory
from ddopg.core.memory import add as remember
from ddopg.core.numerics import LARGEST_BOUND, is_sound, remark, reward_unit
from ddopg.core.optimisers import Outcome
from ddopg.core.policy_update import Improvement, error_at, improve
from ddopg.core.proposals import check_share, first_policy, propose, warmth
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.selection import Selection, select
from ddopg.core.state import ADDED, Incumbent, Proposal, State, require_waiting
from ddopg.core.surrogate_data import length_scale_in_use, prepare
from ddopg.core.types import Evidence, Trajectory
from ddopg.policies import Policy


class Info(NamedTuple):
    """What people want to look at after a `tell`; never needed to go on."""

    rollout: int  # trajectories in the memory
    steps: int  # environment steps so far, all of them
    return_: float  # of this rollout
    length: int  # of this rollout
    incumbent: float  # the value the incumbent is believed to have
    incumbent_error: float  # standard error of what the surrogate says about the incumbent
    predicted: float  # Ĵ at the new centre; NaN while the initial design runs
    lower_bound: float  # L at the new centre
    ess: float  # effective sample size at the new centre
    length_scale: float  # √Σ in use, in units of the action; the geometric mean where actions differ
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
    """The initial design first, as much of it as can be said by now; afterwards one proposal (or `number`).

    Trajectories that were added take the places of as many rollouts of the design.
    """
    if number is None:
        place = state.asked + state.added
        stages = (config.design.constants, config.design.policies, place + 1)
        number = next(end - place for end in stages if end > place)
    proposals = tuple(propose(state, k, policy, config) for k in range(state.asked, state.asked + number))
    return state._replace(asked=state.asked + number, pending=state.pending + proposals), proposals


def tell(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> tuple[State, Info]:
    """One turn of Algorithm 1, from the sampled trajectory to the next policy."""
    require_waiting([p.number for p in state.pending], proposal.number)
    state = state._replace(
        pending=tuple(p for p in state.pending if p.number != proposal.number),
        steps=state.steps + trajectory.length,
    )
    return _turn(state, proposal, trajectory._replace(theta=proposal.theta), policy, config)


def add(state: State, trajectory: Trajectory, policy: Policy, config: Config) -> tuple[State, Info, Proposal]:
    """The same turn with a trajectory that was not asked for, of the policy that it names."""
    proposal = Proposal(-1 - state.added, trajectory.theta, trajectory.seed, ADDED)
    return (*_turn(state, proposal, trajectory, policy, config), proposal)


def _turn(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> tuple[State, Info]:
    """Remember, select, improve."""
    state = _remember(state, trajectory, policy, config)
    if state.memory.size < config.design.policies:
        return state, _info(state, trajectory)
    memory, evidence, selection, unit, worth = gather(state, policy, config)
    state = state._replace(memory=memory, return_bound=_refreshed_bound(state, config))
    found = _improvement(state, evidence, unit, worth, policy, config)
    if is_sound(found):
        state = _moved(state, found, config)
        if config.search.follow:
            newest = _return_of_newest(state, selection, evidence, worth)
            incumbent = _next_incumbent(state, proposal, newest, found, config)
            state = state._replace(incumbent=incumbent._replace(value=incumbent.value * worth))
    scale = length_scale_in_use(policy, evidence, config.surrogate)
    return state, _info(state, trajectory, found, selection, worth, scale)


def gather(
    state: State, policy: Policy, config: Config
) -> tuple[Memory, Evidence, Selection, np.ndarray, float]:
    """What a search from the centre rests on: the memory with its pairs, the evidence, which trajectories it holds,
    the parameters' units, and the unit of its rewards: 1, unless they are of an extraordinary size."""
    rng = make_rng(state.seed, state.memory.size, "selection")
    selection = select(rng, state.memory.returns, config.selection)
    unit, worth = _units(state, config), reward_unit(state.memory, selection)
    memory, evidence = prepare(state.memory, selection, state.centre, unit, policy, config, worth)
    return memory, evidence, selection, unit, worth


def _units(state: State, config: Config) -> np.ndarray:
    return explore.units(state.effects) if config.search.effect_units else np.ones_like(state.centre)


def _remember(state: State, trajectory: Trajectory, policy: Policy, config: Config) -> State:
    """Put the trajectory into the memory; the best single rollout leads until the design is complete."""
    memory = remember(state.memory, trajectory, config.discount)
    value = float(memory.returns[-1])
    starting = memory.size <= config.design.policies
    better = (starting or not config.search.follow) and value > state.incumbent.value
    if config.search.effect_units:
        effects = explore.effects(policy, trajectory)
        if not policy.linear:  # what a parameter does depends on the others: a constant policy's do nothing
            typical = trajectory._replace(theta=first_policy(policy, state.seed))
            effects = np.maximum(effects, explore.effects(policy, typical))
        state = state._replace(effects=np.maximum(state.effects, effects))
    return state._replace(
        memory=memory,
        incumbent=Incumbent(trajectory.theta, value) if better else state.incumbent,
        centre=trajectory.theta if better and starting else state.centre,
        average=trajectory.theta if better and starting else state.average,
    )


def _refreshed_bound(state: State, config: Config) -> float:
    """‖R‖∞ = max |R(τ)| over the memory, renewed when it has grown enough; 1 where every return is 0."""
    largest = float(np.max(np.abs(state.memory.returns))) or 1.0
    grown = largest > (1 + config.surrogate.bound_growth) * state.return_bound
    return largest if grown else state.return_bound


def _improvement(
    state: State, evidence: Evidence, unit: np.ndarray, worth: float, policy: Policy, config: Config
) -> Improvement:
    """What the search finds, on the host; `worth` is the unit of the evidence's rewards."""
    found = improve(
        state.centre,
        state.average,
        state.incumbent.theta,
        state.search,
        draw_seed(state.seed, state.memory.size, "search"),
        evidence,
        min(state.return_bound / worth, LARGEST_BOUND),
        unit,
        state.memory.size == config.design.policies,
        np.float32(warmth(state, config)),
        policy,
        config,
    )
    memory = found.search.memory  # stays where it is: the optimiser goes on with it
    numbers = jax.tree.map(np.asarray, found._replace(search=found.search._replace(memory=None)))
    return numbers._replace(search=numbers.search._replace(memory=memory))


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
    return (
        float(np.sum(np.asarray(evidence.rewards)[rows[0]]))
        if len(rows)
        else float(state.memory.returns[-1]) / worth
    )


def _next_incumbent(
    state: State, proposal: Proposal, newest: float, found: Improvement, config: Config
) -> Incumbent:
    """The running average; once the search cools, it replaces the incumbent only for a reason.

    Either the surrogate says that it is better by more than a standard error, or it was re-checked and did not
    disappoint: its return was not below what the incumbent is believed to have by more than the spread of returns.
    """
    average, value = np.asarray(found.average), float(found.at_average.mean)
    if not check_share(state, config):
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
    length_scale: float = np.nan,
) -> Info:
    return Info(
        rollout=state.memory.size,
        steps=state.steps,
        return_=float(state.memory.returns[-1]),
        length=trajectory.length,
        incumbent=state.incumbent.value,
        incumbent_error=error_at(state.incumbent.theta, found) * worth if found else np.nan,
        predicted=float(found.at_centre.mean) * worth if found else np.nan,
        lower_bound=float(found.at_centre.lower_bound) * worth if found else np.nan,
        ess=float(found.at_centre.ess) if found else np.nan,
        length_scale=length_scale,
        search_steps=int(found.search.steps) if found else 0,
        outcome=Outcome(int(found.search.outcome)).name.lower() if found else "initial_design",
        remark=remark(state.memory, selection, state.effects, worth, found) if found and selection else "",
    )
