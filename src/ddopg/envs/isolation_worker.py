"""The far side of an isolated environment: it makes the environment and does as it is told.

Orders and answers are lines of JSON on what were standard input and output; what the environment prints goes to
standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import make, takes_unclipped_actions
from ddopg.envs.checks import complaint


def main(name: str) -> None:
    """Serve until the other side is gone."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin, orders.put), daemon=True).start()
    try:
        env = make(name)
        _say(answers, describe(env))
    except Exception as error:
        _say(answers, {"error": str(error), "kind": type(error).__name__})
        return
    while True:
        order = orders.get()
        try:
            _say(answers, obey(env, name, order))
        except (Exception, SystemExit) as error:
            _say(answers, {"error": f"raised {type(error).__name__}: {error}"})


def obey(env: gym.Env, name: str, order: dict[str, Any]) -> dict[str, Any]:
    """Carry out one order."""
    if "reset" in order:
        returned = env.reset(seed=order["reset"])
        return describe(env) | {"returned": [_plain(value) for value in returned[:1]], "parts": len(returned)}
    if "step" in order:
        action = np.array(order["step"], order["dtype"]).reshape(order["shape"])
        after = env.step(action)
        return {"returned": [_plain(value) for value in after[:4]], "parts": len(after)}
    return {"complaint": complaint(make(name))}


def describe(env: gym.Env) -> dict[str, Any]:
    """Spaces and time limit as plain values."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    return {
        "identifier": env.spec.id if env.spec is not None else None,
        "limit": limit,
        "unclipped": takes_unclipped_actions(env),
        "observation_space": _space(env.observation_space),
        "action_space": _space(env.action_space),
    }


def _space(space: Any) -> dict[str, Any]:
    if not isinstance(space, gym.spaces.Box):
        return {"text": str(space)}
    low, high = np.asarray(space.low, float).ravel().tolist(), np.asarray(space.high, float).ravel().tolist()
    return {"low": low, "high": high, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}


def _plain(value: Any) -> Any:
    """An array as its numbers, shape and type; a number or a flag as it is; anything else by its looks."""
    if isinstance(value, bool | int | float):
        return value
    with contextlib.suppress(Exception):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            numbers = array.ravel().tolist()
            return {"numbers": numbers, "shape": list(array.shape), "dtype": array.dtype.name}
    return {"odd": f"{type(value).__name__} {value!r}"[:200]}


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _listen(orders: TextIO, put: Callable[[dict[str, Any]], None]) -> None:
    """Read orders; when they end, the other side is gone, and so is this process, whatever it is doing."""
    for line in orders:
        put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
