"""The importance-sampling mathematics against the oracle, its identities and its limits."""

import itertools
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddopg.core import estimators as E
from tests import reference

SIZES = st.sampled_from([1, 2, 7])  # one, two, many; each size is compiled once
log_weights = arrays(np.float64, SIZES, elements=st.floats(-30, 30))
TIGHT = 1e-9


def sample(seed=0, number=7, parameters=3):
    rng = np.random.default_rng(seed)
    return (
        jnp.asarray(rng.standard_normal(number)),
        jnp.asarray(rng.standard_normal((number, parameters))),
        jnp.asarray(10 * rng.standard_normal(number)),
    )


# --- an enumerable trajectory space: two states, two actions, two steps, a softmax policy ---------------


def tiny_world():
    """All 2·(2·2)² trajectories: log p(τ|θ) without the policy, the (state, action) pairs, and returns."""
    rng = np.random.default_rng(3)
    first, move = rng.dirichlet([1, 1]), rng.dirichlet([1, 1], size=(2, 2))
    dynamics, pairs, returns = [], [], []
    for s0, a0, s1, a1 in itertools.product(range(2), repeat=4):
        dynamics.append(math.log(first[s0] * move[s0, a0, s1]))
        pairs.append([(s0, a0), (s1, a1)])
        returns.append(rng.standard_normal())
    return np.array(dynamics), np.array(pairs), np.array(returns)


def tiny_log_p(theta, dynamics, pairs):
    log_pi = jax.nn.log_softmax(theta.reshape(2, 2), axis=1)[pairs[..., 0], pairs[..., 1]]
    return E.log_trajectory_likelihood(log_pi, np.ones(log_pi.shape), dynamics)


@pytest.mark.usefixtures("float64")
class TestOnAnEnumerableWorld:
    theta = np.array([0.3, -0.7, 1.1, 0.2])
    other = np.array([-0.2, 0.4, 0.1, 0.8])

    def test_trajectory_likelihoods_sum_to_one(self):
        dynamics, pairs, _ = tiny_world()
        assert jnp.sum(jnp.exp(tiny_log_p(jnp.asarray(self.theta), dynamics, pairs))) == pytest.approx(1)

    def test_expected_return_is_the_sum_over_all_trajectories(self):
        dynamics, pairs, returns = tiny_world()
        pi = np.exp(self.theta.reshape(2, 2)) / np.exp(self.theta.reshape(2, 2)).sum(1, keepdims=True)
        slow = sum(
            math.exp(d) * pi[tuple(p[0])] * pi[tuple(p[1])] * r
            for d, p, r in zip(dynamics, pairs, returns, strict=True)
        )
        log_p = tiny_log_p(jnp.asarray(self.theta), dynamics, pairs)
        assert E.expected_return(log_p, returns) == pytest.approx(slow, abs=TIGHT)

    def test_likelihood_ratio_gradient_is_the_gradient_of_the_expected_return(self):
        dynamics, pairs, returns = tiny_world()
        theta = jnp.asarray(self.theta)
        scores = jax.jacobian(lambda t: tiny_log_p(t, dynamics, pairs))(theta)
        gradient = jax.grad(lambda t: E.expected_return(tiny_log_p(t, dynamics, pairs), returns))(theta)
        ratio = E.likelihood_ratio_gradient(tiny_log_p(theta, dynamics, pairs), scores, returns)
        np.testing.assert_allclose(ratio, gradient, atol=TIGHT)

    def test_reweighting_another_policy_gives_the_same_expectation(self):
        dynamics, pairs, returns = tiny_world()
        log_p = tiny_log_p(jnp.asarray(self.theta), dynamics, pairs)
        log_q = tiny_log_p(jnp.asarray(self.other), dynamics, pairs)
        direct = E.expected_return(log_p, returns)
        assert E.reweighted_expectation(log_p, log_q, returns) == pytest.approx(float(direct), abs=TIGHT)

    def test_every_estimator_converges_to_the_expected_return(self):
        dynamics, pairs, returns = tiny_world()
        log_p = tiny_log_p(jnp.asarray(self.theta), dynamics, pairs)
        log_q = tiny_log_p(jnp.asarray(self.other), dynamics, pairs)
        truth = float(E.expected_return(log_p, returns))
        rng = np.random.default_rng(0)
        on = rng.choice(len(returns), 40_000, p=np.exp(log_p))
        off = rng.choice(len(returns), 40_000, p=np.exp(log_q))
        both = np.concatenate([on, off])
        policies = jnp.stack([log_p, log_q])
        log_w = E.log_importance_weights(log_p, log_q)
        mixture = E.log_mixture_weights(log_p, policies)
        assert E.monte_carlo_return(returns[on]) == pytest.approx(truth, abs=0.02)
        assert E.importance_sampling_return(log_w[off], returns[off]) == pytest.approx(truth, abs=0.02)
        assert E.importance_sampling_return(mixture[both], returns[both]) == pytest.approx(truth, abs=0.02)
        assert E.weighted_importance_sampling_return(mixture[both], returns[both]) == pytest.approx(
            truth, abs=0.02
        )

    def test_monte_carlo_gradient_converges_to_the_likelihood_ratio_gradient(self):
        dynamics, pairs, returns = tiny_world()
        theta = jnp.asarray(self.theta)
        log_p = tiny_log_p(theta, dynamics, pairs)
        scores = jax.jacobian(lambda t: tiny_log_p(t, dynamics, pairs))(theta)
        drawn = np.random.default_rng(1).choice(len(returns), 60_000, p=np.exp(log_p))
        estimate = E.monte_carlo_gradient(scores[drawn], returns[drawn])
        np.testing.assert_allclose(estimate, E.likelihood_ratio_gradient(log_p, scores, returns), atol=0.015)

    def test_the_renyi_bound_holds_with_its_probability(self):
        """Eq. (16) with the true d₂ and Z = N fails on at most a share δ of samples."""
        dynamics, pairs, returns = tiny_world()
        log_p = tiny_log_p(jnp.asarray(self.theta), dynamics, pairs)
        log_q = tiny_log_p(jnp.asarray(self.other), dynamics, pairs)
        truth, d2 = E.expected_return(log_p, returns), jnp.sum(jnp.exp(2 * log_p - log_q))
        delta, number = 0.2, 20
        rng = np.random.default_rng(2)
        drawn = rng.choice(len(returns), (2000, number), p=np.exp(log_q))
        log_w = (log_p - log_q)[drawn]
        means = jax.vmap(E.importance_sampling_return)(log_w, jnp.asarray(returns)[drawn])
        bound = E.renyi_lower_bound(means, d2, number, np.abs(returns).max(), delta)
        assert np.mean(bound > truth) <= delta
        assert np.all(bound < means)


