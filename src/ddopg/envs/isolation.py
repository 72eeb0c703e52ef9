"""An environment in a process of its own: it may hang or die without taking the learner along.

Every answer is waited for until the rollout's time is up; then, or when the process is gone, it is ended, the rollout
has failed, and the next reset starts a new process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import flattened, make
from ddopg.errors import RolloutError, SpaceError, UnknownNameError, require

START = 60.0  # seconds in which a new process must have made its environment


class Isolated(gym.Env[np.ndarray, np.ndarray]):
    """The environment of that name, elsewhere. `time_limit` is in seconds, from a reset to the end of the episode."""

    def __init__(self, name: str, time_limit: float | None = None) -> None:
        self.name, self.time_limit = name, time_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._rest, self._until = b"", None if time_limit is None else 0.0
        about = self._start()
        self.metadata = {"unclipped_actions": about["unclipped"], "render_modes": []}
        if about["limit"] is not None:
            self.spec = gym.envs.registration.EnvSpec(about["identifier"], max_episode_steps=about["limit"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode, and its clock."""
        if self._process is None:
            self._start()
        self._until = None if self.time_limit is None else time.monotonic() + self.time_limit
        answer = self._order({"reset": seed})
        self._describe(answer)
        require(
            answer["parts"] == 2,
            f"reset() returned {answer['parts']} things, expected (observation, info)",
            RolloutError,
        )
        return _value(answer["returned"][0]), {}

    def step(self, action: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step."""
        array = np.asarray(action)
        order = {"step": array.ravel().tolist(), "shape": list(array.shape), "dtype": array.dtype.name}
        answer = self._order(order)
        require(
            answer["parts"] == 5,
            f"step() returned {answer['parts']} things, expected (observation, reward, terminated, truncated, info)",
            RolloutError,
        )
        observation, reward, terminated, truncated = map(_value, answer["returned"])
        return observation, reward, terminated, truncated, {}

    def complaint(self) -> str | None:
        """What Gymnasium's checker finds, over there."""
        if self._process is None:
            self._start()
        self._until = time.monotonic() + (self.time_limit or START)
        return self._order({"check": True})["complaint"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._end()

    def _start(self) -> dict[str, Any]:
        # A session of its own: Ctrl-C is for the learner, which decides what it means for the environment.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ddopg.envs.isolation_worker", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._end = weakref.finalize(self, _end, self._process)
        self._rest, self._until = b"", time.monotonic() + START
        about = self._answer()
        if "error" in about:
            self._gone()
            kind = UnknownNameError if about["kind"] == "UnknownNameError" else SpaceError
            raise kind(about["error"])
        self._describe(about)
        return about

    def _describe(self, about: dict[str, Any]) -> None:
        self.observation_space = _space("observation", about["observation_space"])
        self.action_space = _space("action", about["action_space"])

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it may have died; the answer will say so
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        try:
            answer = self._answer()
        except RolloutError:
            raise
        except (
            BaseException
        ):  # an interruption: the answer will still come, and must not be taken for the next one
            self._gone()
            raise
        if "error" in answer:
            raise RolloutError(f"the environment {answer['error']}")
        return answer

    def _answer(self) -> dict[str, Any]:
        """The next line, if it comes in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = None if self._until is None else max(0.0, self._until - time.monotonic())
            if not select.select([pipe], [], [], left)[0]:
                self._gone()
                raise RolloutError(
                    f"the environment took longer than the time limit of {self.time_limit or START:g} s; "
                    "its process was ended"
                )
            more = os.read(pipe, 2**16)
            if not more:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=5)
                raise RolloutError(f"the environment's process died (exit code {self._gone()})")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> int | None:
        process, self._process = self._process, None
        assert process is not None
        self._end()
        return process.returncode


def made(env: gym.Env | str | None, isolate: bool) -> gym.Env | None:
    """The environment itself, made from its id if that is given, here or in a process of its own."""
    require(
        not isolate or isinstance(env, str),
        f"an isolated environment is made in another process: give its id, got {env}",
    )
    if isinstance(env, str):
        return Isolated(env) if isolate else make(env)
    return None if env is None else flattened(env)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was still to be written has no reader any more
            pipe.close()


def _space(what: str, about: dict[str, Any]) -> gym.spaces.Box:
    require("text" not in about, f"the {what} space must be a Box, got {about.get('text')}", SpaceError)
    kind = np.dtype(about["dtype"]).type
    low, high = (np.array(about[name], kind).reshape(about["shape"]) for name in ("low", "high"))
    return gym.spaces.Box(low, high, dtype=kind)


def _value(answer: Any) -> Any:
    if not isinstance(answer, dict):
        return answer
    if "odd" in answer:
        return answer["odd"]
    return np.array(answer["numbers"], answer["dtype"]).reshape(answer["shape"])
