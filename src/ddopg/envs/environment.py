"""The Gymnasium side: one environment class around any simulation of this package."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from ddopg.envs.base import PYTHON, Task

_FAR = 1e6  # observations are not bounded by the tasks; Gymnasium warns about an infinite Box


class Simulation(Protocol):
    """What an environment needs to know about the thing it steps."""

    @property
    def task(self) -> Task | None:
        """The pure simulator behind it, if there is one."""

    @property
    def observation_size(self) -> int:
        """Numbers per observation."""

    @property
    def action_bound(self) -> tuple[float, ...]:
        """Largest force the physics applies, per dimension."""

    @property
    def state(self) -> Any:
        """What a painter draws."""

    def draw(self, generator: np.random.Generator, /) -> np.ndarray:
        """The initial observation of a random reset."""

    def start(self, observation: Sequence[float]) -> np.ndarray:
        """Begin an episode as if the reset had drawn this observation; return it as the simulation has it."""

    def step(self, action: Sequence[float]) -> tuple[np.ndarray, float, bool]:
        """Advance one step: observation, reward, terminated."""


class TaskSimulation:
    """A `Task` and its current state, on plain floats."""

    state: Any

    def __init__(self, task: Task) -> None:
        self.task = task
        self.observation_size = task.observation_size
        self.action_bound = task.action_bound
        self.draw = task.draw
        self._functions = task.step, task.observe, task.reward, task.terminated

    def start(self, observation: Sequence[float]) -> np.ndarray:
        """See `Simulation`."""
        self.state = self.task.start(observation, PYTHON)
        return self.task.observe(self.state, PYTHON)

    def step(self, action: Sequence[float]) -> tuple[np.ndarray, float, bool]:
        """See `Simulation`."""
        step, observe, reward, terminated = self._functions
        self.state = state = step(self.state, action, PYTHON)
        return observe(state, PYTHON), reward(state, action, PYTHON), terminated(state, PYTHON)


class Environment(gym.Env[np.ndarray, np.ndarray]):
    """A simulation with Gymnasium's manners. `task` is its pure simulator, or None if it has none.

    Actions are taken as given, even beyond `action_space`: the physics clips what it applies, but the costs
    count the unclipped action, as `metadata["unclipped_actions"]` says. Observations are float64, as the
    physics is: rounding them would hide the difference between a faithful step and a nearly faithful one.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "unclipped_actions": True}  # noqa: RUF012

    def __init__(
        self,
        simulation: Simulation,
        paint: Callable[[Any], np.ndarray],
        render_fps: int,
        render_mode: str | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(
                f"render_mode must be None or 'rgb_array', got {render_mode!r}; for a window, wrap the "
                "'rgb_array' environment in gymnasium.wrappers.HumanRendering"
            )
        self.metadata = {**self.metadata, "render_fps": render_fps}
        self.render_mode = render_mode
        bound = np.array(simulation.action_bound, np.float32)
        self.action_space = gym.spaces.Box(-bound, bound, dtype=np.float32)
        self.observation_space = gym.spaces.Box(-_FAR, _FAR, (simulation.observation_size,), np.float64)
        self.task = simulation.task
        self._simulation, self._paint, self._close = simulation, paint, close
        self._action_size = len(simulation.action_bound)
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a start, or take `options={"observation": o}` as if the reset had drawn o."""
        super().reset(seed=seed)
        given = _read_start(options or {}, self._simulation.observation_size)
        start = given or self._simulation.draw(self.np_random).tolist()
        self._started = True
        return self._simulation.start(start), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step. Never truncates: the time limit is Gymnasium's wrapper, put on by `gym.make`."""
        if not self._started:
            self._require_start("step")
        observation, reward, terminated = self._simulation.step(
            _check_vector("action", action, self._action_size)
        )
        return observation, reward, terminated, False, {}

    def render(self) -> np.ndarray | None:
        """The current state as an (height, width, 3) image, or None without a render mode."""
        if self.render_mode is None:
            gym.logger.warn('render() draws nothing without a mode: gym.make(..., render_mode="rgb_array")')
            return None
        self._require_start("render")
        return self._paint(self._simulation.state)

    def close(self) -> None:
        """Give back what the painter holds."""
        self._close()

    def _require_start(self, what: str) -> None:
        if not self._started:
            raise gym.error.ResetNeeded(f"cannot {what} before the first episode; call env.reset() first")


def _read_start(options: dict[str, Any], size: int) -> list[float] | None:
    unknown = sorted(set(options) - {"observation"})
    if unknown:
        raise ValueError(f"reset knows the option 'observation', got {unknown}; leave the others out")
    if "observation" not in options:
        return None
    return _check_vector("options['observation']", options["observation"], size)


def _check_vector(what: str, value: Any, size: int) -> list[float]:
    """Turn the vector into numbers, and refuse a wrong size and what is not finite."""
    if type(value) is np.ndarray and value.shape == (size,) and value.dtype.char in "fd":
        given: list[float] = value.tolist()
        if math.isfinite(sum(given)):  # else one of them is not, or they are huge
            return given
    vector = np.asarray(value, np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{what} must have shape ({size},), got shape {vector.shape}; pass a flat vector")
    numbers: list[float] = vector.tolist()
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{what} must be finite, got {numbers}; check the policy that made it for NaN")
    return numbers