# --- against the oracle ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("seed", range(5))
class TestAgainstTheOracle:
    def test_plain_and_weighted_estimates(self, seed):
        log_w, _, R = sample(seed)
        w, r = np.exp(log_w).tolist(), R.tolist()
        assert E.importance_sampling_return(log_w, R) == pytest.approx(reference.plain(w, r), rel=TIGHT)
        assert E.weighted_importance_sampling_return(log_w, R) == pytest.approx(
            reference.weighted(w, r), rel=TIGHT
        )

    def test_variance(self, seed):
        log_w, _, R = sample(seed)
        slow = reference.weighted_variance(np.exp(log_w).tolist(), R.tolist())
        assert E.return_variance(log_w, R) == pytest.approx(slow, rel=TIGHT)

    def test_both_effective_sample_sizes(self, seed):
        log_w, _, _ = sample(seed)
        w = np.exp(log_w).tolist()
        assert E.paper_effective_sample_size(log_w) == pytest.approx(reference.ess_as_printed(w), rel=TIGHT)
        assert E.effective_sample_size(log_w) == pytest.approx(reference.ess_self_normalised(w), rel=TIGHT)

    def test_bounds_and_penalty(self, seed):
        mean, ess, bound = np.random.default_rng(seed).uniform(1, 9, 3)
        for delta in (0.1, 0.5, 0.9):
            assert E.lower_bound(mean, ess, bound, delta) == pytest.approx(
                reference.lower_bound(mean, ess, bound, delta), rel=TIGHT
            )
            assert E.renyi_lower_bound(mean, ess, 7, bound, delta) == pytest.approx(
                reference.renyi_lower_bound(mean, ess, 7, bound, delta), rel=TIGHT
            )
        assert E.penalty(ess, bound, 0.05) == pytest.approx(reference.penalty(ess, bound, 0.05), rel=TIGHT)

    def test_mixture(self, seed):
        log_p = jnp.asarray(np.random.default_rng(seed).standard_normal((4, 6)))
        slow = [sum(math.exp(v) for v in column) / 4 for column in np.asarray(log_p).T]
        np.testing.assert_allclose(jnp.exp(E.log_mixture(log_p)), slow, rtol=TIGHT)

    def test_proposition_1(self, seed):
        log_w, scores, R = sample(seed)
        slow = reference.proposition_1(np.exp(log_w).tolist(), scores.tolist(), R.tolist())
        np.testing.assert_allclose(E.weighted_gradient(log_w, scores, R), slow, rtol=1e-8)


@pytest.mark.usefixtures("float64")
def test_monte_carlo_gradient_is_the_mean_of_score_times_return():
    _, scores, R = sample()
    slow = [sum(s[d] * r for s, r in zip(scores.tolist(), R.tolist(), strict=True)) / 7 for d in range(3)]
    np.testing.assert_allclose(E.monte_carlo_gradient(scores, R), slow, rtol=TIGHT)


