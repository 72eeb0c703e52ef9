"""The surrogate against the oracle, its limits in Σ, and the table of log-likelihoods."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ddopg.core.surrogate as S
import ddopg.core.surrogate_data as V
from ddopg.config import Config, SelectionConfig, SurrogateConfig
from ddopg.core import estimators
from ddopg.core.acquisitions import OBJECTIVES
from ddopg.core.memory import Memory, add
from ddopg.core.selection import Selection
from ddopg.core.time_grid import SubsampledTrajectory
from ddopg.errors import ConfigError
from ddopg.policies import linear, mlp, squashed
from tests import reference
from tests.problems import random_problem, surrogate_data_of, trajectories_of

BEST = 0.4  # the highest estimate of a stored policy, as far as the acquisition functions are told


def config(problem, **changes):
    return SurrogateConfig(length_scale=tuple(problem.sigma), **changes)


def whole(surrogate, rows):
    return Config(surrogate=surrogate, selection=SelectionConfig(size=rows))


def remembered(problem):
    """All its trajectories in a memory."""
    memory = Memory()
    for trajectory in trajectories_of(problem):
        memory = add(memory, trajectory)
    return memory


def prepare(memory, selection, problem, rows, **changes):
    """The data for the problem's target, every parameter with scale 1."""
    sample = V.Sample(selection, np.ones(problem.policy.size), reward_scale=1.0)
    return V.prepare(memory, sample, problem.target, problem.policy, whole(config(problem, **changes), rows))[
        0
    ]


# One program per function, as in the learner: called operation by operation, JAX would compile hundreds.
by_config = partial(jax.jit, static_argnames=("policy", "chosen"))
subtract_initial_state_effect = jax.jit(V.subtract_initial_state_effect)
fit_inverse_temperature = jax.jit(V.fit_inverse_temperature)
fisher = jax.jit(S.fisher, static_argnums=(0, 3))
stored_returns = jax.jit(S.stored_returns, static_argnums=1)


@by_config
def log_likelihoods_of(policy, theta, paths, chosen):
    return jax.vmap(lambda path: S.log_likelihoods(policy, theta, path, config=chosen))(paths)


@partial(jax.jit, static_argnames="epsilon")
def log_mixtures(log_p, counts, epsilon):
    mixture = partial(estimators.log_mixture, counts=counts, epsilon=epsilon)
    return jax.vmap(mixture, in_axes=2, out_axes=1)(log_p)


@by_config
def estimate_of(policy, theta, held, bound, chosen):
    return S.estimate(S.log_weights(policy, theta, held, chosen), held, bound, chosen)


def log_likelihoods(problem, theta, **changes):
    """log p̃(τⱼ|θ) of every trajectory, the fast way: (N, K)."""
    arrays = map(jnp.asarray, (problem.observations, problem.actions, 1.0 * problem.alive))
    paths = SubsampledTrajectory(None, *arrays, None)
    return log_likelihoods_of(problem.policy, jnp.asarray(theta), paths, config(problem, **changes))


def data(problem, counts=None, epsilon=0.0, **changes):
    log_p = jnp.stack([log_likelihoods(problem, theta, **changes) for theta in problem.thetas])
    return surrogate_data_of(problem, log_mixtures(log_p, counts, epsilon), counts)


def estimated(problem, theta=None, **changes):
    return estimate(problem, problem.target if theta is None else theta, data(problem), **changes)


def estimate(problem, theta, held, bound=3.0, **changes):
    return estimate_of(problem.policy, jnp.asarray(theta), held, bound, config(problem, **changes))


def objectives(problem, held, unit, names=tuple(OBJECTIVES), policy=None, **changes):
    """A function of θ: the values of objectives of those names, in one program."""
    chosen = tuple(config(problem, objective=name, **changes) for name in names)
    return lambda theta: objectives_of(policy or problem.policy, theta, held, unit, chosen)


@by_config
def objectives_of(policy, theta, held, unit, chosen):
    log_w = S.log_weights(policy, theta, held, chosen[0])  # they differ in nothing else than the objective
    return jnp.stack([S.objective_value(log_w, held, unit, BEST, one) for one in chosen])


@partial(jax.jit, static_argnames=("policy", "chosen", "limit"))
def weights_and_gradient(policy, theta, held, chosen, limit):
    """A new program for each limit, which is looked at when one is made."""
    assert limit == S.MAX_ACTIVATIONS

    def gain(theta):
        log_w = S.log_weights(policy, theta, held, chosen)
        return S.objective_value(log_w, held, 2.0, BEST, chosen), log_w

    return jax.grad(gain, has_aux=True)(theta)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("seed", range(6))
