"""Algorithm 1 of the paper: pure `init`, `ask` and `tell` over one `State`. The shell around them is `agent.py`.

sample a trajectory → add it to the memory → select → surrogate → maximise the lower bound → next policy
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from ddopg.config import Config
from ddopg.core.acquisitions import OBJECTIVES
from ddopg.core.cache import Cache
from ddopg.core.incumbents import choose_incumbent, hand_over
from ddopg.core.log_likelihood_cache import LogLikelihoodCache
from ddopg.core.memory import Memory
from ddopg.core.memory import add as remember
from ddopg.core.numerics import LARGEST_BOUND, choose_reward_scale, describe_oddities, is_finite
from ddopg.core.optimisers import OPTIMISERS, Outcome
from ddopg.core.param_scaling import param_sensitivity
from ddopg.core.policy_update import Improvement, UpdateConfig, UpdateInputs, improve, incumbent_error
from ddopg.core.process_search import follow_process, is_process_search
from ddopg.core.proposals import anneal_factor, initial_params, propose, search_scale
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.selection import RULES, Selection, select
from ddopg.core.state import (
    ADDED,
    Incumbent,
    Proposal,
    State,
    count_of_search,
    indices_of_search,
    is_of_search,
    require_waiting,
)
from ddopg.core.surrogate import ESTIMATORS
from ddopg.core.surrogate_data import Sample, length_scale_in_use, prepare
from ddopg.core.types import SurrogateData, Trajectory
from ddopg.core.value_learning import has_critic, learn_values
from ddopg.errors import unknown
from ddopg.policies import Policy
from ddopg.support.compilation import in_float32


class Info(NamedTuple):
    """What people want to look at after a `tell`; never needed to go on.

    Example:
        >>> lengths = []
        >>> agent = ddopg.DDOPG("cartpole", seed=0)
        >>> _ = agent.learn(total_episodes=2, callback=lambda agent, info: lengths.append(info.length))
        >>> sum(lengths) == agent.state.steps
        True
    """

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
    outcome: str  # converged, step_limit, not_finite: how a search ended; gaussian_process, initial_design, …
    remark: str  # what is odd about the data and how it was met; mostly empty


class Turn(NamedTuple):
    """What a trajectory has led to."""

    state: State
    info: Info
    cache: Cache  # to hand in with the next trajectory; without it everything is computed anew


class Surrogate(NamedTuple):
    """What a search from the centre rests on."""

    sample: Sample  # the selected trajectories and the scales
    start: np.ndarray  # (D,) where the search begins
    data: SurrogateData
    cache: LogLikelihoodCache


def check_names(config: Config) -> None:
    """Refuse a configuration that names a rule, an estimator, an objective or an optimiser that does not exist.

    Raises:
        UnknownNameError: with the nearest names that do exist.
    """
    named = (
        ("selection.rule", config.selection.rule, RULES),
        ("surrogate.estimator", config.surrogate.estimator, ESTIMATORS),
        ("surrogate.objective", config.surrogate.objective, OBJECTIVES),
        ("search.optimiser", config.search.optimiser, OPTIMISERS),
    )
    for field, name, table in named:
        if name not in table:
            raise unknown(f"value of {field}", name, table)


@in_float32
def init(policy: Policy, config: Config, seed: int) -> State:
    """θ₀ and an empty memory.

    Raises:
        UnknownNameError: if the configuration names something that does not exist.
    """
    check_names(config)
    theta = initial_params(policy, seed)
    return State(
        seed=seed,
        asked=0,
        pending=(),
        memory=Memory(),
        centre=theta,
        ema_params=theta,
        # Parameters that are declared have a scale from the beginning: the unit of their coordinates.
        param_sensitivity=(np.ones if policy.parameters else np.zeros)(policy.size, np.float32),
        opt_state=None,
        return_bound=0.0,
        incumbent=Incumbent(theta, -np.inf),
        steps=0,
    )


@in_float32
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
    for k in range(state.asked, state.asked + number):
        state = state._replace(asked=k + 1, pending=(*state.pending, propose(state, k, policy, config)))
    return state, state.pending[len(state.pending) - number :]


@in_float32
def tell(
    state: State,
    proposal: Proposal,
    trajectory: Trajectory,
    policy: Policy,
    config: Config,
    cache: Cache | None = None,
) -> Turn:
    """One turn of Algorithm 1, from the sampled trajectory to the next policy.

    Args:
        state: the learner before it.
        proposal: which of the pending proposals was rolled out.
        trajectory: what happened.
        policy: the policy class.
        config: the whole configuration.
        cache: of the turn before; without one the same is computed anew.

    Raises:
        TrajectoryError: if the proposal is not waiting, or the trajectory does not fit the others.
    """
    require_waiting([p.number for p in state.pending], proposal.number)
    state = state._replace(
        pending=tuple(p for p in state.pending if p.number != proposal.number),
        steps=state.steps + trajectory.length,
    )
    return _take_turn(state, proposal, trajectory._replace(theta=proposal.theta), policy, config, cache)


@in_float32
def add(
    state: State,
    trajectory: Trajectory,
    policy: Policy,
    config: Config,
    cache: Cache | None = None,
) -> tuple[Turn, Proposal]:
    """The same turn with a trajectory that was not asked for, of the policy that it names."""
    proposal = Proposal(-1 - state.added, trajectory.theta, trajectory.seed, ADDED)
    return _take_turn(state, proposal, trajectory, policy, config, cache), proposal


def build_surrogate_data(
    state: State, policy: Policy, config: Config, cache: LogLikelihoodCache | None = None
) -> Surrogate:
    """Select trajectories, choose the scales, and prepare what a search from the centre rests on."""
    rng = make_rng(state.seed, state.memory.size, "selection")
    known = indices_of_search(state.memory)
    drawn = select(rng, state.memory.returns[known], config.selection)
    selection = drawn._replace(indices=known[drawn.indices])
    sample = Sample(
        selection, search_scale(state, policy, config), choose_reward_scale(state.memory, selection)
    )
    start = _choose_start(state, selection, config)
    critic = state.critic if config.surrogate.estimator == "doubly_robust" else None
    data, cache = prepare(state.memory, sample, start, policy, config, cache, critic)
    return Surrogate(sample, start, data, cache)


def _choose_start(state: State, selection: Selection, config: Config) -> np.ndarray:
    """The centre, or the policy of one of the selected trajectories, drawn as often as it was selected."""
    if config.search.start == "last":
        return state.centre
    rng = make_rng(state.seed, state.memory.size, "start")
    index = rng.choice(selection.indices, p=selection.counts / np.sum(selection.counts))
    return state.memory.trajectories[index].theta


def _take_turn(
    state: State,
    proposal: Proposal,
    trajectory: Trajectory,
    policy: Policy,
    config: Config,
    cache: Cache | None,
) -> Turn:
    """Remember, learn values, select, improve."""
    cache = cache or Cache()
    state = _remember(state, proposal, trajectory, policy, config)
    if is_process_search(policy, config):
        state, about = follow_process(state, policy)
        return Turn(state, _info_of_rollout(state, trajectory, "")._replace(**about), cache)
    own = count_of_search(state.memory)  # rollouts of the search
    if has_critic(policy, config) and own >= config.design.constants:
        state = state._replace(critic=learn_values(state, policy, config, cache.transitions))
    if own < config.design.policies or not is_of_search(proposal.purpose):
        outcome = "initial_design" if own < config.design.policies else "not_searched"
        state = hand_over(state)
        return Turn(state, _info_of_rollout(state, trajectory, outcome), cache)
    surrogate = build_surrogate_data(state, policy, config, cache.likelihoods)
    cache.likelihoods = surrogate.cache
    state = state._replace(return_bound=_refresh_bound(state, config))
    found = _improve(state, surrogate, own == config.design.policies, policy, config)
    if is_finite(found):
        state = _move(state, found, config)
        incumbent = choose_incumbent(state, proposal, surrogate.sample, surrogate.data, found, config)
        state = _replace_found(state, incumbent)
    state = hand_over(state)
    length_scale = length_scale_in_use(policy, surrogate.data, config.surrogate)
    return Turn(state, _info_of_search(state, trajectory, surrogate, found, length_scale), cache)


def _replace_found(state: State, incumbent: Incumbent) -> State:
    """What the search would hand over now; it is handed over where there is no critic."""
    return state._replace(incumbent=incumbent, searched=incumbent if state.critic else None)


def _remember(
    state: State, proposal: Proposal, trajectory: Trajectory, policy: Policy, config: Config
) -> State:
    """Put the trajectory into the memory; the best single rollout leads until the design is complete."""
    memory = remember(state.memory, trajectory, config.discount, proposal.purpose)
    value = float(memory.returns[-1])
    starting = count_of_search(memory) <= config.design.policies
    counts = starting or (config.incumbent.rule == "rollout" and not config.incumbent.ema_rate)
    better = counts and is_of_search(proposal.purpose) and value > state.found_by_search.value
    if config.search.scale_by_sensitivity and not policy.parameters:
        sensitivity = param_sensitivity(policy, trajectory)
        if not policy.linear:  # what a parameter does depends on the others: a constant policy's do nothing
            typical = trajectory._replace(theta=initial_params(policy, state.seed))
            sensitivity = np.maximum(sensitivity, param_sensitivity(policy, typical))
        state = state._replace(param_sensitivity=np.maximum(state.param_sensitivity, sensitivity))
    if better:
        state = _replace_found(state, Incumbent(trajectory.theta, value))
    return state._replace(
        memory=memory,
        centre=trajectory.theta if better and starting else state.centre,
        ema_params=trajectory.theta if better and starting else state.ema_params,
    )


def _refresh_bound(state: State, config: Config) -> float:
    """‖R‖∞ = max |R(τ)| over the memory, renewed when it has grown enough; 1 where every return is 0."""
    largest = float(np.max(np.abs(state.memory.returns))) or 1.0
    grown = largest > (1 + config.surrogate.bound_growth) * state.return_bound
    return largest if grown else state.return_bound


def _improve(
    state: State, surrogate: Surrogate, starting: bool, policy: Policy, config: Config
) -> Improvement:
    """What the search finds, as NumPy arrays; the optimiser's state stays on the device."""
    inputs = UpdateInputs(
        centre=surrogate.start,
        ema_params=state.ema_params,
        incumbent=state.found_by_search.theta,
        opt_state=state.opt_state,
        seed=draw_seed(state.seed, state.memory.size, "search"),
        data=surrogate.data,
        return_bound=min(state.return_bound / surrogate.sample.reward_scale, LARGEST_BOUND),
        param_scale=surrogate.sample.param_scale,
        starting=starting,
        anneal_factor=np.float32(anneal_factor(state, config)),
    )
    found = improve(inputs, policy, UpdateConfig.of(config))
    opt_state = found.search.opt_state
    numbers = jax.tree.map(np.asarray, found._replace(search=found.search._replace(opt_state=None)))
    return numbers._replace(search=numbers.search._replace(opt_state=opt_state))


