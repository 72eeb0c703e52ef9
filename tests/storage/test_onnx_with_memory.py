"""ONNX files of controllers with a memory: the state goes in and comes out, and starts as the metadata say."""

import json

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest

import ddopg
from ddopg.controllers import (
    Loop,
    Parameter,
    controller,
    linear_feedback,
    movement_primitive,
    oscillator,
    pid,
    rate_limited,
)
from ddopg.errors import ArtefactError
from ddopg.policies import limited
from ddopg.storage.onnx import to_onnx

LOW, HIGH = (-1.0, -2.0), (1.0, 2.0)
OBSERVATIONS = np.random.default_rng(1).normal(size=(12, 3, 4)).astype(np.float32)
FIXED = {
    "stiffness": Parameter("stiffness", 5.0, fixed=True),
    "damping": Parameter("damping", 0.5, fixed=True),
}


def make(name):
    if name == "pid":
        gains = {gain: Parameter(gain, 0.7, bounds=(0.0, 5.0)) for gain in ("kp", "ki", "kd")}
        return pid(4, [Loop(0), Loop(1, target=2)], dt=0.02, low=LOW, high=HIGH, **gains)
    if name == "oscillator":
        return oscillator(4, (0, 1), (2, 3), low=LOW, high=HIGH)
    if name == "movement primitive":
        weight = Parameter("weight", 0.2, scale=0.3)
        return movement_primitive(4, (0, 1), (2, 3), duration=8, bumps=3, weight=weight, **FIXED)
    assert name == "rate limit"
    return rate_limited(limited(linear_feedback(4, 2), LOW, HIGH), change=(0.1, 0.1), rest=(0.5, 0.5))


def trained_with(policy):
    agent = ddopg.DDOPG(
        observation_space=gym.spaces.Box(-1, 1, (4,)),
        action_space=gym.spaces.Box(np.array(LOW), np.array(HIGH), dtype=np.float64),
        horizon=12,
        policy=policy,
        preset="trajectory",
    )
    return agent.incumbent._replace(theta=np.linspace(-0.8, 0.8, policy.size, dtype=np.float32))


@pytest.mark.parametrize("name", ["pid", "oscillator", "movement primitive", "rate limit"])
def test_its_episode_is_that_of_predict(name, tmp_path):
    trained = trained_with(make(name))
    session = onnxruntime.InferenceSession(str(to_onnx(trained, tmp_path / "policy.onnx")))
    about = session.get_modelmeta().custom_metadata_map
    state = np.array([json.loads(about["initial_state"])] * 3, np.float32)
    remembered = None
    for seen in OBSERVATIONS:
        feed = {"observation": seen, "state": state}
        action, state = session.run(["action", "next_state"], feed)
        expected, remembered = trained.predict(seen, remembered)
        np.testing.assert_allclose(action, expected, atol=1e-5)
    assert not np.allclose(action, trained.predict(OBSERVATIONS[-1])[0], atol=1e-3)  # it does remember


def test_what_the_converter_cannot_write_is_said_in_words(tmp_path):
    def step(p, state, observation):
        return (state + p["gain"]) % 1.0, [state + observation[0], state]

    policy = controller([Parameter("gain", 0.1, scale=0.1)], step, 4, 2, initial=lambda p: 0.0)
    with pytest.raises(ArtefactError, match=r"cannot be written as ONNX: .* take the policy file"):
        to_onnx(trained_with(policy), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
