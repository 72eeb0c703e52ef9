"""The arms of the suite are those of the examples, which users read."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from ddopg.envs.adapter import make
from ddopg.experiments.bench import controllers

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("identifier", "example", "env", "policy", "ours"),
    [
        ("ddopg/TwoJointArm-v0", "tune_pid", "Arm", "arm", controllers.two_loops),
        ("ddopg/SevenJointArm-v0", "tune_movement", "SevenJoints", "movement", controllers.movement),
    ],
)
def test_arm_and_controller_are_those_of_the_example(identifier, example, env, policy, ours):
    theirs = load_example(example)
    here, there, rng = make(identifier), getattr(theirs, env)(), np.random.default_rng(0)
    assert here.action_space == there.action_space
    np.testing.assert_array_equal(here.reset(seed=4)[0], there.reset(seed=4)[0])
    for k in range(100):
        action = rng.uniform(here.action_space.low, here.action_space.high)
        seen, reward, terminated, truncated, _ = here.step(action)
        other, expected, *_ = there.step(action)
        np.testing.assert_array_equal(seen, other)
        assert reward == pytest.approx(expected, abs=1e-12)
        assert (terminated, truncated) == (False, k == 99)
    assert ours.parameters == getattr(theirs, policy).parameters
