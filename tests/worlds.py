"""Probe worlds as Gymnasium ids, `tests.worlds:NAME`, so that other processes can make them too."""

import os
import time
from pathlib import Path

import gymnasium as gym

from tests.probes import Follow, Target


class Logged(Target):
    """Remembers the seed of every reset, and counts steps, over all instances of this process."""

    seeds = []  # noqa: RUF012
    steps = 0

    def reset(self, *, seed=None, options=None):
        Logged.seeds.append(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        Logged.steps += 1
        return super().step(action)


class Raises(Target):
    def step(self, action):
        raise RuntimeError("the arm is stuck")


class Dies(Target):
    def step(self, action):
        os._exit(7)


class Slow(Target):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


class Stuck(Target):
    """Says which process it is in, and then hangs."""

    def step(self, action):
        Path(os.environ["STUCK"]).write_text(str(os.getpid()))
        time.sleep(60)


for world in (Stuck, Target, Follow, Logged, Raises, Dies, Slow):
    gym.register(f"{world.__name__}-v0", world, max_episode_steps=3, disable_env_checker=True)
