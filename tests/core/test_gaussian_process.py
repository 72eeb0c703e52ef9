"""The Gaussian process over returns: against the textbook's formulas by plain linear algebra."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ddopg.core import gaussian_process as gp

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 30))
RETURNS = np.sin(X[:, 0]) - X[:, 1] ** 2
NEW = RNG.normal(size=(5, 2)), RNG.normal(size=(5, 30))


def test_matern_is_one_at_no_distance_and_the_formula_elsewhere():
    d = math.sqrt(5) * 0.7
    assert gp.matern(np.array([0.0]))[0] == 1.0
    assert gp.matern(np.array([0.49]))[0] == pytest.approx((1 + d + d * d / 3) * math.exp(-d))


def test_predictions_are_the_conditional_mean_and_deviation():
    process = gp.fit([X], RETURNS)
    weight = process.weights[0]
    noise = (process.factor @ process.factor.T)[0, 0] - 1
    kernel = gp.matern(weight * gp.squared_distances(X, X)) + noise * np.eye(12)
    cross = gp.matern(weight * gp.squared_distances(NEW[0], X))
    mean, deviation = gp.predict(process, [NEW[0]])
    np.testing.assert_allclose(mean, cross @ np.linalg.inv(kernel) @ RETURNS, rtol=1e-6)
    variance = process.variance * (1 - np.diag(cross @ np.linalg.inv(kernel) @ cross.T))
    np.testing.assert_allclose(deviation**2, variance, rtol=1e-5)


def test_the_variance_is_that_of_the_highest_likelihood():
    process = gp.fit([X], RETURNS)
    kernel = process.factor @ process.factor.T
    assert process.variance == pytest.approx(RETURNS @ np.linalg.inv(kernel) @ RETURNS / 12)


def test_the_likelihood_prefers_the_block_that_explains_the_returns():
    process = gp.fit([X, Y], RETURNS)
    assert process.weights[0] > 0
    assert process.weights[1] == 0.0


def test_what_the_situation_explains_is_no_merit_of_a_policy():
    load = RNG.normal(size=(12, 1))
    told = gp.fit([X], RETURNS + 3 * load[:, 0], load)
    untold = gp.fit([X], RETURNS + 3 * load[:, 0])
    centred = RETURNS - RETURNS.mean()
    errors = [np.std(gp.predict(process, [X])[0] - centred) for process in (told, untold)]
    assert errors[0] < 0.3 * errors[1]


def test_expected_improvement_is_the_integral():
    value = gp.expected_improvement(np.array([0.3]), np.array([0.5]), 0.6)[0]
    assert value == pytest.approx(quad(lambda j: (j - 0.6) * norm.pdf(j, 0.3, 0.5), 0.6, 6)[0], rel=1e-5)


def test_the_transform_keeps_the_order_and_has_an_inverse():
    returns = np.array([-1e6, -300.0, -20.0, -12.0, -11.0, -10.5])
    transform = gp.make_transform(returns)
    values = transform.apply(returns)
    assert (np.diff(values) > 0).all()
    assert np.mean(values) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose([transform.invert(value) for value in values], returns, rtol=1e-6)


def test_a_failure_does_not_drown_the_differences_that_matter():
    returns = np.array([-1e6, -14.0, -12.0, -11.0, -10.0])
    values = gp.make_transform(returns).apply(returns)
    assert values[-1] - values[-2] > 0.02 * (values[-1] - values[0])


def test_policies_that_are_all_the_same_are_fitted_too():
    same = np.ones((6, 2))
    mean, _ = gp.predict(gp.fit([same, same], RETURNS[:6] - RETURNS[:6].mean()), [same, same])
    np.testing.assert_allclose(mean, 0, atol=1e-6)


@pytest.mark.parametrize("returns", [np.zeros(6), np.full(6, -3.5)])
def test_equal_returns_are_fitted_too(returns):
    transform = gp.make_transform(returns)
    mean, _ = gp.predict(gp.fit([X[:6]], transform.apply(returns)), [X[:6]])
    assert transform.invert(float(mean[0])) == pytest.approx(returns[0])
