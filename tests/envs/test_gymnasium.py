"""Gymnasium at large: real environments of three families, nested observations, images, vectors of environments."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.envs.adapter import flatten_observations, make
from ddopg.errors import ObservationError, SpaceError
from ddopg.rollouts.playing import evaluate, rollout
from tests.box2d import mark_box2d
from tests.recorded import quick

OF_EACH_KIND = ["Pendulum-v1", "LunarLanderContinuous-v3", "Reacher-v5", "HalfCheetah-v5"]
MORE = [  # each has sizes of its own, for which everything is compiled anew
    "MountainCarContinuous-v0",
    "BipedalWalker-v3",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
    "Swimmer-v5",
    "Hopper-v5",
]
REAL = [*mark_box2d(OF_EACH_KIND), *mark_box2d(MORE, pytest.mark.slow)]


@pytest.fixture
def pendulum():
    env = gym.make("Pendulum-v1")
    yield env
    env.close()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the environments themselves
class TestRealEnvironments:
    @pytest.mark.parametrize("name", REAL)
    def test_one_can_learn_act_save_and_replay(self, name, tmp_path):
        agent = ddopg.DDOPG(name, horizon=25, config=quick(), seed=1)
        agent.learn(total_episodes=10)
        trajectories = agent.state.memory.trajectories
        assert agent.state.memory.size == 10
        assert agent.state.steps == sum(t.length for t in trajectories) <= 250
        assert np.isfinite(agent.incumbent.theta).all()
        for played in (trajectories[0], trajectories[-1]):
            again = rollout(agent.env, agent.policy, played.theta, played.seed, horizon=25)
            np.testing.assert_array_equal(again.rewards, played.rewards)
            np.testing.assert_array_equal(again.observations, played.observations)
            assert (again.terminated, again.truncated) == (played.terminated, played.truncated)
        observation, _ = agent.env.reset(seed=0)
        action, _ = agent.predict(observation)
        assert agent.env.action_space.contains(action.astype(agent.env.action_space.dtype))
        loaded = ddopg.load(agent.save(tmp_path / "policy.safetensors"))
        np.testing.assert_array_equal(loaded.predict(observation)[0], action)

    def test_the_clock_truncates_and_the_task_terminates(self):
        agent = ddopg.DDOPG("InvertedPendulum-v5", horizon=40, config=quick(), seed=0)
        agent.learn(total_episodes=12)
        for trajectory in agent.state.memory.trajectories:
            assert trajectory.terminated != trajectory.truncated
            assert trajectory.truncated == (trajectory.length == 40)
        assert any(t.terminated for t in agent.state.memory.trajectories)


class Nested(gym.Wrapper):
    """Pendulum, told as a dict of a tuple and a choice."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict(
            arm=gym.spaces.Tuple(
                [gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Box(-8, 8, (1,), np.float32)]
            ),
            side=gym.spaces.Discrete(2),
        )

    def _told(self, observation):
        return {"arm": (observation[:2], observation[2:]), "side": np.int64(observation[0] > 0)}

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return self._told(observation), info

    def step(self, action):
        observation, *rest = self.env.step(action)
        return self._told(observation), *rest


