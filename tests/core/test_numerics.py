"""Numbers that cannot poison: whatever finite data come, the learner goes on, and says what was odd."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddopg
from ddopg.config import PRESETS
from ddopg.core.algorithm import ask, init, tell
from ddopg.core.memory import add
from ddopg.core.state import is_of_search
from ddopg.core.types import make_trajectory
from ddopg.errors import TrajectoryError
from ddopg.policies import linear, squashed
from ddopg.support.records import change
from tests.probes import Follow
from tests.recorded import contents, quick

POLICY = squashed(linear(1, 1), (-2.0,), (2.0,))
HORIZON = 3


def play(config, rewards, rollouts=12, horizon=HORIZON, readings=1.0, theta=None):
    """Tell rollouts whose rewards `rewards(k, rng)` invents; θ can be forced on all proposals."""
    rng, state, infos = np.random.default_rng(0), init(POLICY, config, 0), []
    cache = None
    while sum(map(is_of_search, state.memory.purposes)) < rollouts:
        state, proposals = ask(state, POLICY, config)
        for proposal in proposals:
            proposal = proposal if theta is None else proposal._replace(theta=theta)
            observations = (readings * rng.standard_normal((horizon, 1))).astype(np.float32)
            with np.errstate(over="ignore"):
                actions = POLICY.act(proposal.theta, observations)
            paid = rewards(state.memory.size, rng) * np.ones(horizon)
            trajectory = make_trajectory(proposal.theta, observations, actions, paid, horizon=horizon)
            state, info, cache = tell(state, proposal, trajectory, POLICY, config, cache)
            if info.outcome != "not_searched":
                infos.append(info)
    return state, infos


def assert_sound(state, infos):
    for array in (state.centre, state.ema_params, state.incumbent.theta):
        assert np.isfinite(array).all()
    assert np.isfinite(state.incumbent.value)
    assert not np.isnan(state.param_sensitivity).any()
    for info in infos[-3:]:
        assert np.isfinite([info.incumbent, info.predicted, info.lower_bound, info.ess]).all()
        assert info.outcome in ("converged", "step_limit")


@pytest.mark.parametrize("name", PRESETS)
class TestEveryPreset:
    @settings(max_examples=25)
    @given(
        exponents=st.lists(st.floats(-320, 300), min_size=1, max_size=4),
        signs=st.sampled_from([(1,), (-1,), (1, -1), (0, 1), (0,)]),
        readings=st.sampled_from([1.0, 1e-30, 1e15, 1e30]),
    )
    def test_rewards_of_any_size_leave_it_sound(self, name, exponents, signs, readings):
        def rewards(k, rng):
            return signs[k % len(signs)] * 10.0 ** exponents[k % len(exponents)]

        assert_sound(*play(quick(name), rewards, readings=readings))

    @pytest.mark.parametrize("scale", [1e30, 1e-30, 1e300, 1e-300])
    def test_it_says_in_which_unit_it_measures(self, name, scale):
        state, infos = play(quick(name), lambda k, rng: scale * rng.standard_normal())
        assert_sound(state, infos)
        assert "returns are measured in units of 2^" in infos[-1].remark

    @pytest.mark.parametrize("reward", [0.0, 7.0, -1e30])
    def test_equal_returns_are_said(self, name, reward):
        state, infos = play(quick(name), lambda k, rng: reward)
        assert_sound(state, infos)
        assert "all returns are equal, none is preferred" in infos[-1].remark

    def test_ordinary_data_need_no_remark(self, name):
        _, infos = play(quick(name), lambda k, rng: rng.standard_normal())
        assert {info.remark for info in infos} == {""}

    def test_a_single_trajectory_leads_until_there_are_more(self, name):
        state, (first, *_) = ask(init(POLICY, quick(name), 0), POLICY, quick(name))
        trajectory = make_trajectory(first.theta, np.ones((3, 1)), np.ones((3, 1)), -np.ones(3), horizon=3)
        state, info, _ = tell(state, first, trajectory, POLICY, quick(name))
        np.testing.assert_array_equal(state.centre, first.theta)
        assert (info.incumbent, info.outcome, info.remark) == (-3.0, "initial_design", "")

    def test_thousands_of_the_same_policy_are_borne(self, name):
        config, theta = quick(name), np.array([0.3, 0.1], np.float32)
        state, _ = play(config, lambda k, rng: rng.standard_normal(), rollouts=8, theta=theta)
        memory, one = state.memory, state.memory.trajectories[0]
        for k in range(3000):
            memory = add(memory, one._replace(rewards=np.full(HORIZON, float(k % 7))))
        state = state._replace(memory=memory, steps=sum(t.length for t in memory.trajectories))
        infos = []
        while len(infos) < 3:
            state, proposals = ask(state, POLICY, config)
            same = proposals[0]._replace(theta=theta)
            state, info, _ = tell(state, same, one, POLICY, config)
            if info.outcome != "not_searched":
                infos.append(info)
        assert_sound(state, infos)
        assert "all policies are the same" in infos[-1].remark


@pytest.mark.parametrize(
    "name", ["trajectory", *(pytest.param(n, marks=pytest.mark.slow) for n in PRESETS if n != "trajectory")]
)
def test_episodes_of_one_step_are_learnt_from(name):
    assert_sound(*play(quick(name), lambda k, rng: rng.standard_normal(), horizon=1))


def test_the_unit_of_the_rewards_does_not_change_what_is_learnt():
    """A unit 2^100 times smaller: the same policies to the last bit, and a believed return 2^100 times as large."""
    one, big = (
        play(quick("trajectory"), lambda k, rng, s=scale: s * rng.standard_normal(), rollouts=20)[0]
        for scale in (2.0**60, 2.0**160)
    )
    assert one.centre.tobytes() == big.centre.tobytes()
    assert one.incumbent.theta.tobytes() == big.incumbent.theta.tobytes()
    assert big.incumbent.value == 2.0**100 * one.incumbent.value


def test_a_surrogate_of_a_single_trajectory_is_said():
    """Drawn with replacement, one return that stands out is drawn every time."""
    selection = dataclasses.replace(quick("paper").selection, temperature=1e-3, keep_last=0)
    config = dataclasses.replace(quick("paper"), selection=selection)
    state, infos = play(config, lambda k, rng: float(k == 0))
    assert_sound(state, infos)
    assert infos[-1].remark == "a single trajectory"


def test_an_objective_that_is_not_finite_leaves_the_policy_where_it_is_and_is_said():
    changes = {"surrogate.length_scale": (1e-30,), "search.start": "last", "incumbent.rule": "rollout"}
    state, infos = play(change(quick("paper"), changes), lambda k, rng: rng.standard_normal())
    assert infos[-1].outcome == "not_finite"
    assert infos[-1].remark.endswith("the objective was not finite, the policy stays")
    assert np.isfinite(state.centre).all()
    assert np.isfinite(state.incumbent.theta).all()
    assert state.incumbent.value == max(state.memory.returns)


def test_readings_too_large_for_their_square_are_left_alone_and_the_run_can_be_resumed(tmp_path):
    class Huge(Follow):
        def __init__(self):
            super().__init__()
            self.observation_space.high[:] = 1e35
            self.observation_space.low[:] = -1e35

        def _see(self):
            return 1e20 * super()._see()

        def step(self, action):
            observation, _, *rest = super().step(np.zeros(1))
            return observation, -float(action[0] ** 2), *rest

    agent = ddopg.DDOPG(Huge(), config=quick(), run_directory=tmp_path / "run")
    agent.learn(total_episodes=10)
    agent.close()
    assert np.isinf(agent.state.param_sensitivity).any()
    again = ddopg.DDOPG.resume(tmp_path / "run", env=Huge())
    assert contents(again.state) == contents(agent.state)
    assert "readings beyond 1e19 have no unit, their gains stay" in again.store.log()[-1]["remark"]


def test_a_return_that_overflows_is_refused():
    state, (proposal, *_) = ask(init(POLICY, quick(), 0), POLICY, quick())
    paid = np.full(HORIZON, 1e308)
    trajectory = make_trajectory(proposal.theta, np.ones((3, 1)), np.ones((3, 1)), paid, horizon=3)
    with pytest.raises(TrajectoryError, match="return of the trajectory is inf, expected a finite number"):
        tell(state, proposal, trajectory, POLICY, quick())
