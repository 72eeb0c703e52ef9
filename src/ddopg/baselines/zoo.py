"""Settings that RL-Zoo, the collection of tuned settings for stable-baselines3, has for the tasks of the suite.

Its newest entries for each task are taken, also where they are for an older version of it. Where it has none, the
library's own defaults hold. What it says of the length of a run is left out, and so is the linear fall of the
learning rate over 500,000 steps on LunarLander: a tenth of it would happen within the suite's budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddopg.baselines.settings import SACSettings, TQCSettings

_CLIMB: dict[str, Any] = {
    "learning_rate": 3e-4,
    "hidden": (64, 64),
    "minibatch": 512,
    "learning_starts": 0,
    "train_every": 32,
    "discount": 0.9999,
    "tau": 0.01,
    "entropy": 0.1,
    "state_dependent": True,
    "log_std": -3.67,
}
_LAND: dict[str, Any] = {
    "learning_rate": 7.3e-4,
    "hidden": (400, 300),
    "learning_starts": 10_000,
    "tau": 0.01,
}
_WALK: dict[str, Any] = {
    "learning_rate": 7.3e-4,
    "hidden": (400, 300),
    "learning_starts": 10_000,
    "train_every": 64,
    "discount": 0.98,
    "tau": 0.02,
    "state_dependent": True,
}

_MUJOCO = SACSettings(learning_starts=10_000)
SAC_BY_TASK = {
    "Pendulum-v1": SACSettings(learning_rate=1e-3),
    "MountainCarContinuous-v0": SACSettings(**_CLIMB),
    "LunarLanderContinuous-v3": SACSettings(**_LAND),
    "BipedalWalker-v3": SACSettings(**_WALK),
    "HalfCheetah-v5": _MUJOCO,
    "Hopper-v5": _MUJOCO,
    "Swimmer-v5": replace(_MUJOCO, discount=0.9999),
}

TQC_BY_TASK = {
    "Pendulum-v1": TQCSettings(
        learning_rate=1e-3, hidden=(64, 64), train_every=64, state_dependent=True, log_std=-2.0
    ),
    "MountainCarContinuous-v0": TQCSettings(**_CLIMB),
    "LunarLanderContinuous-v3": TQCSettings(**_LAND),
    "BipedalWalker-v3": TQCSettings(**_WALK),
}
