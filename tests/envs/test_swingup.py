"""The swing-up against the equations of Barto, Sutton and Anderson (1983) and the conservation of energy."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from ddopg.envs import JAX, PYTHON, SWINGUP
from ddopg.envs.tasks.swingup.physics import STEP

START = [0.1, -0.2, math.cos(2.5), math.sin(2.5), 1.0]


def textbook_rates(time, y, force):
    """(ẋ, ẍ, θ̇, θ̈); θ is clockwise there. Cart 1 kg, pole 0.1 kg, half its length 0.5 m."""
    _, v, theta, omega = y
    sin, cos = math.sin(theta), math.cos(theta)
    pushed = (force + 0.05 * omega**2 * sin) / 1.1
    alpha = (9.81 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    return [v, pushed - 0.05 * alpha * cos / 1.1, omega, alpha]


def energy(state):
    kinetic = 0.55 * state.v**2 - 0.05 * state.cos * state.v * state.rate + state.rate**2 / 60
    return kinetic + 0.05 * 9.81 * state.cos


def test_twenty_steps_are_those_of_the_textbook():
    state, y = SWINGUP.start(START, PYTHON), np.array([0.1, -0.2, -2.5, -1.0])
    for force in (10.0, -10.0, 4.0, -7.0) * 5:
        state = SWINGUP.step(state, [force], PYTHON)
        y = solve_ivp(textbook_rates, (0, STEP), y, args=(force,), rtol=1e-10, atol=1e-12).y[:, -1]
        expected = [y[0], y[1], math.cos(y[2]), -math.sin(y[2]), -y[3]]
        np.testing.assert_allclose(SWINGUP.observe(state, PYTHON), expected, atol=5e-4)


def test_without_a_force_the_energy_stays_for_a_whole_episode():
    state = SWINGUP.start([0.0, 0.0, math.cos(0.3), math.sin(0.3), 0.0], PYTHON)
    before = energy(state)
    for _ in range(SWINGUP.horizon):
        state = SWINGUP.step(state, [0.0], PYTHON)
        assert energy(state) == pytest.approx(before, abs=5e-3)
    assert math.hypot(state.cos, state.sin) == pytest.approx(1, abs=1e-12)


def test_left_and_right_are_the_same():
    mirror = np.array([-1, -1, 1, -1, -1])
    there, back = SWINGUP.start(START, PYTHON), SWINGUP.start((mirror * START).tolist(), PYTHON)
    for force in (3.0, -20.0, 0.5, 7.0):
        there, back = SWINGUP.step(there, [force], PYTHON), SWINGUP.step(back, [-force], PYTHON)
        mirrored = mirror * SWINGUP.observe(back, PYTHON)
        np.testing.assert_allclose(SWINGUP.observe(there, PYTHON), mirrored, atol=1e-15)


@pytest.mark.parametrize(
    ("x", "cos", "expected"),
    [(0.0, 1.0, 1.0), (0.0, -1.0, 0.0), (1.2, 1.0, 0.75), (1.2, 0.0, 0.375), (2.41, 1.0, 0.0)],
)
def test_only_an_upright_pole_in_the_middle_earns_everything(x, cos, expected):
    state = SWINGUP.start([x, 0.0, cos, math.sqrt(1 - cos**2), 0.0], PYTHON)
    assert SWINGUP.reward(state, [3.0], PYTHON) == pytest.approx(expected)
    assert SWINGUP.terminated(state, PYTHON) == (x > 2.4)


def test_force_beyond_ten_newton_does_not_push():
    state = SWINGUP.start(START, PYTHON)
    assert SWINGUP.step(state, [10.0], PYTHON) == SWINGUP.step(state, [1000.0], PYTHON)


def test_the_pole_hangs_at_first():
    generator = np.random.default_rng(7)
    drawn = np.stack([SWINGUP.draw(generator) for _ in range(500)])
    assert np.max(drawn[:, 2]) == pytest.approx(-math.cos(0.1), abs=1e-4)
    np.testing.assert_allclose(np.max(drawn[:, [0, 1, 4]], axis=0), 0.1, rtol=0.03)
    np.testing.assert_allclose(np.min(drawn[:, [0, 1, 3, 4]], axis=0), -0.1, rtol=0.03)


def test_both_arithmetics_take_the_same_step(float64):
    state, compiled = SWINGUP.start(START, PYTHON), SWINGUP.start(np.array(START), JAX)
    for force in ([3.0], [-4.0], [30.0]):
        state, compiled = SWINGUP.step(state, force, PYTHON), SWINGUP.step(compiled, np.array(force), JAX)
    np.testing.assert_allclose([float(part) for part in compiled], state, rtol=1e-12)
