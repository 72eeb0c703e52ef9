import math

import numpy as np
import pytest

from ddopg.envs import CARTPOLE, JAX, PYTHON
from tests.envs.policies import returns, starts
from tests.envs.recordings import cartpole_state, each, replay, replay_compiled

FEEDBACK = np.array([[1.0, 2.4, -34.0, -8.0]])  # pushes under the leaning pole
FAR_PAST_DONE = "pastdone gauss40.0"  # the pole whirls round at rates where one float32 digit is 1e-6


def step_by_step(episode, ops):
    """Each recorded step started from the recorded bodies; only the sleep timer is carried along."""
    quiet = 0.0
    for bodies, action in zip(episode.full_state, episode.actions, strict=True):
        state = CARTPOLE.step(cartpole_state(bodies, quiet), action.tolist(), ops)
        quiet = state.quiet
        yield state, action.tolist()


@pytest.mark.parametrize(**each("cartpole"))
def test_one_step_is_box2ds(episode):
    tolerance = 5e-6 if episode.kind == FAR_PAST_DONE else 1e-6
    for t, (state, action) in enumerate(step_by_step(episode, PYTHON)):
        assert CARTPOLE.observe(state, PYTHON) == pytest.approx(episode.observations[t], abs=tolerance)
        assert CARTPOLE.reward(state, action, PYTHON) == pytest.approx(episode.rewards[t], abs=1e-6)
        assert CARTPOLE.terminated(state, PYTHON) == episode.done[t]


@pytest.mark.parametrize("play", [replay, replay_compiled])
@pytest.mark.parametrize(**each("cartpole"))
def test_twenty_steps_open_loop_stay_with_the_recording(episode, play):
    observations, rewards, terminated = (part[:20] for part in play(CARTPOLE, episode))
    np.testing.assert_allclose(observations, episode.observations[:20], atol=2e-5)
    np.testing.assert_allclose(rewards, episode.rewards[:20], atol=2e-6)
    np.testing.assert_array_equal(terminated, episode.done[:20])


@pytest.mark.parametrize(**each("cartpole_rest"))
def test_a_balanced_pole_falls_asleep_when_box2d_says_so(episode):
    slept = []
    for t, (state, _) in enumerate(step_by_step(episode, PYTHON)):
        assert CARTPOLE.observe(state, PYTHON) == pytest.approx(episode.observations[t], abs=1e-6)
        slept.append(state.v == state.rate == state.qx == state.qy == 0)
    recorded = (episode.full_state[1:, [3, 5, 9, 10, 11]] == 0).all(axis=1)
    assert recorded.any()
    np.testing.assert_array_equal(slept[:-1], recorded)


@pytest.mark.parametrize("start", [[0.1, 0.15, 0.008, -0.1], [-0.05, 0.2, -0.01, 0.2]])
def test_left_and_right_are_the_same(start):
    there, back = (CARTPOLE.start([sign * number for number in start], PYTHON) for sign in (1, -1))
    for force in (3.0, -20.0, 0.5, 7.0):
        there, back = CARTPOLE.step(there, [force], PYTHON), CARTPOLE.step(back, [-force], PYTHON)
        mirrored = -CARTPOLE.observe(back, PYTHON)
        np.testing.assert_allclose(CARTPOLE.observe(there, PYTHON), mirrored, atol=1e-15)


def test_a_reset_leaves_the_pole_behind_and_the_first_step_turns_it():
    state = CARTPOLE.start([0.12, 0.0, 0.0, 0.0], PYTHON)
    assert state.px == 0
    turned = CARTPOLE.step(state, [0.0], PYTHON).angle
    assert turned == pytest.approx(1.45 * 0.12, rel=0.03)


def test_force_beyond_ten_newton_costs_but_does_not_push():
    state = CARTPOLE.start([0.0, 0.0, 0.0, 0.0], PYTHON)
    strong, excessive = (CARTPOLE.step(state, [force], PYTHON) for force in (10.0, 1000.0))
    assert strong == excessive
    difference = CARTPOLE.reward(strong, [10.0], PYTHON) - CARTPOLE.reward(excessive, [1000.0], PYTHON)
    assert difference == pytest.approx(1e-5 * (1e6 - 1e2))


def test_the_terminating_step_pays_nothing():
    fallen = CARTPOLE.start([0.0, 0.0, 0.21, 0.0], PYTHON)
    assert CARTPOLE.terminated(fallen, PYTHON)
    assert CARTPOLE.reward(fallen, [0.0], PYTHON) == 0


def test_doing_nothing_returns_87():
    zero = returns(CARTPOLE, np.zeros((1, 4)), np.zeros(1), starts(CARTPOLE, 2000))
    assert np.mean(zero) == pytest.approx(87.5, abs=5)
    assert np.std(zero) == pytest.approx(56.6, abs=5)


def test_good_feedback_keeps_every_pole_up():
    assert np.min(returns(CARTPOLE, FEEDBACK, np.zeros(1), starts(CARTPOLE, 500))) >= 990


def test_draws_fill_the_reset_range():
    drawn = starts(CARTPOLE, 2000)
    np.testing.assert_allclose(np.max(drawn, axis=0), [0.12, 0.2, 0.01, 0.2], rtol=0.01)
    np.testing.assert_allclose(np.min(drawn, axis=0), [-0.12, -0.2, -0.01, -0.2], rtol=0.01)


def test_both_arithmetics_take_the_same_step(float64):
    state = CARTPOLE.start([0.1, -0.1, 0.005, 0.1], PYTHON)
    compiled = CARTPOLE.start(np.array([0.1, -0.1, 0.005, 0.1]), JAX)
    for force in ([3.0], [-4.0], [30.0]):
        state, compiled = CARTPOLE.step(state, force, PYTHON), CARTPOLE.step(compiled, np.array(force), JAX)
    np.testing.assert_allclose([float(part) for part in compiled], state, rtol=1e-12, atol=1e-15)
    assert math.isfinite(state.x)
