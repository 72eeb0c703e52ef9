"""Controllers with NumPy alone: one file of the package plays what `to_numpy` wrote, as `predict` does."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ddopg
from ddopg import numpy_controller
from ddopg.controllers import Parameter, controller, gain_scheduled, linear_feedback, low_passed
from ddopg.errors import ArtefactError
from ddopg.policies import limited
from ddopg.storage.numpy_form import to_numpy
from tests.storage.test_onnx_with_memory import HIGH, LOW, make, trained_with

OBSERVATIONS = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
QUIET = 0.05 * OBSERVATIONS  # no action at its bound
MEMORIES = ["pid", "oscillator", "movement primitive", "rate limit", "low pass"]


def make_any(name):
    if name == "linear feedback":
        return linear_feedback(4, 2)
    if name == "gain scheduling":
        return gain_scheduled(4, 2, variable=1, points=(-1.0, 0.0, 0.6))
    if name == "low pass":
        return low_passed(limited(make_any("linear feedback"), LOW, HIGH), steps=2.0)
    return make(name)


@pytest.mark.parametrize("name", [*MEMORIES, "linear feedback", "gain scheduling"])
def test_its_episode_is_that_of_predict(name, tmp_path):
    trained = trained_with(make_any(name))
    act = numpy_controller.load(to_numpy(trained, tmp_path / "policy.json")).begin()
    expected = trained.begin()
    for seen in OBSERVATIONS:
        np.testing.assert_allclose(act(seen), np.clip(expected(seen), LOW, HIGH), atol=2e-5)


@pytest.mark.parametrize("name", MEMORIES)
def test_every_episode_begins_anew(name, tmp_path):
    loaded = numpy_controller.load(to_numpy(trained_with(make_any(name)), tmp_path / "policy.json"))
    first, second = loaded.begin(), loaded.begin()
    once = [first(seen) for seen in QUIET]
    np.testing.assert_array_equal(once, [second(seen) for seen in QUIET])
    assert not np.allclose(once[-1], loaded.begin()(QUIET[-1]), atol=1e-4)  # it does remember


def test_it_knows_its_parameters_in_real_units(tmp_path):
    trained = trained_with(make("pid"))
    loaded = numpy_controller.load(to_numpy(trained, tmp_path / "policy.json"))
    assert loaded.parameters == trained.parameters


def test_the_file_needs_numpy_alone(tmp_path):
    """It runs where neither ddopg nor JAX can be imported."""
    trained = trained_with(make("pid"))
    source = to_numpy(trained, tmp_path / "policy.json")
    shutil.copy(numpy_controller.__file__, tmp_path / "robot_controller.py")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['ddopg', 'jax'])); import robot_controller\n"
        f"print(robot_controller.load({str(source)!r}).begin()([0.1, -0.2, 0.3, 0.0])[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(float(trained.begin()([0.1, -0.2, 0.3, 0.0])[1]), abs=1e-6)


def test_a_changed_file_is_refused(tmp_path):
    path = to_numpy(trained_with(make("pid")), tmp_path / "policy.json")
    path.write_text(path.read_text().replace("sub", "add", 1))
    with pytest.raises(ValueError, match="checksum"):
        numpy_controller.load(path)


@pytest.mark.parametrize("text", ["", "[]", '{"checksum": 1}', "{}", "null"])
def test_what_is_no_controller_file_is_refused(text, tmp_path):
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ValueError, match="not a controller file of ddopg"):
        numpy_controller.load(tmp_path / "policy.json")


def test_an_unknown_operation_in_a_file_is_refused():
    about = {"format": numpy_controller.FORMAT, "schema": 1, "inputs": ["o", "s"], "outputs": ["o", "s"]}
    with pytest.raises(ValueError, match="operations that are not known here: eval"):
        numpy_controller.Controller(
            about | {"steps": [["eval", ["o"], "x", {}]], "initial_state": [], "constants": {}}
        )


def test_a_reading_that_is_not_finite_is_refused(tmp_path):
    act = numpy_controller.load(to_numpy(trained_with(make("pid")), tmp_path / "policy.json")).begin()
    with pytest.raises(ValueError, match="finite observations"):
        act([np.nan, 0.0, 0.0, 0.0])


def test_what_cannot_be_written_is_said_in_words(tmp_path):
    import jax.numpy as jnp

    policy = controller(
        [Parameter("gain", 0.1, scale=0.1)], lambda p, seen: jnp.sort(p["gain"] * seen)[:2], 4, 2
    )
    with pytest.raises(ArtefactError, match="cannot be written for NumPy: it has the operation sort"):
        to_numpy(trained_with(policy), tmp_path / "policy.json")
    assert not (tmp_path / "policy.json").exists()


def test_the_command_exports_it(tmp_path, capsys):
    from ddopg.cli.main import main

    ddopg.DDOPG("cartpole", seed=0).save(tmp_path / "p.safetensors")
    main(["export", str(tmp_path / "p.safetensors"), str(tmp_path / "policy.json")])
    assert "policy.json" in capsys.readouterr().out
    assert json.loads((tmp_path / "policy.json").read_text())["checksum"]