# --- identities -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("float64")
@given(log_weights)
def test_normalised_weights_sum_to_one(log_w):
    assert jnp.sum(E.normalised_weights(jnp.asarray(log_w))) == pytest.approx(1)


@pytest.mark.usefixtures("float64")
@given(log_weights)
def test_effective_sample_size_lies_between_one_and_n(log_w):
    ess = float(E.effective_sample_size(jnp.asarray(log_w)))
    assert 1 - 1e-9 <= ess <= len(log_w) + 1e-9


@pytest.mark.usefixtures("float64")
@given(log_weights, st.floats(-1e3, 1e3))
def test_a_common_factor_of_all_weights_changes_nothing(log_w, constant):
    R = jnp.arange(float(len(log_w)))
    for f in (E.weighted_importance_sampling_return, E.return_variance):
        assert f(jnp.asarray(log_w + constant), R) == pytest.approx(float(f(jnp.asarray(log_w), R)), abs=1e-8)
    assert E.effective_sample_size(jnp.asarray(log_w + constant)) == pytest.approx(
        float(E.effective_sample_size(jnp.asarray(log_w))), rel=1e-8
    )


@pytest.mark.usefixtures("float64")
@given(
    arrays(np.float64, (4, 5), elements=st.floats(-9, 9)), arrays(np.float64, 5, elements=st.floats(-99, 99))
)
def test_constants_per_trajectory_cancel_in_the_mixture_weights(log_p, constant):
    target, policies = jnp.asarray(log_p[0]), jnp.asarray(log_p[1:])
    shifted = E.log_mixture_weights(target + constant, policies + constant[None])
    np.testing.assert_allclose(shifted, E.log_mixture_weights(target, policies), atol=1e-9)


@pytest.mark.usefixtures("float64")
@given(log_weights, st.floats(-5, 5), st.floats(-50, 50))
def test_the_weighted_estimate_is_affine_in_the_returns(log_w, a, b):
    log_w = jnp.asarray(log_w)
    R = jnp.sin(jnp.arange(float(len(log_w))))
    J = E.weighted_importance_sampling_return
    assert J(log_w, a * R + b) == pytest.approx(float(a * J(log_w, R) + b), abs=1e-9)


@pytest.mark.usefixtures("float64")
@given(log_weights, st.randoms(use_true_random=False))
def test_the_order_of_the_trajectories_does_not_matter(log_w, random):
    order = list(range(len(log_w)))
    random.shuffle(order)
    order = np.array(order)
    R, log_w = jnp.cos(jnp.arange(float(len(log_w)))), jnp.asarray(log_w)
    for f in (E.weighted_importance_sampling_return, E.importance_sampling_return, E.return_variance):
        assert f(log_w[order], R[order]) == pytest.approx(float(f(log_w, R)), rel=1e-9, abs=1e-9)


@pytest.mark.usefixtures("float64")
@given(arrays(np.float64, 5, elements=st.floats(-5, 5)), arrays(np.intp, SIZES, elements=st.integers(0, 4)))
def test_a_count_is_the_same_as_repeated_rows(log_w, often):
    counts = np.bincount(often, minlength=5).astype(float)
    R = np.sin(7 * np.arange(5))
    merged, repeated = (
        (jnp.asarray(log_w), jnp.asarray(R)),
        (jnp.asarray(log_w[often]), jnp.asarray(R[often])),
    )
    for f in (E.weighted_importance_sampling_return, E.importance_sampling_return, E.return_variance):
        assert f(*merged, jnp.asarray(counts)) == pytest.approx(float(f(*repeated)), rel=1e-9, abs=1e-9)
    for f in (E.effective_sample_size, E.paper_effective_sample_size):
        assert f(merged[0], jnp.asarray(counts)) == pytest.approx(float(f(repeated[0])), rel=1e-9)
    log_p = np.cos(np.add.outer(np.arange(5), 2.0 * np.arange(4)))
    np.testing.assert_allclose(
        E.log_mixture(jnp.asarray(log_p), jnp.asarray(counts)),
        E.log_mixture(jnp.asarray(log_p[often])),
        atol=1e-9,
    )


def test_the_mixture_divides_by_the_number_of_policies():
    log_p = jnp.full((5, 2), -1.5)
    np.testing.assert_allclose(E.log_mixture(log_p), [-1.5, -1.5], rtol=1e-6)


@pytest.mark.usefixtures("float64")
def test_data_of_one_policy_gives_it_the_monte_carlo_mean():
    log_p, _, R = sample()
    log_w = E.log_mixture_weights(log_p, jnp.stack([log_p, log_p]))
    assert E.importance_sampling_return(log_w, R) == pytest.approx(float(E.monte_carlo_return(R)))
    assert E.weighted_importance_sampling_return(log_w, R) == pytest.approx(float(E.monte_carlo_return(R)))


