"""Policies: one definition on NumPy and JAX, shapes, wrappers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.config import PolicyConfig
from ddopg.errors import SpaceError
from ddopg.policies import clipped, custom, linear, make_policy, mlp, normalised, relu, squashed

POLICIES = {
    "linear": linear(3, 2),
    "mlp": mlp(3, 2, (16, 16)),
    "deep": mlp(3, 2, (5, 4, 3)),
    "linear path": mlp(3, 2, (5, 4), linear_path=True),
    "squashed": squashed(mlp(3, 2, (4,)), (-1.0, 0.0), (1.0, 5.0)),
    "clipped": clipped(mlp(3, 2, (4,)), (-1.0, 0.0), (1.0, 5.0)),
    "of one's own": custom(
        lambda key: jax.random.normal(key, 6), lambda p, o: jnp.sin(p.reshape(2, 3) @ o), 3, 2
    ),
    "normalised": normalised(mlp(3, 2, (4,)), (1.0, 2.0, 3.0), (0.1, 1.0, 10.0)),
}


def theta_of(policy, seed=0):
    return np.random.default_rng(seed).standard_normal(policy.size).astype(np.float32)


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    def test_numpy_and_jax_agree(self, name):
        policy, observation = POLICIES[name], np.array([0.3, -1.0, 2.0], np.float32)
        theta = theta_of(policy)
        by_numpy = policy.act(theta, observation)
        by_jax = jax.jit(policy.act)(jnp.asarray(theta), jnp.asarray(observation))
        assert isinstance(by_numpy, np.ndarray)
        assert by_numpy.dtype == np.float32
        np.testing.assert_allclose(by_numpy, by_jax, rtol=1e-5, atol=1e-6)

    def test_at_one_theta_it_answers_the_same_bit_for_bit(self, name):
        policy, theta = POLICIES[name], theta_of(POLICIES[name])
        answer = policy.at(theta)
        for observation in np.random.default_rng(4).standard_normal((20, 3)).astype(np.float32):
            before = observation.copy()
            assert answer(observation).tobytes() == policy.act(theta, observation).tobytes()
            assert observation.tobytes() == before.tobytes()

    def test_columns_are_observations_side_by_side(self, name):
        policy, rng = POLICIES[name], np.random.default_rng(2)
        theta, batch = theta_of(policy), rng.standard_normal((7, 3)).astype(np.float32)
        columns = jax.jit(policy.on_columns)(jnp.asarray(theta), jnp.asarray(batch.T))
        np.testing.assert_allclose(np.asarray(columns).T, policy.act(theta, batch), rtol=1e-5, atol=1e-6)

    def test_leading_axes_are_a_batch(self, name):
        policy = POLICIES[name]
        theta, batch = theta_of(policy), np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
        rows = np.stack([policy.act(theta, row) for row in batch])
        np.testing.assert_allclose(policy.act(theta, batch), rows, rtol=1e-5, atol=1e-6)

    def test_initial_parameters_have_the_stated_size_and_depend_on_the_key(self, name):
        policy = POLICIES[name]
        one, two = policy.init(jax.random.key(0)), policy.init(jax.random.key(1))
        assert one.shape == (policy.size,)
        assert not np.allclose(one, two)

    def test_every_parameter_matters(self, name):
        policy, batch = POLICIES[name], np.random.default_rng(2).standard_normal((50, 3)).astype(np.float32)
        theta = jnp.asarray(0.3 * theta_of(policy))
        sensitivity = jax.jacobian(lambda t: jax.vmap(policy.act, (None, 0))(t, batch).ravel())(theta)
        assert np.all(np.abs(sensitivity).max(0) > 0)


def test_a_network_is_the_composition_of_its_layers():
    policy = mlp(2, 1, (3,))
    theta = theta_of(policy)
    W1, b1, W2, b2 = theta[:6].reshape(2, 3), theta[6:9], theta[9:12].reshape(3, 1), theta[12:]
    o = np.array([0.5, -2.0], np.float32)
    np.testing.assert_allclose(policy.act(theta, o), np.tanh(o @ W1 + b1) @ W2 + b2, rtol=1e-6)
    assert policy.size == 13


def test_with_a_linear_path_the_output_layer_sees_the_observation_too():
    policy, o = mlp(2, 1, (3,), linear_path=True), np.array([0.5, -2.0], np.float32)
    theta = theta_of(policy)
    W, b, V, K, c = theta[:6].reshape(2, 3), theta[6:9], theta[9:12], theta[12:14], theta[14]
    np.testing.assert_allclose(policy.act(theta, o), [np.tanh(o @ W + b) @ V + o @ K + c], rtol=1e-6)
    assert policy.linear_params == 3
    assert mlp(2, 1, (), linear_path=True).size == linear(2, 1).size, "there is nothing beside it"


def test_a_network_with_a_linear_path_can_do_what_a_linear_policy_does():
    policy, observations = mlp(3, 2, (4,), linear_path=True), np.random.default_rng(3).standard_normal((9, 3))
    theta = np.zeros(policy.size)
    theta[-policy.linear_params :] = theta_of(linear(3, 2))
    np.testing.assert_allclose(
        policy.act(theta, observations), linear(3, 2).act(theta_of(linear(3, 2)), observations), rtol=1e-6
    )


def test_squashing_stays_in_the_range_and_reaches_its_middle():
    policy = POLICIES["squashed"]
    extreme = 1e4 * theta_of(policy)
    action = policy.act(extreme, np.ones(3, np.float32))
    assert np.all((action >= [-1, 0]) & (action <= [1, 5]))
    np.testing.assert_allclose(
        policy.act(np.zeros(policy.size, np.float32), np.ones(3, np.float32)), [0, 2.5]
    )


def test_clipping_maps_minus_one_to_one_onto_the_range_and_stops_there():
    policy = clipped(linear(1, 2), (-1.0, 0.0), (1.0, 5.0))
    theta = np.array([1.0, 1.0, 0.0, 0.0], np.float32)
    for x, expected in ((-3, [-1, 0]), (-1, [-1, 0]), (0, [0, 2.5]), (0.5, [0.5, 3.75]), (1.7, [1, 5])):
        np.testing.assert_allclose(policy.act(theta, np.array([x], np.float32)), expected)


def test_the_activation_can_be_chosen():
    policy = mlp(1, 1, (2,), relu)
    theta = np.array([1.0, -1.0, 0.0, 0.0, 2.0, 5.0, 1.0], np.float32)  # 2·max(o, 0) + 5·max(−o, 0) + 1
    assert [policy.act(theta, np.array([o], np.float32))[0] for o in (3.0, -2.0)] == [7.0, 11.0]


def test_normalised_sees_the_scaled_observation():
    inner = mlp(3, 2, (4,))
    theta, o = theta_of(inner), np.array([1.5, 2.0, -7.0], np.float32)
    expected = inner.act(theta, np.array([5.0, 0.0, -1.0], np.float32))
    np.testing.assert_allclose(POLICIES["normalised"].act(theta, o), expected, rtol=1e-5)


def test_the_same_arguments_give_the_same_policy_so_that_nothing_is_compiled_twice():
    assert mlp(3, 2, (4,)) is mlp(3, 2, (4,))
    low, high = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
    config = PolicyConfig(hidden=(), squash=True)
    assert make_policy(config, 3, low, high) is make_policy(config, 3, low, high)


@pytest.mark.parametrize("bounds", [((-np.inf,), (1.0,)), ((0.0,), (np.inf,)), ((1.0,), (1.0,))])
def test_squashing_an_unbounded_range_is_refused_with_advice(bounds):
    with pytest.raises(
        SpaceError, match=r"finite action bounds low < high, got \[.*\]; wrap the environment"
    ):
        squashed(linear(1, 1), *bounds)


def test_a_scale_of_zero_is_refused():
    with pytest.raises(SpaceError, match="positive"):
        normalised(linear(1, 1), (0.0,), (0.0,))


@pytest.mark.parametrize("inputs", [1, 2, 4, 13, 17, 64])
@pytest.mark.parametrize("outputs", [1, 2, 6, 16])
def test_networks_of_all_sizes_answer_the_same_bit_for_bit_at_one_theta(inputs, outputs):
    for hidden, linear_path in (((), False), ((16, 16), False), ((64,), False), ((16,), True)):
        policy = mlp(inputs, outputs, hidden, linear_path=linear_path)
        theta = theta_of(policy)
        observation = np.random.default_rng(1).standard_normal(inputs).astype(np.float32)
        assert policy.at(theta)(observation).tobytes() == policy.act(theta, observation).tobytes()
