"""stable-baselines3's own `evaluate_policy` takes an agent of ours, on plain and on nested observations."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.controllers import Parameter, controller

pytestmark = pytest.mark.slow


class Nested(gym.Env):
    """A point that should stand at 0, seen as a dictionary; episodes of 30 steps."""

    observation_space = gym.spaces.Dict(
        {name: gym.spaces.Box(-np.inf, np.inf, (1,), np.float32) for name in ("speed", "place")}
    )
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.uniform(0.5, 1.5, 2), 0
        return self._see(), {}

    def _see(self):
        place, speed = self.state.astype(np.float32)
        return {"speed": np.array([speed]), "place": np.array([place])}

    def step(self, action):
        place, speed = self.state
        self.state, self.time = np.array([place + 0.1 * speed, speed + 0.3 * float(action[0])]), self.time + 1
        return self._see(), -float(place**2), False, self.time >= 30, {}


def flat(nested):
    return gym.wrappers.FlattenObservation(nested)


def evaluate_by_sb3(model, env, copies):
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    several = DummyVecEnv([lambda: Monitor(env())] * copies)
    several.seed(3)
    returns, lengths = evaluate_policy(model, several, n_eval_episodes=6, return_episode_rewards=True)
    return np.array(returns), lengths


def play_by_hand(act, copies):
    """The same episodes: copy i is seeded with 3 + i at first, and goes on from there."""
    returns = [[] for _ in range(copies)]
    for i in range(copies):
        env = Nested()
        for episode in range(6 // copies):
            seen, _ = env.reset(seed=3 + i if episode == 0 else None)
            total, over, begun = 0.0, False, act()
            while not over:
                vector = gym.spaces.flatten(env.observation_space, seen)
                seen, reward, _, over, _ = env.step(np.clip(begun(vector), -1, 1))
                total += reward
            returns[i].append(total)
    return sorted(np.concatenate(returns))


@pytest.mark.parametrize("copies", [1, 2])
def test_evaluate_policy_plays_our_incumbent_on_nested_observations(copies):
    learner = ddopg.DDOPG(flat(Nested()), horizon=30, seed=1).learn(total_episodes=10)
    returns, lengths = evaluate_by_sb3(learner, Nested, copies)
    assert lengths == [30] * 6
    expected = play_by_hand(lambda: lambda seen: learner.incumbent.predict(seen)[0], copies)
    np.testing.assert_allclose(sorted(returns), expected, rtol=1e-5)


def test_evaluate_policy_hands_the_memory_of_a_controller_on_from_step_to_step():
    integral = controller(
        [Parameter("ki", 0.5, bounds=(0.0, 2.0))],
        lambda p, total, seen: (total + seen[0], [-p["ki"] * (total + seen[0])]),
        observation_size=2,
        action_size=1,
        initial=lambda p: 0.0,
    )
    agent = ddopg.DDOPG(flat(Nested()), policy=integral, horizon=30).learn(total_episodes=2)
    returns, _ = evaluate_by_sb3(agent, Nested, copies=2)
    expected = play_by_hand(lambda: agent.incumbent.begin(), copies=2)
    np.testing.assert_allclose(sorted(returns), expected, rtol=1e-5)