@pytest.mark.usefixtures("float64")
def test_the_baseline_of_proposition_1_makes_equal_returns_stationary():
    log_w, scores, _ = sample()
    gradient = E.weighted_gradient(log_w, scores, jnp.full(7, 42.0))
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.usefixtures("float64")
def test_the_ess_bound_is_the_renyi_bound_with_the_sample_divergence():
    log_w, _, _ = sample()
    ess = E.effective_sample_size(log_w)
    assert E.lower_bound(1.0, ess, 3.0, 0.2) == pytest.approx(
        float(E.renyi_lower_bound(1.0, 7 / ess, 7, 3.0, 0.2))
    )


def test_the_lower_bound_tends_to_the_mean_as_data_grow_and_never_exceeds_it():
    bounds = [float(E.lower_bound(5.0, ess, 2.0, 0.2)) for ess in (1.0, 10.0, 1e4, 1e8)]
    assert bounds == sorted(bounds)
    assert bounds[0] < 5
    assert bounds[-1] == pytest.approx(5.0, abs=1e-3)


# --- float32, far away ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [-1e6, -1e4, 0.0])
def test_value_and_gradient_are_finite_in_float32_when_every_log_density_is_tiny(level):
    offsets = jnp.array([0.0, 0.5, -1.0, 2.0], jnp.float32)
    log_p, policies = jnp.float32(level) + offsets, jnp.full((3, 4), level, jnp.float32)
    R = jnp.array([1.0, 2.0, 3.0, 4.0])

    def total(x):
        log_w = E.log_mixture_weights(x, policies)
        return (
            E.weighted_importance_sampling_return(log_w, R)
            + E.effective_sample_size(log_w)
            + E.return_variance(log_w, R)
        )

    value, gradient = jax.value_and_grad(total)(log_p)
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


def test_effective_sample_size_keeps_its_digits_in_float32_far_away():
    log_w = jnp.float32(-1e6) + jnp.array([0.0, 0.0, 0.0, -1e3], jnp.float32)
    assert E.effective_sample_size(log_w) == pytest.approx(3, rel=1e-5)


def test_padding_rows_stay_out_even_when_they_look_infinitely_more_likely():
    log_w = jnp.array([-1e6, -1e6, 0.0], jnp.float32)
    R, counts = jnp.array([1.0, 3.0, 99.0]), jnp.array([1.0, 1.0, 0.0])

    def both(x):
        return E.weighted_importance_sampling_return(x, R, counts) + E.effective_sample_size(x, counts)

    value, gradient = jax.value_and_grad(both)(log_w)
    assert value == pytest.approx(2 + 2)
    assert np.all(np.isfinite(gradient))
    assert gradient[2] == 0
    assert E.importance_sampling_return(log_w, R, counts) == 0


# --- the named ε of the released code -------------------------------------------------------------------


@pytest.mark.usefixtures("float64")
def test_epsilon_pulls_the_estimate_to_zero_far_from_the_data_and_leaves_it_near_them():
    policies = jnp.zeros((2, 2))
    R, far, near = jnp.array([4.0, 6.0]), jnp.full(2, -60.0), jnp.zeros(2)

    def J(log_p, epsilon):
        log_w = log_p - E.log_mixture(policies, epsilon=epsilon)
        return float(E.weighted_importance_sampling_return(log_w, R, epsilon=epsilon))

    assert J(far, 0.0) == pytest.approx(5)
    assert J(far, 1e-8) == pytest.approx(0, abs=1e-6)
    assert J(near, 1e-8) == pytest.approx(5, rel=1e-6)


# --- the optimal baseline -------------------------------------------------------------------------------


