"""A policy class of the user's own: it learns, is saved, resumed and exported; another one is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import ddopg
from ddopg import numpy_policy
from ddopg.errors import ArtefactError, ConfigError, SpaceError
from ddopg.policies import custom, mlp
from ddopg.storage.onnx import to_onnx
from tests.probes import Follow
from tests.recorded import contents, quick


def gains(key):
    """A pytree of parameters: a gain, and an offset that the output is not linear in."""
    return {"gain": 0.1 * jax.random.normal(key, (1, 1)), "offset": jnp.zeros(1)}


def controller(parameters, observation):
    return parameters["gain"] @ observation + jnp.tanh(parameters["offset"])


OWN = custom(gains, controller, 1, 1)


def branching(parameters, observation):
    return parameters if observation[0] > 0 else -parameters


class TestWrittenWithNumPy:
    @pytest.mark.parametrize(
        "apply",
        [
            lambda parameters, observation: np.tanh(np.asarray(observation) @ np.asarray(parameters)),
            lambda parameters, observation: jnp.array([float(parameters[0])]),
            lambda parameters, observation: jnp.array([[1.0, 2.0][parameters[0].astype(int)]]),
            branching,
        ],
        ids=["numpy", "float", "index", "if"],
    )
    def test_it_gets_a_sentence_that_names_jax_numpy(self, apply):
        with pytest.raises(ConfigError, match=r"must be written with jax\.numpy.*JAX says"):
            custom(lambda key: jnp.ones(1), apply, 1, 1)

    def test_a_function_in_the_place_of_a_policy_class_gets_one_too(self):
        with pytest.raises(ConfigError, match=r"policy must be a policy class, got function.*custom"):
            ddopg.DDOPG(Follow(), horizon=3, policy=lambda observation: observation, preset="trajectory")


class TestThePolicy:
    def test_it_acts_on_one_observation_and_on_many_with_numpy_and_with_jax(self):
        theta = np.array([2.0, 0.5], np.float32)
        one, many = np.ones(1, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3, 1)
        assert isinstance(OWN.act(theta, one), np.ndarray)
        np.testing.assert_allclose(OWN.act(theta, one), [2 + np.tanh(0.5)], rtol=1e-6)
        np.testing.assert_allclose(OWN.act(theta, many), 2 * many + np.tanh(0.5), rtol=1e-6)
        np.testing.assert_allclose(jax.jit(OWN.act)(theta, many), OWN.act(theta, many), rtol=1e-6)
        np.testing.assert_allclose(
            jax.grad(lambda t: OWN.act(t, one)[0])(theta), [1, 1 - np.tanh(0.5) ** 2], rtol=1e-6
        )

    def test_an_equinox_network_is_the_network_itself(self):
        def network(key):
            return eqx.nn.MLP(3, 2, 8, 1, key=key)

        static = eqx.filter(network(jax.random.key(0)), eqx.is_array, inverse=True)
        policy = custom(
            lambda key: eqx.filter(network(key), eqx.is_array), lambda p, o: eqx.combine(p, static)(o), 3, 2
        )
        theta = np.asarray(policy.init(jax.random.key(7)))
        assert policy.size == len(theta) == 3 * 8 + 8 + 8 * 2 + 2
        observation = np.array([0.1, -0.2, 0.3], np.float32)
        np.testing.assert_allclose(
            policy.act(theta, observation), network(jax.random.key(7))(observation), rtol=1e-6
        )

    def test_another_number_of_actions_is_refused(self):
        with pytest.raises(SpaceError, match="must give 2 numbers for one observation of 1"):
            custom(gains, controller, 1, 2)
        with pytest.raises(SpaceError, match="the policy has 1 actions, the action space 2"):
            ddopg.DDOPG(
                "Reacher-v5",
                policy=custom(lambda key: jnp.zeros(10), lambda p, o: p[:1] * o[0], 10, 1),
                preset="trajectory",
            )


class TestTheLearner:
    def agent(self, **options):
        return ddopg.DDOPG(Follow(), config=quick(), policy=OWN, seed=2, **options)

    def test_it_learns(self):
        agent = self.agent()
        agent.learn(total_episodes=60)
        returns = ddopg.evaluate(agent)
        still = ddopg.evaluate(agent.incumbent._replace(theta=np.zeros(2, np.float32)), agent.env)
        assert returns.mean() > 0.3 * still.mean()  # both negative: less than a third of the loss

    def test_the_design_begins_with_the_policy_class_own_starts(self):
        thetas = [proposal.theta for proposal in self.agent().ask()]
        assert len({theta.tobytes() for theta in thetas}) == len(thetas) == 4
        assert all(theta[1] == 0 for theta in thetas)  # as `gains` starts

    def test_a_saved_policy_wants_its_class_again(self, tmp_path):
        agent = self.agent()
        agent.learn(total_episodes=9)
        path = agent.save(tmp_path / "own.safetensors")
        observation = np.array([0.3], np.float32)
        again = ddopg.load(path, policy=OWN)
        np.testing.assert_array_equal(again.predict(observation)[0], agent.predict(observation)[0])
        with pytest.raises(ArtefactError, match=r"of its own, with 2 parameters; got none\. Give policy="):
            ddopg.load(path)
        with pytest.raises(ArtefactError, match="got one with 9"):
            ddopg.load(path, policy=custom(lambda key: jnp.zeros(9), lambda p, o: p[:1] * o, 1, 1))
        with pytest.raises(ValueError, match="plain network"):
            numpy_policy.load(path)

    def test_a_configured_policy_wants_none(self, tmp_path):
        path = ddopg.DDOPG(Follow(), config=quick()).save(tmp_path / "plain.safetensors")
        with pytest.raises(ArtefactError, match="the configured policy class; leave out policy="):
            ddopg.load(path, policy=mlp(1, 1, ()))

    def test_a_run_goes_on_with_the_same_class_only(self, tmp_path):
        agent = self.agent(run_directory=tmp_path / "run")
        agent.learn(total_episodes=10)
        agent.close()
        with pytest.raises(ArtefactError, match="policy class of its own, with 2 parameters"):
            ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow(), policy=OWN)
        again.learn(total_episodes=5)
        whole = self.agent()
        whole.learn(total_episodes=15)
        assert contents(again.state) == contents(whole.state)

    def test_it_is_exported(self, tmp_path):
        agent = self.agent()
        agent.learn(total_episodes=9)
        session = onnxruntime.InferenceSession(to_onnx(agent.incumbent, tmp_path / "own.onnx"))
        observations = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
        (actions,) = session.run(None, {"observation": observations})
        np.testing.assert_allclose(actions, agent.predict(observations)[0], atol=1e-5)
