"""Tiny Gymnasium worlds with known answers, each exposing one thing."""

import gymnasium as gym
import numpy as np


class Target(gym.Env):
    """The action should be `goal`: reward −(a − goal)², one or more identical steps. Best return 0."""

    def __init__(self, goal=0.5, length=3, horizon=3):
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-2, 2, (1,), np.float32)
        self.goal, self.length = goal, length
        self.spec = gym.envs.registration.EnvSpec("Target-v0", max_episode_steps=horizon)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.time += 1
        done = self.time >= self.length
        return np.ones(1, np.float32), -float((action[0] - self.goal) ** 2), done, False, {}


class Follow(Target):
    """The action should be minus the observation: a gain must be learnt, not a constant."""

    def _see(self):
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = self._see()
        return self.seen, {}

    def step(self, action):
        _, _, done, truncated, info = super().step(action)
        reward = -float((action[0] + self.seen[0]) ** 2)
        self.seen = self._see()
        return self.seen, reward, done, truncated, info


class Scripted(Target):
    """Returns what the test tells it to: observation, reward, or both, from a given step on."""

    def __init__(self, observation=None, reward=None, at=1, **options):
        super().__init__(**options)
        self.observation, self.reward, self.at = observation, reward, at

    def step(self, action):
        observation, reward, done, truncated, info = super().step(action)
        if self.time >= self.at:
            observation = observation if self.observation is None else self.observation
            reward = reward if self.reward is None else self.reward
        return observation, reward, done, truncated, info
