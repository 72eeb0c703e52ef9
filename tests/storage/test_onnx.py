"""Policies away from home: ONNX in its own runtime, and the one file that needs NumPy alone."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest

import ddopg
from ddopg import numpy_policy
from ddopg.cli.main import main
from ddopg.config import PRESETS
from ddopg.errors import MissingPackageError
from ddopg.storage.onnx import to_onnx
from ddopg.storage.policy_file import describe, encode_policy, load
from ddopg.support.records import change
from tests.storage.test_policy_file import trained
from tests.test_shape import lines_of_docstring

SINGLE_FILE = Path(numpy_policy.__file__)
OBSERVATIONS = np.random.default_rng(1).normal(scale=3.0, size=(40, 3)).astype(np.float32)


def wide(name):
    """A policy with parameters so large that squashing and clipping show."""
    policy = with_linear_path() if name == "linear path" else trained(name)
    return policy._replace(theta=3 * policy.theta)


def with_linear_path():
    config = change(trained().config, {"policy.hidden": (5, 4), "policy.linear_path": True})
    policy = trained()._replace(config=config)
    theta = np.random.default_rng(0).standard_normal(policy.policy.size).astype(np.float32)
    return policy._replace(theta=theta)


@pytest.mark.parametrize("name", [*PRESETS, "linear path"])
def test_onnx_says_what_predict_says(name, tmp_path):
    session = onnxruntime.InferenceSession(to_onnx(wide(name), tmp_path / "p.onnx"))
    for rows in (1, 40):
        (actions,) = session.run(["action"], {"observation": OBSERVATIONS[:rows]})
        np.testing.assert_allclose(actions, wide(name).predict(OBSERVATIONS[:rows])[0], atol=1e-5)
    assert np.ptp(actions) > 1, "actions that are all alike would agree too easily"


def test_an_onnx_file_describes_itself(tmp_path):
    session = onnxruntime.InferenceSession(to_onnx(trained(), tmp_path / "p.onnx"))
    assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [
        ("observation", ["batch", 3], "tensor(float)")
    ]
    assert [(o.name, o.shape[1:], o.type) for o in session.get_outputs()] == [
        ("action", [1], "tensor(float)")
    ]
    about = session.get_modelmeta()
    assert about.producer_name == "ddopg"
    assert '"environment": "Pendulum-v1"' in about.custom_metadata_map["ddopg"]


def test_the_command_exports_and_says_where(tmp_path, capsys):
    source, target = trained().save(tmp_path / "p.safetensors"), tmp_path / "new" / "p.onnx"
    assert main(["export", str(source), str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    assert main(["export", str(source), str(tmp_path / "p.txt")]) == 2
    assert "must end in .onnx, or in .json" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "p.safetensors"]


def test_without_the_converter_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    with pytest.raises(MissingPackageError, match=r'pip install "ddopg\[onnx\]"'):
        to_onnx(trained(), tmp_path / "p.onnx")


@pytest.mark.parametrize("name", [*PRESETS, "linear path"])
def test_the_single_file_says_what_predict_says(name, tmp_path):
    policy = numpy_policy.load(wide(name).save(tmp_path / "p.safetensors"))
    np.testing.assert_allclose(policy(OBSERVATIONS), wide(name).predict(OBSERVATIONS)[0], atol=1e-6)
    np.testing.assert_allclose(policy(OBSERVATIONS[3]), wide(name).predict(OBSERVATIONS[3])[0], atol=1e-6)


def test_the_single_file_is_short_and_needs_numpy_alone(tmp_path):
    """It runs where neither ddopg nor JAX nor safetensors can be imported."""
    text = SINGLE_FILE.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) - sum(map(lines_of_docstring, ast.walk(tree))) <= 140
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes}
    assert imports == {"hashlib", "itertools", "json", "pathlib", "numpy"}
    shutil.copy(SINGLE_FILE, tmp_path / "robot_policy.py")
    source = wide("released").save(tmp_path / "p.safetensors")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['ddopg', 'jax', 'safetensors'])); import robot_policy\n"
        f"print(robot_policy.load({str(source)!r})([0.1, -0.2, 0.3])[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    expected = load(source).predict(np.array([0.1, -0.2, 0.3]))[0][0]
    assert float(done.stdout) == pytest.approx(expected, abs=1e-6)


def test_the_single_file_refuses_what_is_not_a_policy(tmp_path):
    source = trained().save(tmp_path / "p.safetensors")
    whole = source.read_bytes()
    other = trained()._replace(theta=trained().theta[:-1]).save(tmp_path / "short.safetensors").read_bytes()
    nan = trained()._replace(theta=trained().theta * np.nan).save(tmp_path / "nan.safetensors").read_bytes()
    for content in (
        b"",
        b"junk",
        whole[:100],
        whole[:-4],
        other,
        nan,
        b"\xff" * 200,
        whole[:8] + b"[" * 9000,
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match="is not a policy file of ddopg, or it is damaged"):
            numpy_policy.load(tmp_path / "bad")
    with pytest.raises(ValueError, match=r"expected observations of 3 numbers, got shape \(4,\)"):
        numpy_policy.load(source)(np.ones(4))


@pytest.mark.parametrize("name", PRESETS)
def test_one_flipped_bit_never_gives_the_single_file_another_action(name, tmp_path):
    whole = wide(name).save(tmp_path / "p.safetensors").read_bytes()
    expected = numpy_policy.load(tmp_path / "p.safetensors")(OBSERVATIONS)
    places = np.random.default_rng(400).choice(8 * len(whole), 400, replace=False)
    refused = 0
    for place in places:
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        (tmp_path / "flipped").write_bytes(flipped)
        try:
            found = numpy_policy.load(tmp_path / "flipped")(OBSERVATIONS)
        except ValueError:
            refused += 1
        else:
            np.testing.assert_array_equal(found, expected)
    assert refused >= 399


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("problem", "observation_size", 10**400),
        ("problem", "observation_size", -3),
        ("problem", "observation_size", 3.0),
        ("problem", "high", [float("nan")]),
        ("problem", "low", [[-2.0]]),
        ("problem", "low", [3.0]),
        ("problem", "low", []),
        ("policy", "hidden", [2**40, 2**40]),
        ("policy", "hidden", [-1]),
        ("policy", "hidden", "16"),
        ("policy", "squash", "no"),
    ],
)
def test_the_single_file_refuses_absurd_descriptions_whose_checksum_is_right(part, name, value, tmp_path):
    described = json.loads(json.dumps(describe(trained())))
    parts = {"problem": described["problem"], "policy": described["config"]["policy"]}
    parts[part][name] = value
    (tmp_path / "odd").write_bytes(encode_policy(described, trained().theta))
    with pytest.raises(ValueError, match="is not a policy file of ddopg, or it is damaged"):
        numpy_policy.load(tmp_path / "odd")


def test_the_single_file_acts_without_bounds_where_nothing_is_squashed(tmp_path):
    space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-np.inf, np.inf, (1,))
    agent = ddopg.DDOPG(observation_space=space[0], action_space=space[1], horizon=5, preset="released")
    agent.save(tmp_path / "free")
    found = numpy_policy.load(tmp_path / "free")([0.5, -1.0])
    np.testing.assert_allclose(found, agent.predict([0.5, -1.0])[0], rtol=1e-5)


def test_the_single_file_refuses_other_schemas_and_what_is_no_file(tmp_path):
    later = encode_policy(describe(trained()) | {"schema": 2}, trained().theta)
    (tmp_path / "later").write_bytes(later)
    with pytest.raises(ValueError, match="expected a ddopg-policy of schema 1, found 'ddopg-policy' of 2"):
        numpy_policy.load(tmp_path / "later")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="expected a plain file"):
        numpy_policy.load(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        numpy_policy.load(tmp_path / "nowhere")