@pytest.mark.usefixtures("float64")
class TestOptimalBaseline:
    def test_no_other_constant_leaves_less_variance(self):
        log_w, _, R = sample(4, number=30)
        w, best = np.exp(log_w), float(E.optimal_baseline(log_w, R))
        spread = [
            np.var(w * (np.asarray(R) - b)) for b in (best, best - 1e-3, best + 1e-3, 0.0, float(R.mean()))
        ]
        assert spread[0] == min(spread)

    def test_equal_returns_are_estimated_without_error(self):
        log_w, _, _ = sample(1)
        assert E.baselined_return(log_w, jnp.full(7, 3.0)) == pytest.approx(3.0)

    def test_large_weights_do_not_overflow(self):
        log_w, _, R = sample(1)
        huge = E.optimal_baseline((log_w + 60).astype(jnp.float32), R.astype(jnp.float32))
        assert huge == pytest.approx(float(E.optimal_baseline(log_w, R)), rel=1e-3)

    def test_on_policy_it_is_the_mean(self):
        _, _, R = sample(1)
        assert E.baselined_return(jnp.zeros(7), R) == pytest.approx(float(R.mean()))

    def test_it_lowers_the_variance_of_the_plain_estimate(self):
        dynamics, pairs, returns = tiny_world()
        returns = returns + 10  # a large common part that a baseline can take away
        log_p = tiny_log_p(jnp.asarray(TestOnAnEnumerableWorld.theta), dynamics, pairs)
        log_q = tiny_log_p(jnp.asarray(TestOnAnEnumerableWorld.other), dynamics, pairs)
        drawn = np.random.default_rng(0).choice(16, (500, 25), p=np.exp(log_q))
        log_w, R = (log_p - log_q)[drawn], jnp.asarray(returns)[drawn]
        plain, better = (jax.vmap(f)(log_w, R) for f in (E.importance_sampling_return, E.baselined_return))
        truth = float(E.expected_return(log_p, returns))
        assert np.var(better) < 0.2 * np.var(plain)
        assert np.mean(better) == pytest.approx(truth, abs=0.05)

    @pytest.mark.parametrize("seed", range(5))
    def test_return_and_gradient_are_those_of_the_oracle(self, seed):
        log_w, scores, R = sample(seed)
        w, r = np.exp(log_w).tolist(), R.tolist()
        assert E.baselined_return(log_w, R) == pytest.approx(reference.baselined(w, r), rel=1e-8)
        slow = reference.baselined_gradient(w, scores.tolist(), r)
        np.testing.assert_allclose(E.baselined_gradient(log_w, scores, R), slow, rtol=1e-8)

    def test_all_copies_of_a_trajectory_are_left_out_together_and_padding_stays_out(self):
        log_w, scores, R = sample(2, number=5)
        counts = jnp.array([2.0, 0.0, 1.0, 3.0, 1.0])
        terms, slopes = [], []
        for i, count in enumerate(counts.tolist()):
            others = np.delete(np.arange(5), i)
            rest = log_w[others], R[others], counts[others]
            b, w = E.optimal_baseline(*rest), jnp.exp(log_w[i])
            power = counts[others] * jnp.exp(2 * log_w[others]) * jnp.sum(scores[others] ** 2, axis=1)
            g = jnp.sum(power * R[others]) / jnp.sum(power)
            terms.append(count * (w * (R[i] - b) + b))
            slopes.append(count * w * scores[i] * (R[i] - g))
        assert E.baselined_return(log_w, R, counts) == pytest.approx(float(sum(terms)) / 7, rel=1e-9)
        np.testing.assert_allclose(E.baselined_gradient(log_w, scores, R, counts), sum(slopes) / 7, rtol=1e-9)

    def test_a_lone_trajectory_has_no_baseline(self):
        log_w, R, counts = jnp.array([0.3, 9.0]), jnp.array([2.0, 5.0]), jnp.array([1.0, 0.0])
        value, slope = jax.value_and_grad(E.baselined_return)(log_w, R, counts)
        assert value == pytest.approx(2 * math.exp(0.3))
        np.testing.assert_allclose(slope, [2 * math.exp(0.3), 0.0])

    def test_the_baseline_of_the_gradient_leaves_the_least_variance_of_the_gradient(self):
        log_w, scores, R = sample(4, number=2000)
        w, norms = jnp.exp(log_w), jnp.sum(jnp.square(scores), axis=1)
        best = float(np.mean(E.gradient_baselines(log_w, norms, R)))
        power = [float(jnp.sum(w**2 * norms * (R - b) ** 2)) for b in (best, best - 0.1, best + 0.1, 0.0)]
        assert power[0] == min(power)

    def test_scores_of_zero_leave_a_finite_baseline(self):
        log_w, _, R = sample(1)
        found = E.gradient_baselines(log_w, jnp.zeros(7), R)
        assert found[0] == pytest.approx(float(jnp.sum(jnp.exp(2 * log_w) * R) - jnp.exp(2 * log_w[0]) * R[0])
                                         / float(jnp.sum(jnp.exp(2 * log_w[1:]))))  # fmt: skip


# --- bias and variance on a Gaussian toy ----------------------------------------------------------------


TOY_DRAWS, TOY_SAMPLES = 30, 4000


def same_sample(log_w, R, scores):
    """The baseline knows the trajectory that it is subtracted from."""
    b = E.optimal_baseline(log_w, R)
    return b + E.importance_sampling_return(log_w, R - b)


def with_gradient_baselines(log_w, R, scores):
    """Something whose derivative is `baselined_gradient`."""
    baselines = jax.lax.stop_gradient(E.gradient_baselines(log_w, scores**2, R))
    return E.importance_sampling_return(log_w, R - baselines)


TOY_ESTIMATORS = {
    "plain": lambda log_w, R, scores: E.importance_sampling_return(log_w, R),
    "baselined": lambda log_w, R, scores: E.baselined_return(log_w, R),
    "gradient": with_gradient_baselines,
    "same sample": same_sample,
}


