"""Controllers that can only be called: their likelihoods, slopes by differences, learning; and returns alone."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg.controllers import Parameter, black_box, controller, returns_only, theta_of
from ddopg.core.replay import act_along
from ddopg.errors import ArtefactError, ConfigError, SpaceError, TrajectoryError
from ddopg.policies import limited
from tests.probes import Follow
from tests.recorded import contents, quick

KP = Parameter("kp", 0.5, bounds=(-2.0, 2.0))
TAU = Parameter("tau", 0.5, bounds=(0.05, 0.95))
PATH = np.random.default_rng(2).standard_normal((12, 1)).astype(np.float32)


def smooth(p, state, observation):
    """A filter, with a dictionary of Python floats as its memory."""
    value = p["tau"] * state["value"] + (1 - p["tau"]) * float(observation[0])
    return {"value": value}, [p["kp"] * value]


CALLED = black_box([KP, TAU], smooth, 1, 1, initial=lambda p: {"value": 0.0})


def smooth_of_jax(p, state, observation):
    value = p["tau"] * state["value"] + (1 - p["tau"]) * observation[0]
    return {"value": value}, [p["kp"] * value]


TRACED = controller([KP, TAU], smooth_of_jax, 1, 1, initial=lambda p: {"value": 0.0})
PLAIN = black_box([KP], lambda p, o: [p["kp"] * float(o[0])], 1, 1)


class TestItsActions:
    @pytest.mark.parametrize("bounds", [(-9.0, 9.0), (-0.2, 0.2)])
    def test_actions_and_slopes_along_a_path_are_those_of_the_same_controller_in_jax(self, bounds):
        low, high = (bounds[0],), (bounds[1],)
        called, traced = limited(CALLED, low, high), limited(TRACED, low, high)
        theta = np.array([0.3, -0.4], np.float32)
        np.testing.assert_allclose(act_along(called, theta, PATH), act_along(traced, theta, PATH), atol=1e-6)

        def squares(policy):
            return jax.jit(lambda t: jnp.sum(jnp.square(jax.vmap(lambda o: act_along(policy, t, o))(many))))

        many = jnp.stack([PATH, -PATH, 2 * PATH])
        np.testing.assert_allclose(squares(called)(theta), squares(traced)(theta), rtol=1e-5)
        np.testing.assert_allclose(
            jax.grad(squares(called))(theta), jax.grad(squares(traced))(theta), rtol=2e-2
        )

    def test_one_without_a_memory_acts_on_batches(self):
        theta = np.array([1.0], np.float32)
        np.testing.assert_allclose(PLAIN.act(theta, PATH[:3]), 1.5 * PATH[:3], rtol=1e-6)

    def test_numpy_given_as_jax_is_told_where_to_go(self):
        with pytest.raises(ConfigError, match=r"ddopg\.controllers\.black_box"):
            controller([KP], lambda p, o: [np.clip(float(o[0]), -1, 1)], 1, 1)

    def test_other_actions_are_refused(self):
        with pytest.raises(SpaceError, match="must give 2 finite numbers"):
            black_box([KP], lambda p, o: [0.0], 1, 2)

    def test_predict_hands_on_whatever_its_memory_is(self):
        trained = ddopg.DDOPG(Follow(), policy=CALLED, preset="trajectory").incumbent
        first, state = trained.predict([1.0])
        assert state == {"value": 0.5}
        second, state = trained.predict([1.0], state)
        np.testing.assert_allclose([first, second], [[0.25], [0.375]])
        both, states = trained.predict([[1.0], [1.0]], [state, state], np.array([False, True]))
        np.testing.assert_allclose(both, [[0.4375], [0.25]])
        assert states[1] == {"value": 0.5}
        act = trained.begin()
        np.testing.assert_allclose([act([1.0]), act([1.0])], [[0.25], [0.375]])


class TestLearning:
    def test_it_learns_and_goes_on_bit_for_bit(self, tmp_path):
        def agent(**options):
            return ddopg.DDOPG(Follow(), config=quick(steps=5), policy=PLAIN, seed=1, **options)

        first = agent(run_directory=tmp_path / "run")
        first.learn(total_episodes=10)
        first.close()
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow(), policy=PLAIN)
        again.learn(total_episodes=15)
        again.close()
        whole = agent().learn(total_episodes=25)
        assert contents(again.state) == contents(whole.state)
        assert whole.incumbent.parameters["kp"] < -0.4

    def test_a_compiled_task_is_stepped(self):
        policy = black_box([KP], lambda p, o: [p["kp"] * float(o[2])], 4, 1)
        agent = ddopg.DDOPG("cartpole", policy=policy, preset="trajectory").learn(total_episodes=1)
        assert agent.state.memory.size == 1
        assert ddopg.evaluate(agent, episodes=2).shape == (2,)

    @pytest.mark.parametrize(
        ("write", "form"),
        [(ddopg.deploy.to_onnx, "ONNX"), (ddopg.deploy.to_numpy, "a file for NumPy")],
    )
    def test_no_written_form_can_hold_one_and_the_message_says_so(self, write, form, tmp_path):
        trained = ddopg.DDOPG(Follow(), policy=PLAIN, preset="trajectory").incumbent
        with pytest.raises(ArtefactError, match=f"black box, .* not written as {form}; take the parameters"):
            write(trained, tmp_path / "policy")
        assert not (tmp_path / "policy").exists()


class TestReturnsAlone:
    def agent(self, **options):
        return ddopg.DDOPG(
            observation_space=gym.spaces.Box(-np.inf, np.inf, (1,)),
            action_space=gym.spaces.Box(-np.inf, np.inf, (2,)),
            horizon=1,
            policy=returns_only([KP, TAU]),
            **options,
        )

    def test_a_number_is_told_and_the_search_finds_the_best_parameters(self):
        agent = self.agent(seed=0)
        for _ in range(40):
            for proposal in agent.ask(1):
                p = proposal.parameters
                info = agent.tell(proposal, -((p["kp"] + 1.0) ** 2) - 4 * (p["tau"] - 0.8) ** 2)
                assert info.remark == ""
        found = agent.incumbent.parameters
        assert abs(found["kp"] + 1.0) < 0.4
        assert abs(found["tau"] - 0.8) < 0.2

    def test_a_context_is_the_observation_of_the_rollout(self):
        agent = self.agent()
        proposal = agent.ask(1)[0]
        agent.tell(proposal, proposal.outcome(2.5, context=[7.0]))
        told = agent.state.memory.trajectories[0]
        assert told.observations.tolist() == [[7.0]]
        assert told.rewards.tolist() == [2.5]
        np.testing.assert_array_equal(told.actions[0], proposal.theta)

    def test_a_policy_that_acts_needs_a_log(self):
        agent = ddopg.DDOPG(Follow(), policy=PLAIN, preset="trajectory")
        with pytest.raises(TrajectoryError, match=r"returns_only"):
            agent.tell(agent.ask(1)[0], 3.0)

    def test_values_in_real_units_have_coordinates(self):
        policy = returns_only([KP, TAU])
        assert policy.describe(theta_of(policy, {"kp": -1.5})) == {"kp": -1.5, "tau": 0.5}