def _move(state: State, found: Improvement, config: Config) -> State:
    """The centre moves to the maximum of the surrogate objective; the moving average follows it."""
    return state._replace(
        centre=np.asarray(found.search.theta),
        ema_params=np.asarray(found.ema_params),
        opt_state=found.search.opt_state if config.search.keep_opt_state else None,
    )


def _info_of_rollout(state: State, trajectory: Trajectory, outcome: str) -> Info:
    """Where nothing was searched, there is no surrogate to speak of."""
    return Info(
        rollout=state.memory.size,
        steps=state.steps,
        return_=float(state.memory.returns[-1]),
        length=trajectory.length,
        incumbent=state.incumbent.value,
        incumbent_error=np.nan,
        predicted=np.nan,
        lower_bound=np.nan,
        ess=np.nan,
        length_scale=np.nan,
        search_steps=0,
        outcome=outcome,
        remark="",
    )


def _info_of_search(
    state: State, trajectory: Trajectory, surrogate: Surrogate, found: Improvement, length_scale: float
) -> Info:
    reward_scale = surrogate.sample.reward_scale
    outcome = Outcome(int(found.search.outcome)).name.lower()
    return _info_of_rollout(state, trajectory, outcome)._replace(
        incumbent_error=incumbent_error(state.incumbent.theta, found) * reward_scale,
        predicted=float(found.at_centre.mean) * reward_scale,
        lower_bound=float(found.at_centre.lower_bound) * reward_scale,
        ess=float(found.at_centre.ess),
        length_scale=length_scale,
        search_steps=int(found.search.steps),
        remark=describe_oddities(state.memory, surrogate.sample, state.param_sensitivity, found),
    )
