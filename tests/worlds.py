"""Probe worlds as Gymnasium ids, `tests.worlds:NAME`, so that other processes can make them too."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

from tests.probes import Follow, Target
from tests.traps import Trap


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


class Threads(Target):
    """Shows how many threads its process may use, 0 where nobody has said."""

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        return np.array([float(os.environ.get("OMP_NUM_THREADS", 0))], np.float32), info


class Talking(Target):
    """Prints, and reads what is typed."""

    def reset(self, *, seed=None, options=None):
        print("hello from the environment", repr(sys.stdin.read()), flush=True)
        return super().reset(seed=seed)


class Trapped(Follow):
    """A good world, but for the one step that goes into the trap."""

    def step(self, action):
        returned = super().step(action)
        if self.time == 2:
            Trap.step_into()
        return returned


class Uneven(Follow):
    """Some episodes take longer, so that later ones overtake them."""

    def reset(self, *, seed=None, options=None):
        time.sleep(0.03 * (seed % 3 == 0))
        return super().reset(seed=seed, options=options)


class Turning(Follow):
    """A good world for two episodes; then `spoilt` says what a step returns."""

    good = 2

    def __init__(self):
        super().__init__()
        self.episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        returned = super().step(action)
        return self.spoilt(*returned) if self.episodes > self.good and self.time == 2 else returned


def spoilt(name):
    """A `Turning` world whose second step is spoilt in this way."""

    def register(function):
        globals()[name] = type(
            name, (Turning,), {"spoilt": lambda self, *returned: function(self, *returned)}
        )
        return function

    return register


@spoilt("TurnsRaising")
def _(self, observation, reward, *rest):
    raise ValueError("lost the marker")


@spoilt("TurnsExiting")
def _(self, *returned):
    raise SystemExit(3)


@spoilt("TurnsNan")
def _(self, observation, reward, *rest):
    return observation * np.nan, reward, *rest


@spoilt("TurnsInfinite")
def _(self, observation, reward, *rest):
    return observation, np.inf, *rest


@spoilt("TurnsHuge")
def _(self, observation, reward, *rest):
    return np.array([1e300]), reward, *rest


@spoilt("TurnsLong")
def _(self, observation, reward, *rest):
    return np.zeros(2, np.float32), reward, *rest


@spoilt("TurnsRagged")
def _(self, observation, reward, *rest):
    return [[1.0], [1.0, 2.0]], reward, *rest


@spoilt("TurnsText")
def _(self, observation, reward, *rest):
    return np.array(["a"]), reward, *rest


@spoilt("TurnsUnrewarding")
def _(self, observation, reward, *rest):
    return observation, None, *rest


@spoilt("TurnsEndless")
def _(self, observation, reward, *rest):
    return observation, 10**400, *rest


@spoilt("TurnsUnprintable")
def _(self, observation, reward, *rest):
    return observation, 10**5000, *rest  # Python refuses to write so many digits


@spoilt("TurnsWordy")
def _(self, observation, reward, *rest):
    return observation, "1.5", *rest


@spoilt("TurnsUndecided")
def _(self, observation, reward, terminated, truncated, info):
    return observation, reward, None, truncated, info


@spoilt("TurnsShort")
def _(self, observation, reward, terminated, truncated, info):
    return observation, reward, terminated, info


@spoilt("TurnsDifferent")
def _(self, *returned):
    self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    return returned


@spoilt("TurnsDiscrete")
def _(self, *returned):
    self.action_space = gym.spaces.Discrete(2)
    return returned


@spoilt("TurnsSleeping")
def _(self, *returned):
    time.sleep(60)


@spoilt("TurnsStubborn")
def _(self, *returned):
    while True:  # catches whatever comes, as badly written drivers do
        with contextlib.suppress(Exception):
            time.sleep(60)


@spoilt("TurnsDeaf")
def _(self, *returned):
    signal.pthread_sigmask(
        signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM]
    )  # as code that never comes back
    time.sleep(60)


@spoilt("TurnsDeadly")
def _(self, *returned):
    os._exit(7)


class Flaky(Turning):
    """Fails in one episode only, the third that it is asked for."""

    def spoilt(self, *returned):
        if self.episodes == 3:
            raise OSError("the cable is loose")
        return returned


class TurnsOverflowing(Turning):
    """Its rewards are finite, their sum is not."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 1.5e308 if self.episodes > self.good else reward, *rest

    def spoilt(self, *returned):
        return returned


class Endless(Follow):
    """Never says that it is over."""

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, info


def make_normalised():
    return gym.wrappers.NormalizeObservation(Follow())


gym.register("Normalised-v0", make_normalised, max_episode_steps=3, disable_env_checker=True)
WORLDS = [
    Stuck,
    Target,
    Follow,
    Logged,
    Raises,
    Dies,
    Slow,
    Flaky,
    Endless,
    Trapped,
    Uneven,
    Threads,
    Talking,
]
WORLDS += [world for name, world in list(globals().items()) if name.startswith("Turns")]
for world in WORLDS:
    gym.register(f"{world.__name__}-v0", world, max_episode_steps=3, disable_env_checker=True)