class TestNestedObservations:
    def test_they_are_flattened_and_the_agent_takes_them_as_they_come(self, pendulum):
        env = Nested(pendulum)
        agent = ddopg.DDOPG(env, horizon=20, config=quick(), seed=0)
        assert agent.problem.observation_size == 5
        agent.learn(total_episodes=9)
        observation, _ = env.reset(seed=3)
        vector = gym.spaces.flatten(env.observation_space, observation)
        action, _ = agent.predict(observation)
        np.testing.assert_array_equal(action, agent.predict(vector)[0])
        assert env.action_space.contains(action)

    @pytest.mark.parametrize("copies", [1, 3])
    def test_a_batch_of_them_gets_a_batch_of_actions_as_evaluators_of_vectors_expect(self, copies):
        agent = ddopg.DDOPG(Nested(gym.make("Pendulum-v1")), config=quick(), seed=0)
        agent.learn(total_episodes=2)
        vector = gym.vector.SyncVectorEnv([lambda: Nested(gym.make("Pendulum-v1"))] * copies)
        observations, _ = vector.reset(seed=1)
        actions, _ = agent.predict(observations)
        assert actions.shape == (copies, 1)
        for i, action in enumerate(actions):
            first, second = (part[i] for part in observations["arm"])
            one = {"arm": (first, second), "side": observations["side"][i]}
            np.testing.assert_array_equal(action, agent.predict(one)[0])
        vector.step(actions)
        vector.close()

    @pytest.mark.parametrize("wrong", [{"arm": 1}, {}, {"arm": ([0.0], [0.0]), "side": 0}, (1, 2)])
    def test_one_that_does_not_fit_its_space_is_refused(self, pendulum, wrong):
        agent = ddopg.DDOPG(Nested(pendulum), config=quick(), seed=0)
        with pytest.raises(ObservationError, match=r"observation.*got"):
            agent.predict(wrong)

    def test_a_saved_policy_says_how_to_make_a_vector_of_one(self, pendulum):
        agent = ddopg.DDOPG(Nested(pendulum), config=quick(), seed=0)
        with pytest.raises(ObservationError, match=r"gymnasium\.spaces\.utils\.flatten"):
            agent.incumbent.predict({"a": 1})

    def test_a_dict_made_by_gymnasium_itself(self, pendulum):
        env = gym.wrappers.TimeAwareObservation(pendulum, flatten=False)
        assert ddopg.DDOPG(env, config=quick()).problem.observation_size == 4

    def test_a_box_is_left_alone(self, pendulum):
        assert flatten_observations(pendulum) is pendulum

    def test_images_are_refused_with_advice(self):
        pixels = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        with pytest.raises(SpaceError, match=r"images.*positions and velocities"):
            ddopg.DDOPG(
                observation_space=pixels, action_space=gym.spaces.Box(-1, 1), horizon=3, preset="trajectory"
            )
        env = gym.make("Pendulum-v1")
        env.observation_space = gym.spaces.Dict(camera=pixels, arm=gym.spaces.Box(-1, 1, (2,)))
        with pytest.raises(SpaceError, match=r"images.*positions and velocities"):
            ddopg.DDOPG(env, preset="trajectory")

    def test_what_cannot_be_flattened_is_refused(self):
        env = gym.make("Pendulum-v1")
        env.observation_space = gym.spaces.Sequence(gym.spaces.Box(-1, 1, (2,)))
        with pytest.raises(SpaceError, match="must be a Box"):
            ddopg.DDOPG(env, preset="trajectory")


class TestVectors:
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
    @pytest.mark.parametrize("name", mark_box2d(["InvertedPendulum-v5", "ddopg/MountainCar-v0"]))
    def test_a_vector_of_environments_gives_the_same_returns(self, name, mode):
        alone = make(name)
        agent = ddopg.DDOPG(alone, horizon=60, config=quick(), seed=2)
        theta = np.full(agent.policy.size, 0.01, np.float32)
        seeds = range(50, 57)
        copies = gym.make_vec(
            name, 3, "sync", vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode[mode]}
        )
        together = evaluate(copies, agent.policy, theta, seeds, 60)
        copies.close()
        np.testing.assert_allclose(together, evaluate(alone, agent.policy, theta, seeds, 60), rtol=1e-4)
        assert len(set(together)) > 2

    def test_an_evaluation_callback_may_have_one(self):
        copies = gym.make_vec("InvertedPendulum-v5", 2, "sync")
        callback = ddopg.callbacks.EvalCallback(copies, n_eval_episodes=3, eval_freq=1)
        ddopg.DDOPG("InvertedPendulum-v5", horizon=10, config=quick()).learn(
            total_episodes=9, callback=callback
        )
        assert 1 <= callback.last_mean_reward <= 10
        copies.close()