@cache
def toy_estimates(name, level=0.0, behaviours=(0.0,)):
    """Value and derivative of an estimator on every sample of the toy."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TOY_SAMPLES, TOY_DRAWS)) + np.resize(behaviours, (1, TOY_DRAWS))
    policies = jnp.asarray(behaviours)

    def value(theta, x):
        log_q = E.log_mixture(-0.5 * (x[None, :] - policies[:, None]) ** 2)
        return TOY_ESTIMATORS[name](-0.5 * (x - theta) ** 2 - log_q, level + 1 - (x - 1) ** 2, x - theta)

    found = jax.jit(jax.vmap(jax.value_and_grad(value), in_axes=(None, 0)))(0.6, x)
    return tuple(map(np.asarray, found))


def is_unbiased(values, truth):
    return abs(np.mean(values) - truth) < 3.5 * np.std(values) / math.sqrt(len(values))


@pytest.mark.usefixtures("float64")
class TestGaussianToy:
    """x ~ N(0, 1) shows N(θ, 1): R(x) = c + 1 − (x − 1)², so J = c − (θ − 1)² = c − 0.16 and ∇J = 0.8 at θ = 0.6."""

    def test_the_left_out_baseline_has_no_bias_in_return_and_gradient(self):
        values, slopes = toy_estimates("baselined")
        assert is_unbiased(values, -0.16)
        assert is_unbiased(slopes, 0.8)
        assert is_unbiased(toy_estimates("gradient")[1], 0.8)

    def test_a_baseline_of_the_same_sample_is_seen_to_be_biased(self):
        """What the test above would have to find: +0.10 in the return, +0.19 in its derivative."""
        values, slopes = toy_estimates("same sample")
        assert np.mean(values) + 0.16 == pytest.approx(0.10, abs=0.02)
        assert np.mean(slopes) - 0.8 == pytest.approx(0.19, abs=0.02)
        assert not is_unbiased(values, -0.16)

    def test_the_variance_is_below_that_of_plain_importance_sampling(self):
        (plain, slope), (better, flatter) = (toy_estimates(name, 10.0) for name in ("plain", "baselined"))
        assert np.var(better) < 0.15 * np.var(plain)
        assert np.var(flatter) < 0.3 * np.var(slope)

    def test_the_baseline_of_the_gradient_serves_the_gradient_best(self):
        own, other, none = (np.std(toy_estimates(name)[1]) for name in ("gradient", "baselined", "plain"))
        assert own < min(other, none)

    def test_one_rollout_of_each_policy_of_a_mixture_leaves_a_small_bias_at_most(self):
        """Exact for draws from one policy; here the baselines differ with the policy that is left out."""
        values, slopes = toy_estimates("baselined", 0.0, tuple(np.linspace(-1.0, 1.0, TOY_DRAWS)))
        assert abs(np.mean(values) + 0.16) < 0.03
        assert abs(np.mean(slopes) - 0.8) < 0.06


# --- doubly robust --------------------------------------------------------------------------------------

HORIZON, ENDS = (
    4,
    (1, 1),
)  # it is over after four steps, or where the second action is taken in the second state


def four_steps(noisy=True):
    """Every episode of a small world: two states, two actions, up to four steps.

    Returns the log-probability of the dynamics (M,), states and actions (M, 4), which of them happened (M, 4), and
    the rewards r(s, a) (2, 2), that of the last step included.
    """
    rng = np.random.default_rng(7)
    move = rng.dirichlet([1, 1], size=(2, 2)) if noisy else np.array([[[0, 1.0], [1, 0]], [[1, 0], [0, 1]]])
    first, pay = (rng.dirichlet([1, 1]) if noisy else np.array([1.0, 0.0])), rng.standard_normal((2, 2))
    done, open_ = [], [(first[s], [(s, a)]) for s in range(2) for a in range(2)]
    while open_:
        p, steps = open_.pop()
        if len(steps) == HORIZON or steps[-1] == ENDS:
            done.append((p, steps))
            continue
        open_ += [(p * move[steps[-1]][s], [*steps, (s, a)]) for s in range(2) for a in range(2)]
    done = [(p, steps) for p, steps in done if p > 0]
    alive = np.array([np.arange(HORIZON) < len(steps) for _, steps in done])
    padded = np.array([steps + [(0, 0)] * (HORIZON - len(steps)) for _, steps in done])
    return np.log([p for p, _ in done]), padded[..., 0], padded[..., 1], alive, pay, move


def softmax_policy(theta):
    return np.asarray(jax.nn.log_softmax(jnp.asarray(theta).reshape(2, 2), axis=1))


def true_values(pi, pay, move):
    """Qₜ(s, a) and Vₜ(s) of the policy by recursion from the end, (4, 2, 2) and (4, 2)."""
    Q, V = np.zeros((HORIZON, 2, 2)), np.zeros((HORIZON + 1, 2))
    for t in reversed(range(HORIZON)):
        goes_on = np.ones((2, 2))
        goes_on[ENDS] = 0.0
        Q[t] = pay + goes_on * (move @ V[t + 1])
        V[t] = np.sum(pi * Q[t], axis=1)
    return Q, V[:HORIZON]


class Enumerated:
    """All episodes, with the weights of a policy against a mixture of two that acted, and some Q̂."""

    def __init__(self, noisy=True, critic=None):
        self.log_world, self.s, self.a, self.alive, pay, move = four_steps(noisy)
        target, *acted = (softmax_policy(theta) for theta in ([0.3, -0.7, 1.1, 0.2], *self.acted))
        self.pi = np.exp(target)
        Q, V = true_values(self.pi, pay, move)
        self.truth = float(
            np.sum(
                np.exp(self.log_world + np.sum(self.alive * target[self.s, self.a], 1)) * self.returns(pay)
            )
        )
        if critic is not None:
            Q, V = critic, np.sum(self.pi * critic, axis=-1)
        time = np.arange(HORIZON)
        self.rewards = self.alive * pay[self.s, self.a]
        self.taken, self.values = (self.alive * x for x in (Q[time, self.s, self.a], V[time, self.s]))
        prefix = [np.cumsum(self.alive * log_pi[self.s, self.a], axis=1) for log_pi in (target, *acted)]
        log_q = np.logaddexp(*prefix[1:]) - math.log(2)
        self.log_w, self.p = prefix[0] - log_q, np.exp(self.log_world + log_q[:, -1])

    acted = ([-0.2, 0.4, 0.1, 0.8], [1.0, 0.0, -0.5, 0.5])

    def returns(self, pay):
        return np.sum(self.alive * pay[self.s, self.a], axis=1)

    def alone(self, log_w, *arrays):
        """The estimate of Z = N from each episode alone, (M,)."""

        def one(*rows):
            return E.doubly_robust_return(*(row[None] for row in rows), normalised=False)

        return np.asarray(jax.vmap(one)(*map(jnp.asarray, (log_w, *arrays))))


@pytest.mark.usefixtures("float64")
class TestDoublyRobust:
    @staticmethod
    def any_critic(seed=0):
        return 5 * np.random.default_rng(seed).standard_normal((HORIZON, 2, 2)) + 3

    @pytest.mark.parametrize("seed", range(3))
    def test_it_has_no_bias_whatever_the_critic_says(self, seed):
        world = Enumerated(critic=self.any_critic(seed))
        assert np.sum(world.p) == pytest.approx(1)
        advantages = world.taken - world.values
        each = world.alone(world.log_w, world.rewards, world.values, advantages)
        assert np.sum(world.p * each) == pytest.approx(world.truth, abs=TIGHT)
        assert np.std(each) > 0.5, "one episode says little"

    def test_neither_has_it_with_one_weight_for_a_stretch_of_steps(self):
        """The first step, then three: all of their Q̂ − V̂, or thrice that of the first one, or of whole paths."""
        world = Enumerated(critic=self.any_critic())
        assert not world.alive[:, 2].all(), "some episodes end within the stretch"
        advantages, ends = world.taken - world.values, np.array([0, 3])
        stretches = np.stack([world.rewards[:, 0], world.rewards[:, 1:].sum(1)], 1), world.values[:, :2]
        for rest in (advantages[:, 1:].sum(1), 3 * advantages[:, 1], 0 * advantages[:, 1]):
            each = world.alone(world.log_w[:, ends], *stretches, np.stack([advantages[:, 0], rest], 1))
            assert np.sum(world.p * each) == pytest.approx(world.truth, abs=TIGHT)
        by_end = world.alive[:, 1:].sum(1) * advantages[:, 1]
        each = world.alone(world.log_w[:, ends], *stretches, np.stack([advantages[:, 0], by_end], 1))
        assert abs(np.sum(world.p * each) - world.truth) > 1e-3, "a multiple that knows the end has a bias"
        whole = (x.sum(1, keepdims=True) for x in (world.rewards, world.values[:, :1], advantages))
        each = world.alone(world.log_w[:, -1:], *whole)
        assert np.sum(world.p * each) == pytest.approx(world.truth, abs=TIGHT)

    def test_the_true_values_of_a_world_without_noise_leave_no_variance(self):
        world = Enumerated(noisy=False)
        advantages = world.taken - world.values
        each = world.alone(world.log_w, world.rewards, world.values, advantages)
        np.testing.assert_allclose(each, world.truth, atol=TIGHT)
        some = np.random.default_rng(0).integers(len(each), size=9)
        arrays = (jnp.asarray(x[some]) for x in (9 * world.log_w, world.rewards, world.values, advantages))
        assert E.doubly_robust_return(*arrays) == pytest.approx(world.truth, abs=TIGHT)
        assert np.std(world.alone(world.log_w, world.rewards, 0 * advantages, 0 * advantages)) > 0.3

    def test_the_true_values_leave_less_variance_in_a_noisy_world_too(self):
        world = Enumerated()

        def deviation(*control):
            each = world.alone(world.log_w, world.rewards, *control)
            return math.sqrt(np.sum(world.p * np.square(each - world.truth)))

        none = np.zeros_like(world.values)
        assert deviation(world.values, world.taken - world.values) < 0.8 * deviation(none, none)

    def test_without_a_critic_it_is_the_estimate_by_weights_alone(self):
        world, counts = Enumerated(), jnp.arange(5.0)
        log_w, rewards = jnp.asarray(world.log_w[:5]), jnp.asarray(world.rewards[:5])
        none = jnp.zeros_like(rewards)
        found = E.doubly_robust_return(log_w, rewards, none, none, counts, 1e-3)
        assert found == E.per_decision_return(log_w, rewards, counts, 1e-3)
        plain = sum(E.importance_sampling_return(log_w[:, t], rewards[:, t], counts) for t in range(HORIZON))
        found = E.doubly_robust_return(log_w, rewards, none, none, counts, normalised=False)
        assert found == pytest.approx(float(plain), rel=1e-15)

    @pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
    @pytest.mark.parametrize("normalised", [True, False])
    def test_it_is_that_of_the_oracle(self, normalised, dtype):
        world, often = Enumerated(critic=100 * self.any_critic()), np.array([1, 2, 0, 3])
        some = np.random.default_rng(1).choice(len(world.p), 4, replace=False)
        assert len({*world.alive[some].sum(1)}) > 1
        lists = [
            [row[: steps.sum()].tolist() for row, steps in zip(array[some], world.alive[some], strict=True)]
            for array in (world.rewards, world.taken, world.values)
        ]
        rows = np.repeat(np.arange(4), often)
        weights = np.exp(world.log_w[some])[rows].tolist()
        slow = reference.doubly_robust(weights, *([part[i] for i in rows] for part in lists), normalised)
        arrays = world.log_w, world.rewards, world.values, world.taken - world.values
        fast = E.doubly_robust_return(
            *(jnp.asarray(x[some], dtype) for x in arrays), jnp.asarray(often, dtype), normalised=normalised
        )
        assert fast.dtype == dtype
        assert fast == pytest.approx(slow, rel=TIGHT if dtype == jnp.float64 else 1e-5)

    def test_its_slope_at_the_policy_that_acted_is_the_deterministic_policy_gradient(self):
        """s′ = 0.9 s + a, r = −s² − a²/5, a = θ₀ s + θ₁: with the true Q it is the slope of the true return."""
        theta, starts, length = jnp.array([-0.4, 0.1]), jnp.array([1.0, -0.5, 0.3]), 6

        def follow(theta, s, steps):
            """States, actions and the return of the policy."""
            seen, done, total = [], [], 0.0
            for _ in range(steps):
                a = theta[0] * s + theta[1]
                seen, done, total = [*seen, s], [*done, a], total - s**2 - a**2 / 5
                s = 0.9 * s + a
            return jnp.array(seen), jnp.array(done), total

        def Q(t, s, a):
            return -(s**2) - a**2 / 5 + follow(theta, 0.9 * s + a, length - 1 - t)[2]

        s, a = (jnp.stack(x) for x in zip(*(follow(theta, s0, length)[:2] for s0 in starts), strict=True))
        taken = jnp.stack([Q(t, s[:, t], a[:, t]) for t in range(length)], 1)

        def estimate(at, normalised):
            own = at[0] * s + at[1]
            log_w = jnp.cumsum(-0.5 * jnp.square((a - own) / 0.3), axis=1)
            values = jnp.stack([Q(t, s[:, t], own[:, t]) for t in range(length)], 1)
            return E.doubly_robust_return(
                log_w, -(s**2) - a**2 / 5, values, taken - values, normalised=normalised
            )

        truth = jax.grad(lambda at: jnp.mean(jnp.stack([follow(at, s0, length)[2] for s0 in starts])))(theta)
        for normalised in (True, False):
            np.testing.assert_allclose(jax.grad(estimate)(theta, normalised), truth, rtol=1e-8)
        assert np.all(np.abs(truth) > 0.1)

    def test_steps_after_the_end_and_padding_rows_have_no_influence(self):
        world = Enumerated(critic=self.any_critic())
        arrays = [world.log_w, world.rewards, world.values, world.taken - world.values]
        short = np.flatnonzero(~world.alive[:, -1])[:3]
        few = [jnp.asarray(x[short]) for x in arrays]
        padded = [jnp.pad(x, ((0, 2), (0, 0)), constant_values=50.0) for x in few]
        longer = [jnp.pad(few[0], ((0, 0), (0, 3)), "edge"), *(jnp.pad(x, ((0, 0), (0, 3))) for x in few[1:])]
        counts = jnp.array([1.0, 1, 1, 0, 0])
        for normalised in (True, False):
            alone = float(E.doubly_robust_return(*few, normalised=normalised))
            assert E.doubly_robust_return(*padded, counts, normalised=normalised) == pytest.approx(alone)
            assert E.doubly_robust_return(*longer, normalised=normalised) == pytest.approx(alone)
