"""An environment in a process of its own: it may hang or die without taking the learner along.

Every answer is waited for until the rollout's time is up; then, or when the process is gone, it is ended, the rollout
has failed, and the next reset starts a new process.
"""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import flatten_observations, make
from ddopg.envs.isolation_worker import handle_request
from ddopg.errors import RolloutError, SpaceError, UnknownNameError, require
from ddopg.support.processes import DONE, Worker, WorkerDied

START = 60.0  # seconds in which a new process must have made its environment


class Isolated(gym.Env[np.ndarray, np.ndarray]):
    """An environment that runs in a process of its own.

    Args:
        name: its Gymnasium id, or a short name; the other process makes it.
        time_limit: in seconds, from a reset to the end of the episode; None waits for ever.

    Raises:
        UnknownNameError: there is no environment of that name.
        SpaceError: it cannot be made, or its spaces are no boxes.

    Example:
        >>> env = Isolated("Pendulum-v1", time_limit=30)
        >>> observation, _ = env.reset(seed=0)
        >>> observation.shape
        (3,)
        >>> env.close()
    """

    def __init__(self, name: str, time_limit: float | None = None) -> None:
        self.name, self.time_limit = name, time_limit
        self._worker: Worker | None = None
        self._until: float | None = None
        about = self._start()
        self.metadata = {"unclipped_actions": about["unclipped"], "render_modes": []}
        self.running_statistics: list[str] = about["running_statistics"]
        if about["limit"] is not None:
            self.spec = gym.envs.registration.EnvSpec(about["identifier"], max_episode_steps=about["limit"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode, and its clock; in a new process if the old one is gone."""
        if self._worker is None:
            self._start()
        self._until = None if self.time_limit is None else time.monotonic() + self.time_limit
        answer = self._request({"reset": seed})
        self._take_spaces(answer)
        require(
            answer["parts"] == 2,
            f"reset() returned {answer['parts']} things, expected (observation, info)",
            RolloutError,
        )
        return _from_plain(answer["returned"][0]), {}

    def step(self, action: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step."""
        array = np.asarray(action)
        request = {"step": array.ravel().tolist(), "shape": list(array.shape), "dtype": array.dtype.name}
        answer = self._request(request)
        require(
            answer["parts"] == 5,
            f"step() returned {answer['parts']} things, expected (observation, reward, terminated, truncated, info)",
            RolloutError,
        )
        observation, reward, terminated, truncated = map(_from_plain, answer["returned"])
        return observation, reward, terminated, truncated, {}

    def check_contract(self) -> str | None:
        """Return what Gymnasium's checker finds wrong with the environment in its process, or None."""
        if self._worker is None:
            self._start()
        self._until = time.monotonic() + (self.time_limit or START)
        return self._request({"check": True})["complaint"]

    def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()

    def _start(self) -> dict[str, Any]:
        self._worker = Worker(handle_request)
        self._until = time.monotonic() + START
        about = self._answer({})
        if "error" in about:
            self.close()
            kind = UnknownNameError if about["kind"] == "UnknownNameError" else SpaceError
            raise kind(about["error"])
        try:
            self._take_spaces(about)
        except SpaceError:
            self.close()
            raise
        return about

    def _take_spaces(self, about: dict[str, Any]) -> None:
        self.observation_space = _build_space("observation", about["observation_space"])
        self.action_space = _build_space("action", about["action_space"])

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._answer(request)
        if "error" in answer:
            raise RolloutError(f"the environment raised {answer['kind']}: {answer['error']}")
        return answer

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer. Without one, the process is gone: killed, or dead by itself."""
        worker, self._worker = self._worker, None
        assert worker is not None
        left = None if self._until is None else self._until - time.monotonic()
        try:
            reply = worker.call(json.dumps({"env": self.name, **request}).encode(), left)
        except TimeoutError:
            raise RolloutError(
                f"the environment took longer than the time limit of {self.time_limit or START:g} s; "
                "its process was ended"
            ) from None
        except WorkerDied as death:
            raise RolloutError(f"the environment's {death}") from None
        self._worker = worker
        if reply.kind != DONE:  # the exception could not even be described
            raise RolloutError(f"the environment failed: {reply.content.decode().strip().splitlines()[-1]}")
        answer: dict[str, Any] = json.loads(reply.content)
        return answer


def make_env(env: gym.Env | str | None, isolate: bool = False) -> gym.Env | None:
    """Make an environment from its id, here or in a process of its own; take one that is there as it is.

    Args:
        env: an id, an environment (its nested observations become vectors), or None, which stays None.
        isolate: whether to make it in another process; only an id can be.
    """
    require(
        not isolate or isinstance(env, str),
        f"an isolated environment is made in another process: give its id, got {env}",
    )
    if isinstance(env, str):
        return Isolated(env) if isolate else make(env)
    require(
        env is None or isinstance(env, gym.Env | gym.vector.VectorEnv),
        f"the environment must be one of Gymnasium, or an id, got {env!r:.100}; ddopg.envs.from_functional makes one "
        "of functions",
        SpaceError,
    )
    return None if env is None else flatten_observations(env)


def _build_space(what: str, about: dict[str, Any]) -> gym.spaces.Box:
    require("text" not in about, f"the {what} space must be a Box, got {about.get('text')}", SpaceError)
    kind = np.dtype(about["dtype"]).type
    low, high = (np.array(about[name], kind).reshape(about["shape"]) for name in ("low", "high"))
    return gym.spaces.Box(low, high, dtype=kind)


def _from_plain(answer: Any) -> Any:
    if not isinstance(answer, dict):
        return answer
    if "odd" in answer:
        return answer["odd"]
    return np.array(answer["numbers"], answer["dtype"]).reshape(answer["shape"])
