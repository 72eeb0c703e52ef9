"""Controllers with declared parameters act in real units, start where the user starts, stay within bounds."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors

import ddopg
from ddopg.controllers import Loop, Parameter, black_box, controller, oscillator, pid
from ddopg.errors import ArtefactError, ConfigError, ObservationError, SpaceError
from ddopg.policies import custom, limited, linear, make_policy
from ddopg.rollouts import evaluate, rollout
from ddopg.support.records import change
from tests.probes import Follow
from tests.recorded import contents, quick

GAIN = Parameter("gain", 0.5, bounds=(-2.0, 1.0), unit="1/s")
OFFSET = Parameter("offset", 0.1, bounds=(-0.2, 0.2))
FACTOR = Parameter("factor", 1.0, fixed=True)


def proportional(p, observation):
    return [p["gain"] * observation[0] * p["factor"] + p["offset"]]


def make(parameters=(GAIN, FACTOR, OFFSET), **options):
    return controller(parameters, proportional, 1, 1, **options)


OWN = make()


def leaky(p, state, observation):
    state = 0.8 * state + observation[0]
    return state, [p["gain"] * state]


LEAKY = controller([GAIN], leaky, 1, 1, initial=lambda p: 0.0)
BOX = black_box([GAIN], lambda p, seen: [p["gain"] * seen[0]], 1, 1)
SPACES = {
    "observation_space": gym.spaces.Box(-np.inf, np.inf, (1,)),
    "action_space": gym.spaces.Box(-2, 2, (1,)),
    "horizon": 3,
}


def balance(p, state, observation):
    """Linear feedback with a filtered angle: a memory for the cartpole."""
    angle = 0.5 * state["angle"] + 0.5 * observation[2]
    force = p["position"] * observation[0] + p["angle"] * angle + p["turn"] * observation[3]
    return {"angle": angle}, [force]


FILTERED = controller(
    [
        Parameter("position", 1.0, scale=1.0),
        Parameter("angle", -40.0, scale=10.0),
        Parameter("turn", -9.0, scale=4.0),
    ],
    balance,
    4,
    1,
    initial=lambda p: {"angle": 0.0},
)


class TestItsActions:
    def test_they_are_in_real_units_and_clipped_to_the_action_range(self):
        agent = ddopg.DDOPG(Follow(), policy=OWN, preset="trajectory")
        start = agent.incumbent
        np.testing.assert_allclose(start.act([1.0]), [0.6], rtol=1e-6)  # not 2 · tanh(0.6)
        np.testing.assert_allclose(start.act([100.0]), [2.0])

    def test_squashing_is_a_choice_and_leaves_small_actions_alone(self):
        start = ddopg.DDOPG(Follow(), policy=make(squash=True), preset="trajectory").incumbent
        np.testing.assert_allclose(start.act([0.01]), [0.105], rtol=2e-3)
        np.testing.assert_allclose(start.act([3.0]), [2 * np.tanh(0.8)], rtol=1e-5)

    def test_a_custom_policy_is_clipped_too_and_squashed_by_choice_only(self):
        def plain(squash):
            return custom(lambda key: np.full(1, 0.5, np.float32), lambda p, o: p * o, 1, 1, squash=squash)

        config, range_ = ddopg.preset("trajectory").policy, (np.array([-10.0]), np.array([10.0]))
        theta = np.array([2.0], np.float32)
        clipped, squashed = (make_policy(config, 1, *range_, plain(choice)) for choice in (False, True))
        seen = np.array([[1.0], [9.0]], np.float32)
        np.testing.assert_allclose(clipped.act(theta, seen), [[2.0], [10.0]])
        np.testing.assert_allclose(squashed.act(theta, seen), 10 * np.tanh(2 * seen), rtol=1e-6)

    def test_an_infinite_action_range_limits_nothing(self):
        policy = limited(OWN, (-np.inf,), (np.inf,))
        np.testing.assert_allclose(
            policy.act(np.zeros(2, np.float32), np.full(1, 1e6, np.float32)), [500000.1]
        )
        assert policy.action_scale == (1.0,)

    def test_another_number_of_actions_or_no_pair_is_refused(self):
        with pytest.raises(
            SpaceError, match=r"must give 2 numbers for one observation of 1, got an array of shape \(1,\)"
        ):
            controller([GAIN], lambda p, o: [p["gain"]], 1, 2)
        with pytest.raises(SpaceError, match="two things"):
            controller([GAIN], lambda p, s, o: [p["gain"]], 1, 1, initial=lambda p: 0.0)
        with pytest.raises(SpaceError, match="keep its names and shapes"):
            controller([GAIN], lambda p, s, o: (o, [p["gain"]]), 1, 1, initial=lambda p: np.zeros(2))

    @pytest.mark.parametrize(
        "declare",
        [
            lambda: controller([GAIN], lambda p, seen: [p["gain"] * seen[4]], 4, 1),
            lambda: controller([GAIN], lambda p, s, seen: (s, [seen[4]]), 4, 1, initial=lambda p: 0.0),
            lambda: custom(lambda key: jnp.zeros(1), lambda p, seen: p * seen[np.array([4])], 4, 1),
            lambda: pid(4, [Loop(4)], dt=0.1, low=[-1], high=[1], kp=GAIN),
            lambda: oscillator(4, (0,), (4,), low=(-1,), high=(1,)),
        ],
    )
    def test_an_observation_that_is_not_there_is_refused(self, declare):
        with pytest.raises(SpaceError, match=r"not there \(index 4 .*an observation has 4 numbers, 0 to 3"):
            declare()

    @pytest.mark.parametrize("make_of", [controller, black_box])
    @pytest.mark.parametrize("memory", [False, True])
    def test_a_name_that_is_not_declared_is_said_beside_those_that_are(self, make_of, memory):
        def step(p, *seen):
            return [p["gian"]]

        with pytest.raises(ConfigError, match=r"looks up 'gian', .* declared parameters are gain, offset"):
            make_of([GAIN, OFFSET], step, 1, 1, initial=(lambda p: 0.0) if memory else None)

    @pytest.mark.parametrize(
        "policy",
        [
            FILTERED,
            controller([GAIN], lambda p, seen: [p["gain"] * seen[3]], 4, 1),
            black_box([GAIN], lambda p, seen: [p["gain"] * seen[0]], 4, 1),
            custom(lambda key: jnp.zeros(1), lambda p, seen: p * seen[:1], 4, 1),
            linear(4, 1),
        ],
    )
    def test_another_number_of_observations_is_refused(self, policy):
        with pytest.raises(SpaceError, match="made for 4 observations, the observation space has 1"):
            ddopg.DDOPG(**SPACES, policy=policy, preset="trajectory")


class TestTheSearch:
    @pytest.mark.parametrize("preset", ["default", "trajectory", "paper", "released"])
    def test_the_first_rollout_is_the_users_start_and_none_leaves_the_bounds(self, preset):
        agent = ddopg.DDOPG(Follow(), config=quick(preset), policy=OWN, seed=3)
        agent.learn(total_episodes=25)
        played = [OWN.describe(t.theta) for t in agent.state.memory.trajectories]
        assert played[0] == {"gain": 0.5, "factor": 1.0, "offset": 0.1}
        assert len({p["gain"] for p in played[:5]}) == 5
        low, high = OWN.limits
        for theta in (agent.state.centre, agent.state.ema_params, agent.state.incumbent.theta):
            assert (low <= theta).all()
            assert (theta <= high).all()
        for trajectory in agent.state.memory.trajectories:
            assert (low <= trajectory.theta).all()
            assert (trajectory.theta <= high).all()

    def test_it_finds_the_best_gain_within_the_bounds(self):
        agent = ddopg.DDOPG(Follow(), policy=OWN, seed=1, preset="trajectory").learn(total_episodes=60)
        found = agent.incumbent.parameters
        assert -1.4 < found["gain"] < -0.6
        assert found["factor"] == 1.0

    def test_a_search_that_wants_to_leave_ends_at_the_bound(self):
        narrow = make((Parameter("gain", 0.5, bounds=(-0.5, 1.0)), FACTOR, OFFSET))
        config = change(ddopg.preset("trajectory"), {"search.method": "gradient"})
        agent = ddopg.DDOPG(Follow(), config=config, policy=narrow, seed=1).learn(total_episodes=40)
        assert -0.5 <= agent.incumbent.parameters["gain"] < -0.3
        assert agent.state.centre[0] == narrow.limits[0][0]

    def test_one_scale_is_one_scale_whatever_the_parameter_does(self):
        agent = ddopg.DDOPG(Follow(), config=quick(), policy=OWN, seed=0).learn(total_episodes=10)
        assert agent.state.param_sensitivity.tolist() == [1.0, 1.0]


class TestWhatIsKept:
    def agent(self, **options):
        return ddopg.DDOPG(Follow(), config=quick(), policy=OWN, seed=2, **options)

    def test_the_parameters_are_shown_under_their_names(self):
        agent = self.agent()
        assert agent.incumbent.parameters == {"gain": 0.5, "factor": 1.0, "offset": 0.1}
        assert "gain = 0.5 1/s" in repr(agent.incumbent)
        proposal = agent.ask()[0]
        assert proposal.parameters["gain"] == 0.5
        assert "offset = 0.1" in repr(proposal)

    @pytest.mark.parametrize(
        ("policy", "rest"),
        [(OWN, ""), (LEAKY, ", memory=True"), (BOX, ", black_box=True")],
    )
    def test_the_class_shows_its_start_in_one_line(self, policy, rest):
        others = ", factor = 1, offset = 0.1" if policy is OWN else ""
        shown = f"'gain = 0.5 1/s{others}'"
        assert repr(policy) == f"Policy(observations=1, actions=1, parameters={shown}{rest})"
        assert f"<td>gain = 0.5 1/s{others}</td>" in policy._repr_html_()

    def test_a_file_has_them_in_real_units_and_wants_the_same_declaration(self, tmp_path):
        agent = self.agent()
        agent.learn(total_episodes=9)
        path = agent.save(tmp_path / "own.safetensors")
        assert ddopg.load(path, policy=make()).parameters == agent.incumbent.parameters
        with safetensors.safe_open(path, framework="np") as file:
            text = file.metadata()["ddopg"]
        assert f'"gain": {{"value": {agent.incumbent.parameters["gain"]!r}' in text
        other = make((GAIN._replace(start=0.4), FACTOR, OFFSET))
        with pytest.raises(ArtefactError, match="made with other parameters; changed: gain"):
            ddopg.load(path, policy=other)
        plain = custom(lambda key: np.zeros(2, np.float32), lambda p, o: p[:1] * o, 1, 1)
        with pytest.raises(ArtefactError, match="made with other parameters; changed: gain, factor, offset"):
            ddopg.load(path, policy=plain)

    def test_a_run_goes_on_with_the_same_declaration_only(self, tmp_path):
        agent = self.agent(run_directory=tmp_path / "run")
        agent.learn(total_episodes=10)
        agent.close()
        with pytest.raises(ArtefactError, match="changed: offset"):
            ddopg.DDOPG.resume(
                tmp_path / "run", env=Follow(), policy=make((GAIN, FACTOR, OFFSET._replace(unit="m")))
            )
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow(), policy=make())
        again.learn(total_episodes=5)
        whole = self.agent()
        whole.learn(total_episodes=15)
        assert contents(again.state) == contents(whole.state)
        again.close()


class TestAMemory:
    def test_it_learns_and_goes_on_bit_for_bit(self, tmp_path):
        def agent(**options):
            return ddopg.DDOPG(Follow(), config=quick(), policy=LEAKY, seed=2, **options)

        first = agent(run_directory=tmp_path / "run")
        first.learn(total_episodes=10)
        first.close()
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow(), policy=LEAKY)
        again.learn(total_episodes=20)
        again.close()
        whole = agent()
        whole.learn(total_episodes=30)
        assert contents(again.state) == contents(whole.state)
        assert whole.incumbent.parameters["gain"] < 0

    def test_the_critic_is_left_out(self):
        agent = ddopg.DDOPG(Follow(), config=quick("default"), policy=LEAKY, seed=2).learn(total_episodes=10)
        assert agent.state.critic is None

    def test_compiled_stepped_and_vectorised_episodes_agree(self):
        theta = np.array([0.3, -0.2, 0.1], np.float32)
        env = gym.make("ddopg/Cartpole-v0")
        policy = limited(FILTERED, (-10.0,), (10.0,))
        compiled = rollout(env, policy, theta, seed=5)
        stepped = rollout(gym.wrappers.ClipAction(gym.make("ddopg/Cartpole-v0")), policy, theta, seed=5)
        assert compiled.length == stepped.length > 20
        np.testing.assert_allclose(compiled.actions, stepped.actions, atol=1e-3)
        plain = evaluate(env, policy, theta, seeds=range(3))
        vector = evaluate(
            gym.vector.SyncVectorEnv([lambda: gym.make("ddopg/Cartpole-v0")] * 2),
            policy,
            theta,
            range(3),
            100,
        )
        np.testing.assert_allclose(plain, vector, rtol=1e-4)

    def test_predict_follows_the_convention_of_stable_baselines(self):
        trained = ddopg.DDOPG(Follow(), policy=LEAKY, preset="trajectory").incumbent
        seen = [[0.3], [-0.1], [0.7]]
        states = [0.3, 0.8 * 0.3 - 0.1, 0.8 * (0.8 * 0.3 - 0.1) + 0.7]
        state = None
        for observation, expected in zip(seen, states, strict=True):
            action, state = trained.predict(observation, state)
            np.testing.assert_allclose(action, [0.5 * expected], rtol=1e-5)
        again, _ = trained.predict(seen[1], state, episode_start=True)
        np.testing.assert_allclose(again, [-0.05], rtol=1e-5)
        both, state = trained.predict([seen[0], seen[0]], None, np.array([True, True]))
        both, state = trained.predict([seen[1], seen[1]], state, np.array([False, True]))
        np.testing.assert_allclose(both, [[0.5 * 0.14], [-0.05]], rtol=1e-5)
        assert state.shape == (2, 1)
        with pytest.raises(ObservationError, match="1 numbers per observation"):
            trained.predict(seen[0], np.zeros(3))

    def test_a_reading_that_is_no_number_leaves_the_memory_as_it_was(self):
        agent = ddopg.DDOPG(Follow(), policy=LEAKY, on_invalid="safe", safe_action=[0.0], preset="trajectory")
        act = agent.incumbent.begin()
        act([0.3])
        assert act([np.nan]) == 0.0
        np.testing.assert_allclose(act([-0.1]), [0.5 * 0.14], rtol=1e-5)

    def test_a_robot_begins_an_episode_and_its_log_is_the_policys(self):
        agent = ddopg.DDOPG(**SPACES, policy=LEAKY)
        proposal = agent.ask(1)[0]
        with pytest.raises(ConfigError, match="has a memory"):
            proposal.act([0.1])
        act = proposal.begin()
        seen = [[0.1], [0.5], [-0.2]]
        actions = [act(o) for o in seen]
        info = agent.tell(proposal, proposal.trajectory(seen, actions, [0.0, 1.0, 2.0]))
        assert info.remark == ""
        proposal = agent.ask(1)[0]
        info = agent.tell(proposal, proposal.trajectory(seen, [[1.0], [0.0], [1.0]], [0.0, 1.0, 2.0]))
        assert "differ from the policy's" in info.remark

    def test_a_log_without_parameters_is_fitted_by_a_replay(self):
        agent = ddopg.DDOPG(**SPACES, policy=LEAKY)
        seen, state, actions = [[0.1], [0.5], [-0.2]], 0.0, []
        for (o,) in seen:
            state = 0.8 * state + o
            actions.append([-0.7 * state])
        added = agent.add(ddopg.make_trajectory(None, seen, actions, [0.0, 0.0, 0.0], horizon=3))
        assert added.fit.misfit < 1e-3
        np.testing.assert_allclose(LEAKY.describe(added.fit.theta)["gain"], -0.7, atol=1e-2)
