"""The tools of stable-baselines3 work on our agent as on its own models; with the real library."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.rollouts.playing import rollout
from tests.test_agent import config

pytestmark = pytest.mark.slow


@pytest.fixture
def tools():
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    return evaluation.evaluate_policy, Monitor, DummyVecEnv


def test_evaluate_policy_takes_the_agent_and_a_loaded_policy(tools, tmp_path):
    evaluate_policy, monitor, vector = tools
    agent = ddopg.DDOPG("cartpole", config=config(), seed=3).learn(total_episodes=12)
    loaded = ddopg.load(agent.save(tmp_path / "p.safetensors"))
    results = []
    for model in (agent, loaded):
        env = vector([lambda: monitor(gym.make("ddopg/Cartpole-v0"))])
        env.seed(7)
        results.append(evaluate_policy(model, env, n_eval_episodes=4, return_episode_rewards=True))
    (rewards, lengths), again = results
    assert (rewards, lengths) == again
    assert len(rewards) == 4
    own = rollout(gym.make("ddopg/Cartpole-v0"), loaded.policy, loaded.theta, 7)
    assert (lengths[0], rewards[0]) == (own.length, pytest.approx(own.rewards.sum(), rel=1e-2))


def test_an_environment_may_wear_a_monitor(tools, tmp_path):
    _, monitor, _ = tools
    env = monitor(gym.make("ddopg/Cartpole-v0"), str(tmp_path / "log"))
    agent = ddopg.DDOPG(env, config=config(), seed=3).learn(total_episodes=7)
    env.close()
    rows = np.loadtxt(tmp_path / "log.monitor.csv", delimiter=",", skiprows=2)
    np.testing.assert_allclose(rows[:, 0], agent.state.memory.returns, rtol=1e-5)
    np.testing.assert_array_equal(rows[:, 1], [t.length for t in agent.state.memory.trajectories])