class TestAgainstTheOracle:
    def test_evaluation_density(self, seed):
        rng = np.random.default_rng(seed)
        action, mean, sigma = [*rng.standard_normal((2, 3)), rng.uniform(0.5, 2, 3)]
        fast = S.evaluation_log_density(*map(jnp.asarray, (action, mean, sigma)))
        assert jnp.exp(fast) == pytest.approx(reference.normal_density(action, mean, sigma), rel=1e-9)

    def test_weights(self, seed):
        problem = random_problem(seed)
        mu = problem.slow_policy(problem.target)
        slow = reference.surrogate_weights(
            problem.slow_trajectories, problem.slow_policies, mu, problem.sigma
        )
        log_w = S.log_surrogate_weights(log_likelihoods(problem, problem.target), data(problem).log_q)
        np.testing.assert_allclose(jnp.exp(log_w[:, 0]), slow, rtol=1e-9)

    @pytest.mark.parametrize("estimator", ["weighted", "importance_sampling"])
    def test_estimate(self, seed, estimator):
        problem = random_problem(seed)
        mu = problem.slow_policy(problem.target)
        w = reference.surrogate_weights(problem.slow_trajectories, problem.slow_policies, mu, problem.sigma)
        R = problem.returns.tolist()
        mean = {"weighted": reference.weighted, "importance_sampling": reference.plain}[estimator](w, R)
        ess = reference.ess_self_normalised(w)
        fast = estimated(problem, estimator=estimator, delta=0.3)
        assert fast.mean == pytest.approx(mean, rel=1e-8)
        assert fast.variance == pytest.approx(reference.weighted_variance(w, R), rel=1e-8)
        assert fast.ess == pytest.approx(ess, rel=1e-8)
        assert fast.standard_error == pytest.approx(reference.standard_error(w, R), rel=1e-8)
        assert fast.lower_bound == pytest.approx(reference.lower_bound(mean, ess, 3.0, 0.3), rel=1e-8)
        np.testing.assert_allclose(fast.weights, np.array(w) / sum(w), rtol=1e-8)

    def test_the_baselined_estimate(self, seed):
        problem = random_problem(seed)
        mu = problem.slow_policy(problem.target)
        w = reference.surrogate_weights(problem.slow_trajectories, problem.slow_policies, mu, problem.sigma)
        for name in ("baselined", "gradient_baselined"):
            fast = estimated(problem, estimator=name).mean
            assert fast == pytest.approx(reference.baselined(w, problem.returns.tolist()), rel=1e-7)

    @pytest.mark.parametrize("cap", [0.2, 1.0, 50.0])
    def test_truncated_weights(self, seed, cap):
        problem = random_problem(seed)
        mu, R = problem.slow_policy(problem.target), problem.returns.tolist()
        w = reference.surrogate_weights(problem.slow_trajectories, problem.slow_policies, mu, problem.sigma)
        w = [min(value, cap) for value in w]
        for name, slow in (("weighted", reference.weighted), ("importance_sampling", reference.plain)):
            fast = estimated(problem, estimator=name, weight_cap=cap)
            assert fast.mean == pytest.approx(slow(w, R), rel=1e-8)
            assert fast.ess == pytest.approx(reference.ess_self_normalised(w), rel=1e-8)

    def test_objectives(self, seed):
        problem = random_problem(seed)
        mu = problem.slow_policy(problem.target)
        w = reference.surrogate_weights(problem.slow_trajectories, problem.slow_policies, mu, problem.sigma)
        mean = reference.weighted(w, problem.returns.tolist())
        ess = reference.ess_self_normalised(w)
        expected = {
            "penalty": (mean + reference.penalty(ess, 3.0, 0.07)) / 3.0,
            "lower_bound": reference.lower_bound(mean, ess, 3.0, 0.3) / 3.0,
            "ess_bonus": mean / 3.0 + 0.07 * ess / len(w),
        }
        deviation = reference.standard_error(w, problem.returns.tolist())
        z = (mean - BEST) / deviation
        expected |= {
            "lower_confidence": (mean - 1.5 * deviation) / 3.0,
            "upper_confidence": (mean + 1.5 * deviation) / 3.0,
            "probability_of_improvement": scipy.stats.norm.logcdf(z),
            "expected_improvement": reference.expected_improvement(mean, deviation, BEST) / 3.0,
        }
        assert set(expected) == set(OBJECTIVES)
        value = objectives(problem, data(problem), 3.0, tuple(expected), penalty=0.07, delta=0.3, width=1.5)
        found = value(jnp.asarray(problem.target))
        for fast, (name, slow) in zip(found, expected.items(), strict=True):
            # The deviation has a floor of 10⁻⁴ units; everything else is exact.
            assert fast == pytest.approx(slow, rel=1e-5, abs=1e-6), name

    @pytest.mark.parametrize("decisions", [0, 5])
    def test_weights_are_the_same_at_once_and_one_by_one(self, seed, decisions, monkeypatch):
        problem = random_problem(seed)
        held, chosen = data(problem, decisions=decisions), config(problem, decisions=decisions)
        theta = jnp.asarray(problem.target)

        at_once = weights_and_gradient(problem.policy, theta, held, chosen, limit=S.MAX_ACTIVATIONS)
        monkeypatch.setattr(S, "MAX_ACTIVATIONS", 0)
        one_by_one = weights_and_gradient(problem.policy, theta, held, chosen, limit=0)
        for first, second in zip(at_once, one_by_one, strict=True):
            np.testing.assert_allclose(second, first, rtol=1e-10, atol=1e-12)
        expected = log_likelihoods(problem, theta, decisions=decisions) - held.log_q
        np.testing.assert_allclose(at_once[1], expected, rtol=1e-10)

    @pytest.mark.parametrize("padding", [0, 3])
    def test_weights_are_the_same_from_the_steps_that_count_alone(self, seed, padding):
        problem = random_problem(seed)
        held, chosen = data(problem), config(problem)
        theta, limit = jnp.asarray(problem.target), S.MAX_ACTIVATIONS
        real = np.flatnonzero(np.asarray(held.step_counts))
        assert len(real) < held.step_counts.size, "a problem whose episodes are all full shows nothing"
        places = jnp.asarray(np.pad(real, (0, padding), constant_values=held.step_counts.size))

        of_all = weights_and_gradient(problem.policy, theta, held, chosen, limit)
        of_real = weights_and_gradient(problem.policy, theta, held._replace(real=places), chosen, limit)
        for first, second in zip(of_all, of_real, strict=True):
            np.testing.assert_allclose(second, first, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("epsilon", [1e-8, 0.3])
    def test_released_epsilon(self, seed, epsilon):
        problem = random_problem(seed, noise=0.5)  # with noise the largest likelihood of a path is not 1
        slow = reference.released_estimate(
            problem.slow_trajectories,
            problem.slow_policies,
            problem.returns.tolist(),
            problem.slow_policy(problem.target),
            problem.sigma,
            epsilon,
        )
        held = data(problem, epsilon=epsilon)
        target = jnp.asarray(problem.target)
        fast = estimate(problem, target, held, epsilon=epsilon)
        assert (float(fast.mean), float(fast.ess)) == pytest.approx(slow, rel=1e-7)


@pytest.mark.usefixtures("float64")
class TestLimits:
    def test_a_tiny_length_scale_gives_each_policy_its_own_monte_carlo_return(self):
        problem = random_problem(1, sigma=(1e-3, 1e-3))
        for theta, own in zip(problem.thetas, problem.returns, strict=True):
            found = estimated(problem, theta)
            assert found.mean == pytest.approx(own, abs=1e-9)
            assert found.ess == pytest.approx(1, abs=1e-9)

    def test_a_tiny_length_scale_averages_the_returns_of_the_same_policy(self):
        problem = random_problem(1, sigma=(1e-3, 1e-3))
        thetas = problem.thetas.copy()
        thetas[1] = thetas[0]
        actions = np.stack(
            [problem.policy.act(t, o) for t, o in zip(thetas, problem.observations, strict=True)]
        )
        problem = problem._replace(thetas=thetas, actions=actions)
        assert estimated(problem, thetas[0]).mean == pytest.approx(problem.returns[:2].mean(), abs=1e-9)

    def test_a_tiny_cap_gives_the_plain_average_with_normalised_weights_and_nothing_without(self):
        problem = random_problem(1)
        found = estimated(problem, weight_cap=1e-9)
        assert found.mean == pytest.approx(problem.returns.mean(), abs=1e-6)
        assert found.ess == pytest.approx(len(problem.returns), rel=1e-6)
        assert abs(estimated(problem, estimator="importance_sampling", weight_cap=1e-9).mean) < 1e-8

    def test_a_cap_that_no_weight_reaches_changes_nothing(self):
        problem = random_problem(1)
        without = estimated(problem)
        for cap in (0.0, 1.001 * len(problem.returns)):
            assert estimated(problem, weight_cap=cap).mean == without.mean

    def test_a_trajectory_at_the_cap_has_no_slope(self):
        log_w = jnp.array([-1.0, 0.5, 2.0])
        slope = jax.grad(lambda x: jnp.sum(jnp.exp(estimators.truncate_weights(x, 2.0))))(log_w)
        np.testing.assert_allclose(slope, [np.exp(-1.0), np.exp(0.5), 0.0])

    def test_a_huge_length_scale_gives_the_plain_average(self):
        problem = random_problem(1, sigma=(1e6, 1e6))
        for estimator in ("weighted", "importance_sampling"):
            found = estimated(problem, estimator=estimator)
            assert found.mean == pytest.approx(problem.returns.mean(), abs=1e-6)
            assert found.ess == pytest.approx(len(problem.returns), rel=1e-6)

    def test_the_noise_of_stochastic_rollouts_as_length_scale_gives_the_true_importance_sampling_estimate(
        self,
    ):
        sigma = (0.7, 1.3)
        problem = random_problem(4, sigma=sigma, noise=1.0)
        log_pi = [
            [sum(np.log(reference.normal_density(a, problem.slow_policy(t)(o), sigma)) for o, a in path)
             for path in problem.slow_trajectories]
            for t in [problem.target, *problem.thetas]
        ]  # fmt: skip
        log_w = estimators.log_mixture_weights(jnp.asarray(log_pi[0]), jnp.asarray(log_pi[1:]))
        true = estimators.weighted_importance_sampling_return(log_w, jnp.asarray(problem.returns))
        assert estimated(problem).mean == pytest.approx(float(true), rel=1e-9)

    def test_the_estimate_stays_between_the_lowest_and_the_highest_return(self):
        for seed in range(20):
            problem = random_problem(seed, spread=1.0)
            assert problem.returns.min() - 1e-12 <= estimated(problem).mean <= problem.returns.max() + 1e-12


@pytest.mark.usefixtures("float64")
class TestGradient:
    def test_proposition_1_is_autodiff_is_finite_differences(self):
        problem = random_problem(2)
        held, target = data(problem), jnp.asarray(problem.target)

        def mean(theta):
            return estimate(problem, theta, held).mean

        def log_p(theta):
            return log_likelihoods(problem, theta)[:, 0]

        log_w = S.log_surrogate_weights(log_p(target), held.log_q[:, 0])
        proposition = estimators.weighted_gradient(log_w, jax.jacobian(log_p)(target), held.returns)
        steps = 1e-6 * np.eye(len(target))
        differences = [(mean(target + h) - mean(target - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(proposition, jax.grad(mean)(target), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(proposition, differences, rtol=1e-5, atol=1e-8)

    def test_the_whole_objective_has_the_gradient_of_finite_differences_for_a_squashed_network(self):
        problem = random_problem(5)
        policy = squashed(mlp(3, 2, (4,)), (-1.0, -2.0), (1.0, 3.0))
        theta = jnp.asarray(np.random.default_rng(0).standard_normal(policy.size))
        values = objectives(problem, data(problem), 3.0, policy=policy)
        differences = [(values(theta + h) - values(theta - h)) / 2e-6 for h in 1e-6 * np.eye(len(theta))]
        gradients = jax.jit(jax.jacrev(values))(theta)
        assert gradients.shape == (len(OBJECTIVES), policy.size)
        np.testing.assert_allclose(gradients, np.transpose(differences), rtol=1e-4, atol=1e-8)

    @pytest.mark.parametrize("decisions", [0, 5])
    def test_the_gradient_with_its_own_baselines_is_the_formula_and_leaves_the_value(self, decisions):
        problem = random_problem(6, number=8)
        chosen = config(problem, decisions=decisions, estimator="gradient_baselined")
        held, target = data(problem, decisions=decisions), jnp.asarray(problem.target)
        times = held.log_q.shape[1]
        rewards = jnp.asarray(np.random.default_rng(0).standard_normal((8, times)))
        held, scale = held._replace(rewards=rewards), jnp.linspace(0.5, 2.0, problem.policy.size)

        def mean(theta):
            known = S.add_score_norms(problem.policy, theta, scale, held, chosen)
            return S.surrogate_return(S.log_weights(problem.policy, theta, known, chosen), known, chosen)

        log_w = S.log_weights(problem.policy, target, held, chosen)
        scores = jax.jit(jax.jacobian(lambda theta: log_likelihoods(problem, theta, decisions=decisions)))(
            target
        )
        expected = sum(
            estimators.baselined_gradient(log_w[:, k], scale[None, :] * scores[:, k], rewards[:, k])
            for k in range(times)
        )
        value, slope = jax.jit(jax.value_and_grad(mean))(target)
        np.testing.assert_allclose(scale * slope, expected, rtol=1e-9, atol=1e-12)
        assert value == pytest.approx(float(S.baselined(log_w, held, chosen)), rel=1e-12)

    def test_a_lone_trajectory_is_a_stationary_point(self):
        problem = random_problem(0, number=1)
        values = objectives(problem, data(problem), 1.0, ("penalty", "lower_bound", "ess_bonus"))
        gradients = jax.jit(jax.jacrev(values))(jnp.asarray(problem.thetas[0]))
        np.testing.assert_allclose(gradients, 0, atol=1e-12)


@pytest.mark.usefixtures("float64")
class TestStandardError:
    def test_it_grows_away_from_the_data_up_to_the_spread_of_all_returns(self):
        """On average over returns: those of the last two that speak may be far apart, or alike, by chance."""
        problem = random_problem(3, number=12)
        away = np.random.default_rng(1).standard_normal(problem.policy.size)
        drawn = np.random.default_rng(2).standard_normal((300, 12))

        def errors(distance):
            log_w = S.log_weights(problem.policy, problem.thetas[0] + distance * away, held, config(problem))
            found = jax.vmap(
                lambda R: S.estimate(log_w, held._replace(rewards=R[:, None]), 3.0, config(problem))
            )
            belief = found(jnp.asarray(drawn))
            return jnp.mean(belief.standard_error), jnp.mean(jnp.sqrt(belief.variance / belief.ess))

        held, spread = data(problem), np.mean(np.std(drawn, axis=1))
        ours, naive = np.transpose([errors(distance) for distance in (0.3, 0.6, 1.0, 1.5, 3.0, 9.0)])
        assert np.all(np.diff(ours) > 0)
        assert ours[0] < 0.6 * spread
        assert ours[-1] == pytest.approx(spread, rel=1e-3)
        assert naive[-1] < 0.01 * spread, "the weighted variance alone looks certain here"

    def test_acquisition_functions_see_it(self):
        problem = random_problem(3, number=12)
        held, far = data(problem), jnp.full(problem.policy.size, 30.0)
        above, below = objectives(problem, held, 2.0, ("upper_confidence", "lower_confidence"), width=1.5)(
            far
        )
        assert above - below == pytest.approx(2 * 1.5 * float(np.std(problem.returns)) / 2.0, rel=1e-3)

    def test_weights_without_knowledge_of_the_returns_show_the_variance_of_the_mean(self):
        """V + V₀/ESS is σ² on average, so that the error is that of a mean of ESS independent returns."""
        rng = np.random.default_rng(0)
        log_w = jnp.asarray(1.5 * rng.standard_normal(10))
        R = jnp.asarray(rng.normal(3.0, 2.0, (20_000, 10)))
        variance = jax.vmap(estimators.return_variance, in_axes=(None, 0))(log_w, R)
        ess = estimators.effective_sample_size(log_w)
        squared = jnp.square(estimators.standard_error(variance, ess, jnp.asarray(4.0)))
        means = jax.vmap(estimators.weighted_importance_sampling_return, in_axes=(None, 0))(log_w, R)
        assert jnp.mean(squared) == pytest.approx(float(jnp.var(means)), rel=0.03)

    def test_equal_returns_leave_a_finite_slope(self):
        problem = random_problem(3)._replace(returns=np.full(6, 2.0))
        names = ("upper_confidence", "expected_improvement", "probability_of_improvement")
        values = objectives(problem, data(problem), 1.0, names)
        assert np.all(np.isfinite(jax.jit(jax.jacrev(values))(jnp.asarray(problem.target))))


@pytest.mark.usefixtures("float64")
def test_steps_after_the_end_have_no_influence():
    problem = random_problem(3)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(problem.actions.shape) * ~problem.alive[..., None]
    disturbed = problem._replace(actions=problem.actions + 9 * noise)
    assert estimated(disturbed).mean == pytest.approx(float(estimated(problem).mean), rel=1e-12)


@pytest.mark.usefixtures("float64")
def test_longer_padding_changes_nothing():
    problem = random_problem(3)
    longer = problem._replace(
        observations=np.pad(problem.observations, ((0, 0), (0, 4), (0, 0))),
        actions=np.pad(problem.actions, ((0, 0), (0, 4), (0, 0))),
        alive=np.pad(problem.alive, ((0, 0), (0, 4))),
    )
    assert estimated(longer).mean == pytest.approx(float(estimated(problem).mean), rel=1e-12)


def test_float32_value_and_gradient_are_finite_when_every_log_density_is_below_minus_a_million():
    problem = random_problem(0, sigma=(1e-4, 1e-4), noise=1.0)  # even the own policy is far away
    log_p = jnp.stack([log_likelihoods(problem, theta) for theta in problem.thetas])
    assert log_p.dtype == jnp.float32
    assert jnp.max(log_p) < -1e6
    values, target = objectives(problem, data(problem), 1.0), jnp.asarray(problem.target)
    assert np.all(np.isfinite(values(target)))
    assert np.all(np.isfinite(jax.jit(jax.jacrev(values))(target)))


class TestPrepare:
    def test_the_data_are_those_of_the_selected_trajectories(self):
        problem = random_problem(7)
        chosen = Selection(np.array([1, 4, 5]), np.array([2, 1, 1]))
        held = prepare(remembered(problem), chosen, problem, 8)
        rows = np.array([1, 1, 4, 5])
        part = problem._replace(
            **{
                name: getattr(problem, name)[rows]
                for name in ("thetas", "observations", "actions", "alive", "returns")
            }
        )
        target = jnp.asarray(problem.target, jnp.float32)
        fast = estimate(problem, target, held)
        slow = estimated(part)
        assert fast.mean == pytest.approx(float(slow.mean), rel=1e-5)
        assert fast.ess == pytest.approx(float(slow.ess), rel=1e-5)
        assert held.observations.shape[0] == 8

    def test_padding_rows_change_nothing(self):
        problem = random_problem(7)
        memory, chosen = remembered(problem), Selection(np.arange(6), np.ones(6, int))
        target = jnp.asarray(problem.target, jnp.float32)
        prepared = [prepare(memory, chosen, problem, rows) for rows in (6, 11)]
        found = [estimate(problem, target, held) for held in prepared]
        for a, b in zip(found[0][:4], found[1][:4], strict=True):
            assert a == pytest.approx(float(b), rel=1e-5)

    def test_a_length_scale_per_action_dimension_must_fit_the_action(self):
        with pytest.raises(ConfigError, match="1 value or 2"):
            S.length_scales(linear(1, 2), SurrogateConfig(length_scale=(1.0, 2.0, 3.0)))
        np.testing.assert_allclose(
            S.length_scales(linear(1, 3), SurrogateConfig(length_scale=(2.0,))), [2, 2, 2]
        )

    def test_the_length_scale_of_a_squashed_policy_is_in_units_of_half_the_action_range(self):
        policy = squashed(linear(1, 2), (-1.0, 0.0), (1.0, 6.0))
        scales = S.length_scales(policy, SurrogateConfig(length_scale=(0.5,)))
        np.testing.assert_allclose(scales, [0.5, 1.5])


@pytest.mark.usefixtures("float64")
class TestPerDecisionWeights:
    def problem(self, seed=0, **changes):
        problem = random_problem(seed, **changes)
        rewards = np.random.default_rng(seed).standard_normal(problem.alive.shape) * problem.alive
        return problem, rewards

    @pytest.mark.parametrize("seed", range(4))
    def test_they_agree_with_the_oracle(self, seed):
        problem, rewards = self.problem(seed)
        slow = reference.per_decision(
            problem.slow_trajectories,
            problem.slow_policies,
            rewards.tolist(),
            problem.slow_policy(problem.target),
            problem.sigma,
        )
        held = data(problem, decisions=5)._replace(rewards=jnp.asarray(rewards))
        fast = estimate(problem, problem.target, held, decisions=5)
        assert fast.mean == pytest.approx(slow, rel=1e-8)

    def test_the_last_weights_are_those_of_whole_paths(self):
        problem, _ = self.problem()
        whole = log_likelihoods(problem, problem.target)
        prefixes = log_likelihoods(problem, problem.target, decisions=5)
        np.testing.assert_allclose(prefixes[:, -1], whole[:, 0], rtol=1e-12)

    def test_what_happens_after_a_reward_does_not_change_its_weight(self):
        problem, _ = self.problem()
        problem = problem._replace(alive=np.ones_like(problem.alive))
        rewards = np.zeros(problem.alive.shape)
        rewards[:, 1] = problem.returns  # everything is earned in the second step

        def mean(problem):
            held = data(problem, decisions=5)._replace(rewards=jnp.asarray(rewards))
            return float(estimate(problem, problem.target, held, decisions=5).mean)

        actions = problem.actions.copy()
        actions[:, 2:] += 0.5 * np.random.default_rng(1).standard_normal(actions[:, 2:].shape)
        assert mean(problem._replace(actions=actions)) == pytest.approx(mean(problem), rel=1e-12)

    def test_one_stretch_of_time_is_the_weighted_estimate(self):
        log_w, R = jnp.asarray([[0.3], [-1.0], [0.5]]), jnp.asarray([[1.0], [5.0], [-2.0]])
        assert estimators.per_decision_return(log_w, R) == pytest.approx(
            float(estimators.weighted_importance_sampling_return(log_w[:, 0], R[:, 0]))
        )


@pytest.mark.usefixtures("float64")
class TestLengthScaleFromTheData:
    @staticmethod
    def tables(problem):
        table = jnp.stack([log_likelihoods(problem, theta)[:, 0] for theta in problem.thetas])
        return table, log_likelihoods(problem, problem.target)[:, 0]

    @pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
    def test_the_ess_at_the_centre_is_the_share_asked_for(self, share):
        table, at = self.tables(random_problem(3, number=10))
        c = fit_inverse_temperature(table, at, jnp.ones(10), share)
        ess = estimators.effective_sample_size(c * at - estimators.log_mixture(c * table))
        assert ess == pytest.approx(10 * share, rel=1e-4)

    def test_the_prepared_data_have_that_share_at_the_centre(self):
        problem = random_problem(3, number=10)
        selection = Selection(np.arange(10), np.ones(10, int))
        held = prepare(remembered(problem), selection, problem, 12, ess_share=0.4)
        assert estimate(problem, problem.target, held, ess_share=0.4).ess == pytest.approx(4, rel=1e-3)
        expected = held.inverse_temperature * self.tables(problem)[0]
        np.testing.assert_allclose(held.log_p[:10, :10, 0], expected, rtol=1e-4, atol=1e-4)

    def test_the_length_scale_in_use_given_by_hand_does_the_same(self):
        problem = random_problem(3, number=10)
        memory, selection = remembered(problem), Selection(np.arange(10), np.ones(10, int))
        held = prepare(memory, selection, problem, 12, ess_share=0.4)
        scale = V.length_scale_in_use(problem.policy, held, config(problem, ess_share=0.4))
        sigma = problem.sigma * scale / scipy.stats.gmean(problem.sigma)
        given = prepare(memory, selection, problem._replace(sigma=sigma), 12)
        assert given.inverse_temperature == 1
        np.testing.assert_allclose(given.log_p, held.log_p, rtol=1e-3, atol=1e-4)

    def test_it_is_the_geometric_mean_where_actions_differ(self):
        chosen = SurrogateConfig(length_scale=(0.5, 8.0))
        held = SimpleNamespace(inverse_temperature=jnp.asarray(4.0))
        assert V.length_scale_in_use(linear(1, 2), held, chosen) == pytest.approx(2.0 / 2)

    def test_padding_rows_do_not_count(self):
        table, at = self.tables(random_problem(3, number=6))
        alone = fit_inverse_temperature(table, at, jnp.ones(6), 0.5)
        padded = fit_inverse_temperature(
            jnp.pad(table, ((0, 3), (0, 3))), jnp.pad(at, (0, 3)), jnp.pad(jnp.ones(6), (0, 3)), 0.5
        )
        assert padded == pytest.approx(float(alone), rel=1e-6)

    def test_units_of_the_action_do_not_matter(self):
        table, at = self.tables(random_problem(3, number=10))
        c, d = (fit_inverse_temperature(f * table, f * at, jnp.ones(10), 0.3) for f in (1.0, 100.0))
        assert c == pytest.approx(100 * float(d), rel=1e-5)


@pytest.mark.usefixtures("float64")
class TestStartCorrection:
    """What the start explains is not due to the policy."""

    @staticmethod
    def data(seed=0, number=40, noise=0.1, start_effect=(3.0, -2.0, 0.0), policy_effect=0.0):
        """Rewards of two stretches: both effects in the first, noise in both; the starts; the policies."""
        rng = np.random.default_rng(seed)
        starts, policies = rng.standard_normal((number, 3)), rng.standard_normal((number, 2))
        deserved = noise * rng.standard_normal((number, 2))
        deserved[:, 0] += policy_effect * np.sin(policies[:, 0])
        rewards = deserved.copy()
        rewards[:, 0] += starts @ np.array(start_effect)
        return jnp.asarray(rewards), jnp.asarray(starts), jnp.asarray(policies), deserved

    @pytest.mark.parametrize("policy_effect", [0.0, 3.0])
    def test_what_the_start_explains_is_taken_away(self, policy_effect):
        rewards, starts, policies, deserved = self.data(policy_effect=policy_effect)
        corrected = subtract_initial_state_effect(rewards, starts, policies, jnp.ones(40))
        wrong = (rewards - deserved)[:, 0], (corrected - deserved)[:, 0]
        assert np.std(wrong[1]) < 0.15 * np.std(wrong[0])
        assert corrected.mean() == pytest.approx(float(rewards.mean()), abs=1e-9)

    def test_what_policies_explain_is_not_taken_for_the_start(self):
        """Beside a strong effect of the policies the start's share is found only if both are explained together."""
        rewards, starts, policies, deserved = self.data(number=25, policy_effect=30.0)
        together = subtract_initial_state_effect(rewards, starts, policies, jnp.ones(25))
        apart = subtract_initial_state_effect(rewards, starts, jnp.zeros_like(policies), jnp.ones(25))
        assert np.std(together - deserved) < 0.5 * np.std(apart - deserved)

    def test_each_stretch_is_judged_by_itself(self):
        rewards, starts, policies, deserved = self.data()
        drowned = rewards.at[:, 1].add(100 * np.random.default_rng(1).standard_normal(40))
        corrected = subtract_initial_state_effect(drowned, starts, policies, jnp.ones(40))
        assert np.std((corrected - deserved)[:, 0]) < 0.3

    def test_a_start_that_explains_nothing_changes_nothing(self):
        rewards, starts, policies, _ = self.data(start_effect=(0.0, 0.0, 0.0))
        corrected = subtract_initial_state_effect(rewards, starts, policies, jnp.ones(40))
        np.testing.assert_array_equal(corrected, rewards)

    def test_units_of_start_and_reward_do_not_matter_and_a_constant_entry_does_no_harm(self):
        rewards, starts, policies, _ = self.data(policy_effect=1.0)
        base = subtract_initial_state_effect(rewards, starts, policies, jnp.ones(40))
        moved = starts * jnp.array([[1e3, 1e-3, 1.0]]) + 5
        scaled = subtract_initial_state_effect(7 * rewards, moved, 100 * policies, jnp.ones(40))
        np.testing.assert_allclose(scaled, 7 * base, rtol=1e-6, atol=1e-6)
        with_constant = subtract_initial_state_effect(
            rewards, starts.at[:, 2].set(4.0), policies, jnp.ones(40)
        )
        assert np.isfinite(with_constant).all()

    def test_padding_rows_do_not_count(self):
        rewards, starts, policies, _ = self.data(number=12, start_effect=(1.0, -1.0, 0.0), policy_effect=5.0)
        alone = subtract_initial_state_effect(rewards, starts, policies, jnp.ones(12))
        rows = ((0, 5), (0, 0))
        padded = subtract_initial_state_effect(
            *(jnp.pad(x, rows) for x in (rewards, starts, policies)), jnp.pad(jnp.ones(12), (0, 5))
        )
        assert not np.allclose(alone, rewards)
        np.testing.assert_allclose(padded[:12], alone, rtol=1e-9)

    def test_the_left_out_errors_are_those_of_fits_without_the_trajectory(self):
        """The choice of explanation rests on them: here the slow way, one fit per left-out trajectory."""
        rewards, starts, policies = (np.asarray(values) for values in self.data(number=10, noise=1.0)[:3])
        corrected = subtract_initial_state_effect(
            *map(jnp.asarray, (rewards, starts, policies)), jnp.ones(10)
        )
        x, y = (starts - starts.mean(0)) / starts.std(0), rewards - rewards.mean(0)
        distances = np.square(policies[:, None] - policies[None]).sum(-1)
        kernel = np.exp(-distances / (0.6 * np.median(distances[distances > 0])))
        for k in range(2):
            errors, parts = [], []
            for by_start, by_policy in ((0, 0), (0, 1), (1, 0), (1, 1)):
                covariance = 1 + by_start * x @ x.T + by_policy * 10 * kernel
                error = 0.0
                for i in range(10):
                    rest = np.delete(np.arange(10), i)
                    inside = covariance[np.ix_(rest, rest)] + np.eye(9)
                    error += (y[i, k] - covariance[i, rest] @ np.linalg.solve(inside, y[rest, k])) ** 2
                errors.append(error)
                parts.append(by_start * x @ x.T @ np.linalg.solve(covariance + np.eye(10), y[:, k]))
            expected = rewards[:, k] - parts[int(np.argmin(errors))]
            np.testing.assert_allclose(corrected[:, k], expected, rtol=1e-9, atol=1e-9)

    def test_a_single_trajectory_stays_as_it_is(self):
        rewards = jnp.asarray([[1.0, 2.0]])
        corrected = subtract_initial_state_effect(
            rewards, jnp.asarray([[0.3, 0.2]]), jnp.ones((1, 2)), jnp.ones(1)
        )
        np.testing.assert_allclose(corrected, rewards)


@pytest.mark.usefixtures("float64")
class TestStoredPolicies:
    def test_the_table_says_the_same_as_a_new_look_at_each_stored_policy(self):
        problem = random_problem(2)
        memory, selection = remembered(problem), Selection(np.arange(6), np.ones(6, int))
        for changes in ({}, {"decisions": 5, "ess_share": 0.5}, {"weight_cap": 0.8}):
            held = prepare(memory, selection, problem, 8, **changes)
            stored = stored_returns(held, config(problem, **changes))
            fresh = [estimate(problem, theta, held, **changes).mean for theta in problem.thetas]
            np.testing.assert_allclose(stored[:6], fresh, rtol=1e-4, atol=1e-5)
            assert np.all(np.isneginf(stored[6:]))


@pytest.mark.usefixtures("float64")
class TestFisher:
    def test_it_is_the_curvature_of_the_log_density_between_policies(self):
        """½ ΔᵀFΔ is the mean drop of log p̃ per step when θ moves by a small Δ away from the policy that acted."""
        problem = random_problem(1, number=1, horizon=40)
        problem = problem._replace(alive=np.ones_like(problem.alive))
        actions = np.stack([problem.policy.act(problem.thetas[0], o) for o in problem.observations[0]])[None]
        problem = problem._replace(actions=actions)
        F = fisher(problem.policy, jnp.asarray(problem.thetas[0]), data(problem), config(problem))
        step = 1e-3 * np.random.default_rng(0).standard_normal(problem.policy.size)
        drop = -log_likelihoods(problem, problem.thetas[0] + step)[0, 0] / 40
        assert drop == pytest.approx(float(0.5 * step @ F @ step), rel=1e-6)

    def test_it_is_an_average_with_the_weights_and_counts_of_the_surrogate(self):
        problem = random_problem(1, number=3)
        counts, theta = jnp.array([3.0, 0.0, 1.0]), jnp.asarray(problem.target)
        held, chosen = data(problem, counts)._replace(inverse_temperature=jnp.asarray(0.7)), config(problem)
        w = np.exp(S.log_weights(problem.policy, theta, held, chosen)[:, 0])
        total, steps = 0.0, 0.0
        for i, path in enumerate(problem.slow_trajectories):
            for observation, _ in path:
                J = jax.jacobian(problem.policy.act)(theta, jnp.asarray(observation))
                total = total + counts[i] * w[i] * (J / problem.sigma[:, None] ** 2).T @ J
                steps += counts[i] * w[i]
        expected = 0.7 * total / steps
        np.testing.assert_allclose(S.fisher(problem.policy, theta, held, chosen), expected, rtol=1e-9)

    def test_dead_steps_do_not_count(self):
        problem = random_problem(1)
        theta = jnp.asarray(problem.target)
        disturbed = problem._replace(observations=problem.observations + 9.0 * ~problem.alive[..., None])
        held = [
            data(problem)._replace(observations=jnp.asarray(p.observations)) for p in (problem, disturbed)
        ]
        a, b = (fisher(problem.policy, theta, h, config(problem)) for h in held)
        np.testing.assert_allclose(a, b, rtol=1e-9)
