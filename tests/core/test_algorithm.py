"""init, ask, tell: contracts of the pure core."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.config import PRESETS, AnnealingConfig, Config, RestartConfig, preset
from ddopg.core import algorithm, proposals
from ddopg.core.algorithm import ask, init, tell
from ddopg.core.incumbents import _return_of_newest, choose_incumbent
from ddopg.core.memory import Memory
from ddopg.core.param_scaling import param_scale
from ddopg.core.policy_update import Improvement, find_best_stored, improve
from ddopg.core.selection import Selection
from ddopg.core.state import Incumbent, Proposal, count_of_search, indices_of_critic, indices_of_search
from ddopg.core.surrogate import log_weights, objective_value, stored_returns
from ddopg.core.surrogate_data import Sample
from ddopg.core.types import Estimate, make_trajectory
from ddopg.errors import TrajectoryError
from ddopg.policies import linear, squashed
from ddopg.rollouts.playing import rollout
from ddopg.support.records import change
from tests.probes import Follow, Target

POLICY = linear(1, 1)


def quick(name, **changes):
    config = preset(name)
    search = dataclasses.replace(config.search, steps=40)
    keep = min(config.selection.keep_last, 8)
    selection = dataclasses.replace(config.selection, size=8, keep_last=keep)
    return dataclasses.replace(config, search=search, selection=selection, **changes)


def play(env, state, config, rollouts, policy=POLICY):
    infos, cache = [], None
    while len(infos) < rollouts:
        state, proposals = ask(state, policy, config)
        for proposal in proposals:
            trajectory = rollout(env, policy, proposal.theta, proposal.seed)
            state, info, cache = tell(state, proposal, trajectory, policy, config, cache)
            infos.append(info)
    return state, infos


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def assert_same(one, two):
    a, b = leaves(one), leaves(two)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", PRESETS)
class TestEveryPreset:
    def test_the_same_seed_gives_the_same_run_bit_for_bit(self, name):
        config = quick(name)
        runs = [play(Follow(), init(POLICY, config, 3), config, 10) for _ in range(2)]
        assert_same(runs[0][0], runs[1][0])
        assert [repr(i) for i in runs[0][1]] == [repr(i) for i in runs[1][1]]

    def test_another_seed_gives_another_run(self, name):
        config = quick(name)
        thetas = [play(Follow(), init(POLICY, config, seed), config, 7)[0].centre for seed in (3, 4)]
        assert not np.allclose(*thetas)

    def test_tell_leaves_its_arguments_alone(self, name):
        config = quick(name)
        state, _ = play(Follow(), init(POLICY, config, 3), config, 7)
        asked, (proposal,) = ask(state, POLICY, config)
        trajectory = rollout(Follow(), POLICY, proposal.theta, proposal.seed)
        before = [leaf.copy() for leaf in leaves((asked, trajectory))]
        first, _, _ = tell(asked, proposal, trajectory, POLICY, config)
        for old, new in zip(before, leaves((asked, trajectory)), strict=True):
            np.testing.assert_array_equal(old, new)
        assert_same(first, tell(asked, proposal, trajectory, POLICY, config)[0])

    def test_every_rollout_replays_from_its_seed(self, name):
        config = quick(name)
        state, _ = play(Follow(), init(POLICY, config, 3), config, 8)
        for kept in state.memory.trajectories:
            again = rollout(Follow(), POLICY, kept.theta, kept.seed)
            for a, b in zip(kept, again, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_every_step_is_counted(self, name):
        config = quick(name)
        state, infos = play(Target(length=3), init(POLICY, config, 0), config, 9)
        assert state.steps == 27 == infos[-1].steps
        assert [info.rollout for info in infos] == list(range(1, 10))


def test_the_incumbent_of_the_released_code_is_the_best_single_rollout():
    config = quick("released")
    state, infos = play(Follow(), init(POLICY, config, 5), config, 15)
    best = int(np.argmax(state.memory.returns))
    np.testing.assert_array_equal(state.incumbent.theta, state.memory.trajectories[best].theta)
    assert [info.incumbent for info in infos] == np.maximum.accumulate(state.memory.returns).tolist()


def test_the_initial_design_comes_first_and_one_proposal_afterwards():
    config = quick("paper")
    state, first = ask(init(POLICY, config, 0), POLICY, config)
    assert len(first) == 5
    assert len({p.theta.tobytes() for p in first}) == 5
    assert len({p.seed for p in first}) == 5
    state, later = play(Target(), init(POLICY, config, 0), config, 5)
    assert [info.outcome for info in later[:4]] == ["initial_design"] * 4
    assert later[4].outcome != "initial_design"
    assert len(ask(state, POLICY, config)[1]) == 1
    assert [p.number for p in ask(state, POLICY, config, 3)[1]] == [5, 6, 7]


def test_the_design_can_be_asked_for_in_parts():
    config = quick("paper")
    state = init(POLICY, config, 0)
    whole = ask(state, POLICY, config)[1]
    state, two = ask(state, POLICY, config, 2)
    state, rest = ask(state, POLICY, config)
    for a, b in zip(whole, (*two, *rest), strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        assert (a.number, a.seed) == (b.number, b.seed)


def test_the_design_scatters_around_the_initial_policy_with_the_given_spread():
    config = Config(design=dataclasses.replace(Config().design, policies=2000, spread=0.3))
    state = init(POLICY, config, 0)
    scatter = np.stack([p.theta for p in ask(state, POLICY, config)[1]]) - state.centre
    np.testing.assert_allclose(scatter.std(0), 0.3, rtol=0.08)


def test_the_search_starts_from_the_best_of_the_design():
    config = quick("released")
    config = dataclasses.replace(config, search=dataclasses.replace(config.search, learning_rate=1e-12))
    state, _ = play(Target(), init(POLICY, config, 1), config, 5)
    best = int(np.argmax(state.memory.returns))
    np.testing.assert_allclose(state.centre, state.memory.trajectories[best].theta, atol=1e-6)


SELECTING = change(  # one configuration for all of these tests: each other one would be compiled anew
    quick("released"),
    {
        "search.start": "selected",
        "search.learning_rate": 1e-12,
        "incumbent.rule": "estimate",
        "selection.temperature": 1e9,
        "surrogate.length_scale": (1.0,),
    },
)


class TestStartOfTheSearch:
    """`search.start = "selected"`: a search starts at the policy of one of the selected trajectories."""

    def start_at(self, state, seed):
        """Where the search starts, and the policies that were selected."""
        found = algorithm.build_surrogate_data(state._replace(seed=seed), POLICY, SELECTING)
        selection = found.sample.selection
        return (
            found.start,
            np.stack([state.memory.trajectories[i].theta for i in selection.indices]),
            selection,
        )

    def test_it_is_the_policy_of_a_selected_trajectory(self):
        state, _ = play(Follow(), init(POLICY, SELECTING, 1), SELECTING, 20)
        starts = set()
        for seed in range(30):
            start, selected, _ = self.start_at(state, seed)
            assert (selected == start).all(axis=1).any()
            starts.add(start.tobytes())
        assert len(starts) > 1, "not always the same"

    def test_one_that_was_drawn_three_times_is_three_times_as_likely(self):
        selection = Selection(np.array([1, 2]), np.array([1, 3]))
        state, _ = play(Follow(), init(POLICY, SELECTING, 1), SELECTING, 6)
        later = state.memory.trajectories[2].theta
        starts = [algorithm._choose_start(state._replace(seed=k), selection, SELECTING) for k in range(400)]
        assert np.mean([np.array_equal(start, later) for start in starts]) == pytest.approx(0.75, abs=0.06)

    def test_the_search_goes_on_from_there(self):
        state, _ = play(Follow(), init(POLICY, SELECTING, 1), SELECTING, 20)
        thetas = np.stack([t.theta for t in state.memory.trajectories])
        assert np.abs(thetas - state.centre).sum(axis=1).min() < 1e-5

    def test_by_default_a_search_starts_where_the_last_one_ended(self):
        config = quick("released")
        state, _ = play(Follow(), init(POLICY, config, 1), config, 9)
        assert algorithm.build_surrogate_data(state, POLICY, config).start is state.centre


class TestIncumbentByEstimate:
    """`incumbent.rule = "estimate"`: the stored policy of the highest search objective."""

    def learn(self, rewards, gains):
        """Tell rollouts of policies with these gains and returns; the observations are 1."""
        config = SELECTING
        state = init(POLICY, config, 0)
        for gain, reward in zip(gains, rewards, strict=True):
            state, (proposal, *_) = ask(state, POLICY, config, 1)
            pending = (*state.pending[:-1], proposal._replace(theta=np.array([gain, 0], np.float32)))
            action = np.full((1, 1), gain)
            told = make_trajectory(pending[-1].theta, np.ones((1, 1)), action, [reward], horizon=1)
            state, info, _ = tell(state._replace(pending=pending), pending[-1], told, POLICY, config)
        return state, info

    def test_a_lucky_rollout_among_poor_neighbours_is_not_handed_over(self):
        gains, rewards = [0.0, 0.01, 0.02, 90.0, 90.01, 90.02], [10.0, 0.0, 0.0, 6.0, 6.0, 6.0]
        state, info = self.learn(rewards, gains)
        assert state.memory.returns.argmax() == 0
        assert state.incumbent.theta[0] >= 90
        assert state.incumbent.value == pytest.approx(6, abs=0.01) == info.incumbent

    def test_it_is_kept_unless_the_same_data_say_that_another_is_better(self):
        gains, rewards = [0.0, 0.01, 50.0, 90.0, 90.01], [1.0, 1.0, 0.0, 6.0, 6.0]
        before, _ = self.learn(rewards, gains)
        worse, _ = self.learn([*rewards, 5.0], [*gains, 20.0])
        np.testing.assert_array_equal(before.incumbent.theta, worse.incumbent.theta)
        better, _ = self.learn([*rewards, 9.0, 9.0], [*gains, 20.0, 20.01])
        assert 20 <= better.incumbent.theta[0] < 21

    def test_the_objective_of_a_stored_policy_is_that_of_the_search(self):
        config = SELECTING
        state, _ = play(Follow(), init(POLICY, config, 3), config, 6)
        surrogate = algorithm.build_surrogate_data(state, POLICY, config)
        data, scale, settings = surrogate.data, jnp.float32(2.0), config.surrogate
        stored = stored_returns(data, settings)

        def value(theta):
            log_w = log_weights(POLICY, theta, data, settings)
            return float(objective_value(log_w, data, scale, jnp.max(stored), settings))

        chosen = [state.memory.trajectories[i].theta for i in surrogate.sample.selection.indices]
        values = [value(theta) for theta in chosen]
        here = log_weights(POLICY, state.centre, data, settings)
        index, better = find_best_stored(here, stored, scale, data, settings)
        assert index == np.argmax(values)
        assert bool(better) == (max(values) > value(state.centre))


def test_tells_in_another_order_and_late_are_taken():
    config = quick("paper")
    state, proposals = ask(init(POLICY, config, 0), POLICY, config)
    for proposal in reversed(proposals):
        trajectory = rollout(Target(), POLICY, proposal.theta, proposal.seed)
        state, _, _ = tell(state, proposal, trajectory, POLICY, config)
    assert state.memory.size == 5
    assert state.pending == ()


def test_a_proposal_is_told_once():
    config = quick("paper")
    state, (proposal, *_) = ask(init(POLICY, config, 0), POLICY, config)
    trajectory = rollout(Target(), POLICY, proposal.theta, proposal.seed)
    told, _, _ = tell(state, proposal, trajectory, POLICY, config)
    with pytest.raises(TrajectoryError, match=r"proposal 0 is not waiting.*waiting: 1, 2, 3, 4\. Each"):
        tell(told, proposal, trajectory, POLICY, config)


def test_the_return_bound_is_renewed_only_after_enough_growth():
    sticky, eager = preset("released"), preset("paper")
    state = init(POLICY, sticky, 0)._replace(return_bound=100.0)

    def bound(largest, config):
        memory = state.memory._replace(returns=(5.0, -largest))
        return algorithm._refresh_bound(state._replace(memory=memory), config)

    assert bound(109.0, sticky) == 100.0
    assert bound(111.0, sticky) == 111.0
    assert bound(101.0, eager) == 101.0
    assert algorithm._refresh_bound(
        state._replace(return_bound=0.0, memory=state.memory._replace(returns=(0.0, 0.0))), eager
    ) == 1.0  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("reward", [0.0, 1.0, 1e15, -1e15, 1e-15])
def test_equal_returns_of_any_size_do_not_stop_the_learner(name, reward):
    config = quick(name)
    state, outcomes = init(POLICY, config, 0), []
    while len(outcomes) < 4:
        state, proposals = ask(state, POLICY, config)
        for proposal in proposals:
            trajectory = rollout(Target(), POLICY, proposal.theta, proposal.seed)
            same = trajectory._replace(rewards=np.where(np.arange(3) == 0, reward, 0.0))
            state, info, _ = tell(state, proposal, same, POLICY, config)
            if info.outcome not in ("initial_design", "not_searched"):
                outcomes.append(info.outcome)
    assert np.isfinite(state.centre).all()
    assert set(outcomes) <= {"converged", "step_limit"}


def test_the_optimiser_state_is_carried_only_where_the_configuration_says_so():
    carried, _ = play(Target(), init(POLICY, quick("released"), 0), quick("released"), 6)
    fresh, _ = play(Target(), init(POLICY, quick("paper"), 0), quick("paper"), 6)
    assert carried.opt_state is not None
    assert fresh.opt_state is None


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "momentum", "sghmc"])
def test_a_gain_is_learnt_with_every_optimiser(optimiser):
    config = quick("released")
    search = dataclasses.replace(
        config.search, optimiser=optimiser, steps=200, sghmc_temperature=1e-6, tolerance=1e-5
    )
    surrogate = dataclasses.replace(config.surrogate, length_scale=(0.5,))
    config = dataclasses.replace(config, search=search, surrogate=surrogate)
    state, infos = play(Follow(), init(POLICY, config, 2), config, 40)
    assert max(info.return_ for info in infos[5:]) > max(info.return_ for info in infos[:5])
    assert state.incumbent.value > -0.2


# --- the moving centre of the default -------------------------------------------------------------------


DEFAULT = preset("trajectory")
UNCHECKED = dataclasses.replace(DEFAULT, incumbent=dataclasses.replace(DEFAULT.incumbent, recheck_share=0.0))
SQUASHED = squashed(linear(1, 1), (-2.0,), (2.0,))


def surrogate_of(state, newest):
    """A sample whose only trajectory is the newest one, and data with that return."""
    selection = Selection(np.array([state.memory.size - 1]), np.ones(1, int))
    return Sample(selection, None, 1.0), SimpleNamespace(rewards=np.array([[newest]]))


def default_play(env, seed, rollouts, config=DEFAULT):
    return play(env, init(SQUASHED, config, seed), config, rollouts, SQUASHED)


SGHMC = {"search.optimiser": "sghmc", "search.sghmc_temperature": 1e-4, "search.learning_rate": 0.02}
SHARED = [
    ({"surrogate.objective": "expected_improvement"}, {"surrogate.decisions": 0}),
    ({"surrogate.objective": "probability_of_improvement"}, {"surrogate.initial_state_correction": False}),
    ({"surrogate.objective": "upper_confidence"}, {"surrogate.objective_scale": "bound"}),
    ({"surrogate.objective": "lower_confidence"}, {"surrogate.weight_cap": 1.0}),
    ({"surrogate.objective": "lower_bound"}, SGHMC),
]
"""Changes of the default that share a run: each new configuration is compiled, which takes longer than it runs."""

OPEN_QUESTIONS = [
    *(one | other for one, other in SHARED),
    {"surrogate.estimator": "importance_sampling"},
    {"surrogate.estimator": "baselined"},
    {"surrogate.estimator": "gradient_baselined"},
    {"search.fisher_damping": 0.1, "search.optimiser": "momentum"},
    {"selection.rule": "softmax"},
    {"selection.rule": "rank", "selection.replacement": False},
    {"selection.rule": "best"},
    {"selection.rule": "uniform", "selection.replacement": False},
    *(pytest.param(changes, marks=pytest.mark.slow) for pair in SHARED for changes in pair),
]


class TestDefault:
    def test_constants_come_first_then_random_policies_then_one_at_a_time(self):
        state = init(SQUASHED, DEFAULT, 0)
        sizes = []
        while state.memory.size < 12:
            state, proposals = ask(state, SQUASHED, DEFAULT)
            sizes.append(len(proposals))
            for p in proposals:
                assert (p.theta[0] == 0) == (p.number < DEFAULT.design.constants)
                trajectory = rollout(Follow(), SQUASHED, p.theta, p.seed)
                state, _, _ = tell(state, p, trajectory, SQUASHED, DEFAULT)
        design = DEFAULT.design
        assert sizes[:2] == [design.constants, design.policies - design.constants]
        assert set(sizes[2:]) == {1}

    def test_proposals_scatter_around_the_centre(self):
        state, _ = default_play(Follow(), 0, 12)
        calm = dataclasses.replace(DEFAULT, exploration=dataclasses.replace(DEFAULT.exploration, random=0.0))
        _, proposals = ask(state, SQUASHED, calm, 400)
        unit = param_scale(state.param_sensitivity)
        scatter = (np.stack([p.theta for p in proposals]) - state.centre) / unit
        expected = DEFAULT.exploration.noise / np.sqrt(2)  # two parameters share the output
        np.testing.assert_allclose(scatter.std(0), expected, rtol=0.12)
        np.testing.assert_allclose(scatter.mean(0), 0, atol=0.2)

    @pytest.mark.parametrize(
        ("design", "lately", "share"),
        [
            (3, 3, 0.1),  # as long as ever: 3/30 of the rollouts
            (1, 3, 0.25),  # a third as long: 0.25 · 1 / (0.25 · 1 + 0.75 · 3) = 0.1 of the steps
            (3, 1, 0.1),  # three times as long: not fewer for that
            (1, 300, 0.5),  # never more than half of the rollouts
        ],
    )
    def test_random_policies_get_their_share_of_the_rollouts_or_of_the_steps(self, design, lately, share):
        def path(length):
            return make_trajectory(
                np.zeros(2), np.ones((length, 1)), np.ones((length, 1)), np.ones(length), horizon=300
            )

        paths = [path(design)] * 8 + [path(7)] * 10 + [path(lately)] * 20
        state = init(SQUASHED, DEFAULT, 0)._replace(
            param_sensitivity=np.ones(2, np.float32), asked=30, steps=300
        )
        returns, purposes = np.zeros(len(paths)), ("explore",) * len(paths)
        state = state._replace(memory=Memory(tuple(paths), returns, 300, purposes))
        state = state._replace(centre=1000 * np.ones(2, np.float32))
        assert proposals._random_share(state, 30, DEFAULT) == pytest.approx(share)
        asked = [ask(state._replace(seed=seed), SQUASHED, DEFAULT, 1)[1][0] for seed in range(1500)]
        random = [np.abs(p.theta).max() < 500 for p in asked]
        assert random == [p.purpose == "random" for p in asked]
        assert np.mean(random) == pytest.approx(share, rel=0.25)

    def test_ever_fewer_proposals_are_random(self):
        state, _ = default_play(Target(), 0, 12)
        shares = [proposals._random_share(state, k, DEFAULT) for k in (1, 12, 30, 300)]
        np.testing.assert_allclose(shares, [0.5, 0.25, 0.1, 0.01])
        never = dataclasses.replace(DEFAULT, exploration=dataclasses.replace(DEFAULT.exploration, random=0.0))
        assert proposals._random_share(state, 12, never) == 0
        assert proposals._random_share(init(SQUASHED, DEFAULT, 0), 12, DEFAULT) == 0.25

    def test_a_move_of_the_centre_is_bounded_in_units_of_effect(self):
        settled = dataclasses.replace(DEFAULT, restart=RestartConfig(0.0))
        state, _ = default_play(Follow(), 1, 10, settled)
        for _ in range(5):
            before = state.centre
            state, (proposal,) = ask(state, SQUASHED, settled)
            trajectory = rollout(Follow(), SQUASHED, proposal.theta, proposal.seed)
            state, _, _ = tell(state, proposal, trajectory, SQUASHED, settled)
            moved = np.linalg.norm((state.centre - before) / param_scale(state.param_sensitivity))
            assert 0 < moved <= settled.search.radius * 1.001

    def test_the_centre_jumps_to_a_stored_policy_that_is_clearly_better(self):
        state, _ = default_play(Follow(), 2, 12)
        lost = state._replace(centre=state.centre + 8 * param_scale(state.param_sensitivity))
        lost, (proposal,) = ask(lost, SQUASHED, DEFAULT)
        trajectory = rollout(Follow(), SQUASHED, proposal.theta, proposal.seed)
        found, _, _ = tell(lost, proposal, trajectory, SQUASHED, DEFAULT)
        stored = np.stack([t.theta for t in found.memory.trajectories])
        distance = np.linalg.norm(
            (stored - found.centre) / param_scale(found.param_sensitivity), axis=1
        ).min()
        assert distance <= DEFAULT.search.radius * 1.001

    def test_the_incumbent_is_the_running_average_of_the_centre_since_the_last_jump(self):
        settled = dataclasses.replace(DEFAULT, restart=RestartConfig(1e9))
        state, _ = default_play(Follow(), 1, 8, settled)
        average = state.centre  # the design ends with a jump
        np.testing.assert_allclose(state.incumbent.theta, average, rtol=1e-6)
        for _ in range(4):
            state, (proposal,) = ask(state, SQUASHED, settled)
            trajectory = rollout(Follow(), SQUASHED, proposal.theta, proposal.seed)
            state, info, _ = tell(state, proposal, trajectory, SQUASHED, settled)
            average = average + settled.incumbent.ema_rate * (state.centre - average)
            np.testing.assert_allclose(state.incumbent.theta, average, rtol=1e-4)
            assert info.incumbent == state.incumbent.value

    def test_the_incumbents_error_belongs_to_the_estimate_that_is_its_value(self, monkeypatch):
        found = []
        monkeypatch.setattr(algorithm, "improve", lambda *given: found.append(improve(*given)) or found[-1])
        _, infos = default_play(Follow(), 1, 70)
        assert all(np.isnan(info.incumbent_error) for info in infos[:7])
        sources = set()
        for info, each in zip(infos[7:], found, strict=True):
            estimates = {"average": each.at_ema, "incumbent": each.at_incumbent}
            errors = {
                float(e.standard_error): name
                for name, e in estimates.items()
                if float(e.mean) == info.incumbent
            }
            sources.add(errors[info.incumbent_error])
        assert sources == {"average", "incumbent"}

    def test_the_search_cools_with_episodes_worth_of_steps(self):
        state, _ = default_play(Follow(), 1, 9)
        horizon = state.memory.trajectories[0].horizon
        assert [proposals.anneal_factor(state._replace(steps=n * horizon), DEFAULT) for n in (1, 12, 48)] == [
            1,
            1,
            0.25,
        ]
        hot = dataclasses.replace(UNCHECKED, annealing=AnnealingConfig(0.0))
        assert proposals.anneal_factor(state._replace(steps=10**6), hot) == 1

    def test_a_cold_search_perturbs_and_moves_by_less(self):
        still = dataclasses.replace(DEFAULT.search, radius=0.05)
        noise = dataclasses.replace(DEFAULT.exploration, random=0.0)
        calm = dataclasses.replace(UNCHECKED, exploration=noise, restart=RestartConfig(0.0), search=still)
        state, _ = default_play(Follow(), 1, 12, calm)
        cold = state._replace(steps=48 * state.memory.trajectories[0].horizon)

        def scatter(state):
            return np.stack([p.theta for p in ask(state, SQUASHED, calm, 50)[1]]) - state.centre

        np.testing.assert_allclose(scatter(cold), scatter(state) / 2, rtol=1e-3, atol=1e-5)
        steps = []
        for begin in (state, cold):
            begin = begin._replace(
                centre=begin.centre + 2 * param_scale(begin.param_sensitivity)
            )  # much to gain
            asked, (proposal,) = ask(begin, SQUASHED, calm)
            trajectory = rollout(Follow(), SQUASHED, proposal.theta, proposal.seed)
            moved, _, _ = tell(asked, proposal, trajectory, SQUASHED, calm)
            steps.append(np.linalg.norm((moved.centre - begin.centre) / param_scale(moved.param_sensitivity)))
        np.testing.assert_allclose(steps, [0.05, 0.025], rtol=0.05)

    def test_without_anything_to_gain_the_decay_draws_the_gains_down(self):
        class Indifferent(Follow):
            def step(self, action):
                observation, _, *rest = super().step(action)
                return observation, 1.0, *rest

        def drift(penalty):
            search = dataclasses.replace(DEFAULT.search, saturation_penalty=penalty)
            surrogate = dataclasses.replace(DEFAULT.surrogate, penalty=0.0)
            config = dataclasses.replace(
                DEFAULT, search=search, surrogate=surrogate, restart=RestartConfig(0.0)
            )
            state, _ = default_play(Indifferent(), 1, 9, config)
            state = state._replace(centre=3 * param_scale(state.param_sensitivity))
            before = np.linalg.norm(state.centre)
            state, (proposal,) = ask(state, SQUASHED, config)
            trajectory = rollout(Indifferent(), SQUASHED, proposal.theta, proposal.seed)
            state, _, _ = tell(state, proposal, trajectory, SQUASHED, config)
            return np.linalg.norm(state.centre) - before

        assert drift(0.5) < -0.2 < drift(0.0)

    @staticmethod
    def guarded(value=-1.0, better=-1.0, spread=0.5, error=0.2):
        """A cold state, and a finding: beliefs about the incumbent and the average."""
        state, _ = default_play(Follow(), 1, 9)
        state = state._replace(
            steps=1000 * state.memory.trajectories[0].horizon,
            incumbent=Incumbent(np.array([9.0, 9.0], np.float32), value),
        )
        estimates = [
            Estimate(m, np.float32(4 * error**2), np.float32(4), None, m, None) for m in (better, value)
        ]
        return state, Improvement(None, None, np.array([1.0, 1.0]), *estimates, np.float32(spread))

    @pytest.mark.parametrize(("newest", "taken"), [(-1.4, True), (-1.6, False)])
    def test_a_re_checked_policy_is_handed_over_unless_it_disappoints(self, newest, taken):
        state, found = self.guarded()
        checked = Proposal(9, np.array([2.0, 2.0], np.float32), 0, "check")
        after = choose_incumbent(state, checked, *surrogate_of(state, newest), found, DEFAULT)
        np.testing.assert_array_equal(after.theta, [2.0, 2.0] if taken else [9.0, 9.0])
        explored = choose_incumbent(
            state, checked._replace(purpose="explore"), *surrogate_of(state, newest), found, DEFAULT
        )
        np.testing.assert_array_equal(explored.theta, [9.0, 9.0])

    @pytest.mark.parametrize(("better", "taken"), [(-0.75, True), (-0.85, False)])
    def test_an_average_that_is_better_by_a_standard_error_needs_no_re_check(self, better, taken):
        state, found = self.guarded(better=better)
        explored = Proposal(9, np.zeros(2, np.float32), 0, "explore")
        after = choose_incumbent(state, explored, *surrogate_of(state, -9.0), found, DEFAULT)
        np.testing.assert_array_equal(after.theta, [1.0, 1.0] if taken else [9.0, 9.0])

    def test_while_the_search_is_warm_or_without_re_checks_the_average_is_handed_over(self):
        state, found = self.guarded(better=-5.0)
        explored = Proposal(9, np.zeros(2, np.float32), 0, "explore")
        for situation, config in ((state._replace(steps=1), DEFAULT), (state, UNCHECKED)):
            after = choose_incumbent(situation, explored, *surrogate_of(situation, -9.0), found, config)
            np.testing.assert_array_equal(after.theta, [1.0, 1.0])

    def test_re_checks_roll_out_the_average_and_are_counted(self):
        state, _ = default_play(Follow(), 1, 60)
        state = state._replace(steps=1000 * state.memory.trajectories[0].horizon)
        _, proposals = ask(state, SQUASHED, DEFAULT, 300)
        checks = [p for p in proposals if p.purpose == "check"]
        assert len(checks) / 300 == pytest.approx(DEFAULT.incumbent.recheck_share, abs=0.06)
        for p in checks:
            np.testing.assert_array_equal(p.theta, state.ema_params)
        state, _ = ask(state, SQUASHED, DEFAULT, 300)
        trajectory = rollout(Follow(), SQUASHED, checks[0].theta, checks[0].seed)
        after, _, _ = tell(state, checks[0], trajectory, SQUASHED, DEFAULT)
        assert after.steps == state.steps + trajectory.length

    def test_the_return_of_a_re_check_is_that_of_the_data(self):
        """Where the data hold the newest rollout, its return comes without the effect of the start."""
        state, _ = default_play(Follow(), 1, 12)
        data = SimpleNamespace(rewards=np.array([[4.0, 1.0], [2.0, 4.0], [7.0, 0.0]]))

        def newest(indices, reward_scale=1.0):
            sample = Sample(Selection(np.array(indices), np.ones(3, int)), None, reward_scale)
            return _return_of_newest(state, sample, data)

        assert newest([3, 11, 10]) == 6.0
        assert newest([3, 9, 10]) == state.memory.returns[-1]
        assert newest([3, 9, 10], reward_scale=2.0) == state.memory.returns[-1] / 2

    def test_it_learns_a_gain(self):
        state, _ = default_play(Follow(), 3, 60)
        answers = [
            SQUASHED.act(state.incumbent.theta, np.array([o], np.float32))[0] for o in (-0.5, 0.0, 0.5)
        ]
        np.testing.assert_allclose(answers, [0.5, 0.0, -0.5], atol=0.2)

    @pytest.mark.parametrize("damping", [0.0, 0.1])
    @pytest.mark.parametrize("factor", [1e-3, 1e3])
    def test_the_scale_of_the_observations_does_not_matter(self, factor, damping):
        """Scaled observations give the same actions, rollout by rollout, up to float32."""
        config = dataclasses.replace(
            DEFAULT,
            search=dataclasses.replace(
                DEFAULT.search, fisher_damping=damping, optimiser="sgd" if damping else "adam"
            ),
        )

        class Scaled(Follow):
            def reset(self, **options):
                observation, info = super().reset(**options)
                return factor * observation, info

            def step(self, action):
                observation, *rest = super().step(action)
                return factor * observation, *rest

        plain, scaled = (default_play(env, 4, 14, config)[0] for env in (Follow(), Scaled()))
        for a, b in zip(plain.memory.trajectories, scaled.memory.trajectories, strict=True):
            np.testing.assert_allclose(b.actions, a.actions, atol=2e-2)

    def test_the_scale_and_the_zero_of_the_reward_do_not_matter(self):
        class Paid(Follow):
            def step(self, action):
                observation, reward, *rest = super().step(action)
                return observation, 1e3 * reward + 7.0, *rest

        plain, paid = (default_play(env, 4, 14)[0] for env in (Follow(), Paid()))
        for a, b in zip(plain.memory.trajectories, paid.memory.trajectories, strict=True):
            np.testing.assert_allclose(b.actions, a.actions, atol=2e-2)

    @pytest.mark.parametrize("changes", OPEN_QUESTIONS, ids=lambda c: "-".join(map(str, c.values())))
    def test_every_open_question_of_the_paper_plugs_into_the_same_loop_and_learns(self, changes):
        chosen = change(DEFAULT, changes)
        state, infos = default_play(Follow(), 3, 40, chosen)
        assert np.isfinite(state.centre).all()
        assert {info.outcome for info in infos[8:]} <= {"converged", "step_limit"}
        answers = [SQUASHED.act(state.incumbent.theta, np.array([o], np.float32))[0] for o in (-0.5, 0.5)]
        assert answers[0] - answers[1] > 0.3  # a gain of the right sign


def test_the_rollouts_of_the_search_are_counted_and_found_among_the_critics():
    purposes = ("design", "critic", "explore", "noisy", "noisy", "check")
    path = make_trajectory([0.0], [[0.0]], [[0.0]], [0.0], horizon=1)
    memory = Memory((path,) * 6, np.zeros(6), 1, purposes)
    assert count_of_search(memory) == 3
    assert indices_of_search(memory).tolist() == [0, 2, 5]
    assert indices_of_critic(memory).tolist() == [1, 3, 4]
    assert indices_of_search(Memory()).tolist() == []
