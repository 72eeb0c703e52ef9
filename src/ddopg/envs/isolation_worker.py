"""The far side of an isolated environment: from a request to an answer, both JSON, in the process of the environment.

Every request names the environment, which is made once and kept. `{"env": NAME}` alone asks for its spaces and time
limit; with `"reset": SEED`, `"step": NUMBERS` or `"check": true` it says what to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.envs.adapter import find_running_statistics, make, takes_unclipped_actions
from ddopg.envs.checks import check_contract
from ddopg.support.processes import Report


def handle_request(content: bytes, report: Report | None = None) -> bytes:
    """Carry out one request. What goes wrong is an answer too: `error` says what, `kind` which exception it was."""
    request = json.loads(content)
    try:
        answer = carry_out(_make_once(request["env"]), request)
    except (Exception, SystemExit) as error:
        answer = {"error": str(error), "kind": type(error).__name__}
    return json.dumps(answer).encode()


def carry_out(env: gym.Env, request: dict[str, Any]) -> dict[str, Any]:
    """Do what the request says, and describe what came of it in plain values."""
    if "reset" in request:
        returned = env.reset(seed=request["reset"])
        return describe(env) | {
            "returned": [_to_plain(value) for value in returned[:1]],
            "parts": len(returned),
        }
    if "step" in request:
        action = np.array(request["step"], request["dtype"]).reshape(request["shape"])
        after = env.step(action)
        return {"returned": [_to_plain(value) for value in after[:4]], "parts": len(after)}
    if "check" in request:
        return {"complaint": check_contract(make(request["env"]))}
    return describe(env)


def describe(env: gym.Env) -> dict[str, Any]:
    """Describe spaces and time limit in plain values."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    return {
        "identifier": env.spec.id if env.spec is not None else None,
        "limit": limit,
        "unclipped": takes_unclipped_actions(env),
        "running_statistics": find_running_statistics(env),
        "observation_space": _describe_space(env.observation_space),
        "action_space": _describe_space(env.action_space),
    }


@cache
def _make_once(name: str) -> gym.Env:
    # `ddopg train mine:Mine-v0 --isolate` finds a module in the current directory.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return make(name)


def _describe_space(space: Any) -> dict[str, Any]:
    if not isinstance(space, gym.spaces.Box):
        return {"text": str(space)}
    low, high = np.asarray(space.low, float).ravel().tolist(), np.asarray(space.high, float).ravel().tolist()
    return {"low": low, "high": high, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}


def _to_plain(value: Any) -> Any:
    """Give an array as its numbers, shape and type; a number or a flag as it is; anything else as text."""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    with contextlib.suppress(Exception):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            numbers = array.ravel().tolist()
            return {"numbers": numbers, "shape": list(array.shape), "dtype": array.dtype.name}
    try:
        return {"odd": f"{type(value).__name__} {value!r}"[:200]}
    except Exception:  # such as an integer of too many digits
        return {"odd": type(value).__name__}
