"""Exploration measured by effect: what a parameter does, not what its number is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.core.param_scaling import (
    AT_ONCE,
    LINEAR_SHARE,
    WIDEST_CONSTANT,
    param_scale,
    param_sensitivity,
    raw_output_size,
    sample_constant_policy,
    sample_params,
)
from ddopg.core.types import make_trajectory
from ddopg.policies import linear, mlp, squashed


def path(policy, theta, observations, horizon=None):
    observations = np.asarray(observations, np.float32)
    actions = np.stack([policy.act(theta, o) for o in observations])
    return make_trajectory(
        theta, observations, actions, np.zeros(len(actions)), horizon=horizon or len(actions)
    )


class TestEffects:
    def test_in_a_linear_policy_they_are_the_mean_squares_of_the_features(self):
        observations = np.random.default_rng(0).standard_normal((20, 3))
        policy = squashed(linear(3, 2), (-1.0, -1.0), (1.0, 1.0))
        theta = np.random.default_rng(1).standard_normal(policy.size).astype(np.float32)
        found = param_sensitivity(policy, path(policy, theta, observations, horizon=25))
        squares = np.mean(np.square(observations), axis=0)
        np.testing.assert_allclose(found, [*np.repeat(squares, 2), 1, 1], rtol=1e-5)

    def test_they_are_taken_before_the_squashing(self):
        """A saturated policy would otherwise seem to have no effect at all."""
        policy = squashed(linear(1, 1), (-1.0,), (1.0,))
        found = param_sensitivity(policy, path(policy, np.array([100.0, 0.0], np.float32), np.ones((4, 1))))
        np.testing.assert_allclose(found, [1, 1])

    def test_in_a_network_they_are_squared_derivatives(self):
        policy = mlp(2, 2, (3,))
        theta = np.random.default_rng(0).standard_normal(policy.size).astype(np.float32)
        observation = np.array([0.4, -1.2], np.float32)
        found = param_sensitivity(policy, path(policy, theta, observation[None]))
        for d in range(policy.size):
            h = np.zeros(policy.size, np.float32)
            h[d] = 1e-2
            slopes = (policy.act(theta + h, observation) - policy.act(theta - h, observation)) / 2e-2
            assert found[d] == pytest.approx(np.sum(slopes**2), rel=2e-2, abs=1e-4)

    def test_of_a_long_path_and_many_parameters_they_are_the_mean_of_those_of_its_pieces(self):
        """Block by block there, in one piece here."""
        rng, policy = np.random.default_rng(0), mlp(3, 2, (64, 64))
        theta = (0.3 * rng.standard_normal(policy.size)).astype(np.float32)
        observations = rng.standard_normal((500, 3))
        assert 250 * 2 * policy.size <= AT_ONCE < 500 * 2 * policy.size
        pieces = [param_sensitivity(policy, path(policy, theta, some)) for some in np.split(observations, 2)]
        whole = param_sensitivity(policy, path(policy, theta, observations, horizon=510))
        np.testing.assert_allclose(whole, np.mean(pieces, axis=0), rtol=1e-4)

    def test_steps_after_the_end_do_not_count(self):
        policy, theta = linear(1, 1), np.zeros(2, np.float32)
        short = param_sensitivity(policy, path(policy, theta, np.full((3, 1), 2.0), horizon=3))
        padded = param_sensitivity(policy, path(policy, theta, np.full((3, 1), 2.0), horizon=9))
        np.testing.assert_allclose(padded, short)


class TestUnits:
    def test_a_unit_of_each_parameter_changes_the_output_by_one(self):
        np.testing.assert_allclose(param_scale(np.array([4.0, 0.25])), [0.5, 2.0])

    def test_a_parameter_without_effect_is_left_alone(self):
        unit = param_scale(np.array([1.0, 0.0]))
        assert unit[1] == 0
        assert sample_params(np.random.default_rng(0), unit, 1.0)[1] == 0
        assert np.isfinite(raw_output_size(jnp.array([1.0, 5.0]), jnp.asarray(unit), 1))

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    def test_scattered_policies_have_the_output_asked_for_whatever_the_observation_scale(self, scale):
        rng = np.random.default_rng(0)
        observations = (scale * rng.standard_normal((500, 4))).astype(np.float32)
        policy = linear(4, 2)
        unit = param_scale(
            param_sensitivity(policy, path(policy, np.zeros(policy.size, np.float32), observations))
        )
        outputs = [policy.act(sample_params(rng, unit, 1.5), observations) for _ in range(300)]
        assert np.sqrt(np.mean(np.sum(np.square(outputs), axis=-1))) == pytest.approx(1.5, rel=0.05)

    def test_a_linear_path_has_its_share_of_the_effect_however_large_the_network_is(self):
        rng = np.random.default_rng(0)
        observations = rng.standard_normal((400, 3)).astype(np.float32)
        for hidden in ((4,), (64,)):
            policy = mlp(3, 1, hidden, linear_path=True)
            origin = np.asarray(policy.init(jax.random.key(0)))
            sensitivity = param_sensitivity(policy, path(policy, origin, observations))
            scale = param_scale(sensitivity, policy.linear_params)
            part = np.arange(policy.size) < policy.size - policy.linear_params
            slopes = np.asarray(
                jax.jacrev(jax.vmap(policy.act, (None, 0)))(jnp.asarray(origin), observations)
            )[:, 0]
            effects = np.array(
                [
                    [np.mean(np.square(slopes @ np.where(chosen, step, 0))) for chosen in (part, ~part)]
                    for step in (sample_params(rng, scale, 1.0) for _ in range(300))
                ]
            ).mean(axis=0)
            np.testing.assert_allclose(effects, [1 - LINEAR_SHARE, LINEAR_SHARE], rtol=0.15)

    def test_raw_size_is_the_sum_of_squares_in_units_per_output(self):
        theta, unit = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, 2.0, 1.0, 2.0])
        assert raw_output_size(theta, unit, 2) == pytest.approx((1 + 1 + 9 + 4) / 2)


@pytest.mark.parametrize(
    "policy",
    [linear(3, 2), mlp(3, 2, (5,)), mlp(3, 2, (5,), linear_path=True)],
    ids=["linear", "mlp", "linear path"],
)
def test_a_constant_policy_does_the_same_whatever_it_sees(policy):
    theta = sample_constant_policy(np.random.default_rng(0), policy.size, 2)
    answers = policy.act(theta, np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32))
    assert np.ptp(answers, axis=0).max() == 0
    assert 0 < np.abs(answers).max() <= WIDEST_CONSTANT
