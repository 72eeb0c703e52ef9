"""Every optimiser of the table on objectives with known maxima; the stop rule; SGHMC's physics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.linalg

from ddopg.config import SearchConfig
from ddopg.core.optimisers import OPTIMISERS, Outcome, maximise, normalise_gradient, precondition, sghmc

KEY = jax.random.key(0)


def run(objective, start, config, **changes):
    optimiser = OPTIMISERS[config.optimiser](config, KEY)
    config = dataclasses.replace(config, **changes)
    start = jnp.asarray(start, jnp.float32)
    return jax.jit(lambda t: maximise(objective, t, optimiser, optimiser.init(t), config))(start)


def parabola(x):
    return 1 - jnp.sum(jnp.square(x - jnp.array([1.0, -2.0])))


def banana(x):
    return -(jnp.square(1 - x[0]) + 5 * jnp.square(x[1] - jnp.square(x[0])))


RATES = {"sgd": 0.02, "adam": 0.02, "momentum": 0.002, "sghmc": 0.005}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize(("objective", "best"), [(parabola, (1.0, -2.0)), (banana, (1.0, 1.0))])
def test_every_optimiser_climbs(name, objective, best):
    config = SearchConfig(
        optimiser=name, learning_rate=RATES[name], sghmc_temperature=1e-6, steps=6000, tolerance=0.0
    )
    found = run(objective, [-0.5, 0.5], config)
    np.testing.assert_allclose(found.theta, best, atol=0.05)
    assert found.outcome == Outcome.STEP_LIMIT
    assert found.steps == 6000


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_first_step_goes_uphill(name):
    found = run(
        parabola, [3.0, 3.0], SearchConfig(optimiser=name, learning_rate=1e-3, sghmc_temperature=0.0), steps=2
    )
    assert parabola(found.theta) > parabola(jnp.array([3.0, 3.0]))


def test_a_flat_objective_stops_after_the_window():
    found = run(lambda x: 0.0 * jnp.sum(x), [1.0, 2.0], SearchConfig(window=9))
    assert found.outcome == Outcome.CONVERGED
    assert found.steps == 8
    np.testing.assert_array_equal(found.theta, [1, 2])


def test_the_stop_rule_is_the_standard_deviation_of_the_last_values():
    """On a slope of 1 with step 0.1 the last 5 values have standard deviation 0.1·√2."""
    slope = lambda x: x[0]
    config = SearchConfig(optimiser="sgd", learning_rate=0.1, window=5, steps=50)
    assert run(slope, [0.0], config, tolerance=0.1 * np.sqrt(2) + 1e-3).outcome == Outcome.CONVERGED
    assert run(slope, [0.0], config, tolerance=0.1 * np.sqrt(2) - 1e-3).outcome == Outcome.STEP_LIMIT


def test_the_step_limit_is_exact():
    found = run(
        lambda x: x[0], [0.0], SearchConfig(optimiser="sgd", learning_rate=0.5, steps=7, tolerance=0.0)
    )
    assert found.theta[0] == pytest.approx(3.5)
    assert found.value == pytest.approx(3.0)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_an_objective_that_stops_being_finite_ends_the_search_at_the_last_good_point(bad):
    cliff = lambda x: jnp.where(x[0] < 1.0, x[0], bad)
    found = run(cliff, [0.0], SearchConfig(optimiser="sgd", learning_rate=0.3), tolerance=0.0)
    assert found.outcome == Outcome.NOT_FINITE
    assert np.isfinite(found.theta).all()
    stuck = run(lambda x: x[0] * jnp.nan, [2.0], SearchConfig(), tolerance=0.0)
    assert (stuck.outcome, stuck.steps, float(stuck.theta[0])) == (Outcome.NOT_FINITE, 0, 2.0)


def test_an_infinite_gradient_is_not_followed():
    found = run(
        lambda x: jnp.sqrt(x[0]), [0.0], SearchConfig(optimiser="sgd", learning_rate=0.1), tolerance=0.0
    )
    assert (found.outcome, float(found.theta[0])) == (Outcome.NOT_FINITE, 0.0)


def test_the_optimiser_state_can_be_carried_on():
    config = SearchConfig(optimiser="momentum", learning_rate=0.01, momentum=0.9)
    optimiser = OPTIMISERS["momentum"](config, KEY)

    def go(start, opt_state, steps):
        settings = dataclasses.replace(config, tolerance=0.0, steps=steps)
        return maximise(parabola, start, optimiser, opt_state, settings)

    start = jnp.array([5.0, 5.0])
    whole = go(start, optimiser.init(start), steps=20)
    half = go(start, optimiser.init(start), steps=10)
    rest = go(half.theta, half.opt_state, steps=10)
    np.testing.assert_allclose(rest.theta, whole.theta, rtol=1e-6)


def test_a_radius_keeps_the_search_near_its_start():
    config = SearchConfig(optimiser="sgd", learning_rate=0.1, steps=50)
    far = run(lambda x: 3 * x[0] + 4 * x[1], [1.0, 1.0], config, tolerance=0.0, radius=0.5)
    np.testing.assert_allclose(far.theta, [1 + 0.3, 1 + 0.4], rtol=1e-5)
    near = run(parabola, [1.1, -2.0], config, tolerance=0.0, radius=0.5)
    np.testing.assert_allclose(near.theta, [1, -2], atol=1e-3)
    unlimited = run(parabola, [9.0, 9.0], config, tolerance=0.0, radius=0.0)
    np.testing.assert_allclose(unlimited.theta, [1, -2], atol=1e-2)


def test_normalised_gradients_have_length_one_and_zero_stays_zero():
    rule = normalise_gradient()
    update, _ = rule.update(jnp.array([3.0, 4.0]), rule.init(None))
    np.testing.assert_allclose(update, [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(rule.update(jnp.zeros(2), rule.init(None))[0], [0, 0])


class TestNaturalGradient:
    def test_on_a_quadratic_with_its_own_metric_one_step_is_newtons(self):
        metric = jnp.array([[4.0, 1.0], [1.0, 0.5]])
        best = jnp.array([1.0, -2.0])
        rule = precondition(metric, 0.0)
        gradient = metric @ (jnp.array([5.0, 5.0]) - best)
        update, _ = rule.update(gradient, rule.init(None))
        np.testing.assert_allclose(jnp.array([5.0, 5.0]) - update, best, rtol=1e-4)

    def test_it_does_not_depend_on_the_units_of_the_parameters(self):
        metric, gradient = jnp.array([[4.0, 1.0], [1.0, 0.5]]), jnp.array([1.0, 2.0])
        scale = jnp.array([10.0, 0.1])  # θ = scale · φ
        plain, _ = precondition(metric, 0.0).update(gradient, None)
        rescaled = precondition(metric * scale[:, None] * scale[None, :], 0.0)
        np.testing.assert_allclose(scale * rescaled.update(scale * gradient, None)[0], plain, rtol=1e-4)

    def test_damping_keeps_a_direction_without_effect_finite(self):
        metric = jnp.array([[1.0, 0.0], [0.0, 0.0]])
        update, _ = precondition(metric, 0.1).update(jnp.array([1.0, 1.0]), None)
        np.testing.assert_allclose(update, [1 / 1.05, 1 / 0.05], rtol=1e-5)


class TestSGHMC:
    @staticmethod
    def chain(rule, gradient, start, steps):
        def step(carry, _):
            theta, state = carry
            update, state = rule.update(gradient(theta), state, theta)
            return (theta + update, state), theta + update

        return jax.lax.scan(step, (start, rule.init(start)), None, length=steps)[1]

    def test_at_temperature_zero_it_is_momentum(self):
        gradient, start = jax.grad(lambda x: -banana(x)), jnp.array([-0.5, 0.5])
        cold = self.chain(sghmc(0.01, 0.25, 0.0, KEY), gradient, start, 50)
        heavy = self.chain(optax.sgd(0.01, momentum=0.75), gradient, start, 50)
        np.testing.assert_allclose(cold, heavy, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(("rate", "friction", "curvature"), [(0.01, 0.2, 1.0), (0.05, 0.5, 4.0)])
    def test_its_stationary_variance_on_a_quadratic_is_right(self, rate, friction, curvature):
        """Against the exact solution of the discrete chain, which is T/k up to O(η)."""
        temperature = 0.7
        A = np.array([[1 - rate * curvature, 1 - friction], [-rate * curvature, 1 - friction]])
        b = np.full((2, 1), np.sqrt(2 * friction * rate * temperature))
        exact = scipy.linalg.solve_discrete_lyapunov(A, b @ b.T)[0, 0]
        assert exact == pytest.approx(temperature / curvature, rel=0.15)
        start = jnp.zeros(256)  # 256 independent particles
        path = self.chain(sghmc(rate, friction, temperature, KEY), lambda x: curvature * x, start, 4000)
        assert np.var(path[1000:]) == pytest.approx(exact, rel=0.03)

    def test_every_kick_is_new(self):
        rule = sghmc(0.1, 0.5, 1.0, KEY)
        path = self.chain(rule, jnp.zeros_like, jnp.zeros(1), 100)
        assert len(np.unique(np.diff(path[:, 0]))) > 90
