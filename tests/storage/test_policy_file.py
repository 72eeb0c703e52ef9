"""Policy files: they come back the same, describe themselves, and hostile ones get our error."""

import json
import os

import numpy as np
import pytest
import safetensors.numpy

import ddopg
from ddopg.config import PRESETS, preset
from ddopg.core.problem import Problem
from ddopg.errors import ArtefactError, DDOPGError
from ddopg.storage.policy_file import FORMAT, KEY, LARGEST_FILE, TrainedPolicy, digest_policy, load

PROBLEM = Problem(observation_size=3, low=(-2.0,), high=(2.0,), horizon=50)


def trained(name="released", **changes):
    bare = TrainedPolicy(np.zeros(0, np.float32), PROBLEM, preset(name), "Pendulum-v1", {"return": 1.5})
    theta = np.random.default_rng(0).standard_normal(bare.policy.size).astype(np.float32)
    return bare._replace(theta=theta, **changes)


@pytest.mark.parametrize("name", PRESETS)
def test_a_policy_comes_back_the_same(name, tmp_path):
    policy, path = trained(name), tmp_path / "p.safetensors"
    assert policy.save(path) == path
    again = load(path)
    np.testing.assert_array_equal(again.theta, policy.theta)
    assert again[1:] == policy[1:]
    observation = np.array([0.1, -0.4, 2.0])
    np.testing.assert_array_equal(again.predict(observation)[0], policy.predict(observation)[0])
    assert ddopg.load(path).environment == "Pendulum-v1"


def test_the_file_describes_itself_to_any_reader_of_safetensors(tmp_path):
    path = trained().save(tmp_path / "p.safetensors")
    with safetensors.safe_open(path, framework="np") as file:
        described = json.loads(file.metadata()[KEY])
    assert described["format"] == FORMAT
    assert described["version"] == ddopg.__version__
    assert described["problem"]["observation_size"] == 3


def test_the_same_policy_is_the_same_file(tmp_path):
    one, two = (trained().save(tmp_path / name).read_bytes() for name in ("a.safetensors", "b.safetensors"))
    assert one == two


def test_predict_clips_to_the_action_range_and_takes_batches():
    policy = trained()._replace(theta=100 * trained().theta)
    one, state = policy.predict(np.ones(3), state="kept")
    many, _ = policy.predict(np.ones((5, 3)))
    assert one.shape == (1,)
    assert many.shape == (5, 1)
    assert state == "kept"
    assert np.all(np.abs(many) <= 2)
    assert np.abs(policy.act(np.ones(3))) > 2
    assert policy.predict(np.ones((1, 3)))[0].shape == (1, 1)


def test_an_observation_of_another_size_is_refused():
    for call in (trained().act, trained().predict):
        with pytest.raises(DDOPGError, match="expects an observation of 3 numbers, got 4"):
            call(np.ones(4))


def test_saving_into_a_place_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ArtefactError, match=r"cannot write .*; choose a directory"):
        trained().save(tmp_path / "file" / "p.safetensors")
    (tmp_path / "taken").mkdir()
    with pytest.raises(ArtefactError, match="cannot write"):
        trained().save(tmp_path / "taken")
    assert sorted(os.listdir(tmp_path)) == ["file", "taken"]


def test_saving_replaces_the_old_file_whole(tmp_path):
    path = tmp_path / "p.safetensors"
    trained().save(path)
    trained()._replace(note={"return": 9.0}).save(path)
    assert load(path).note == {"return": 9.0}
    assert os.listdir(tmp_path) == ["p.safetensors"]


class TestForeignFiles:
    @staticmethod
    def written(tmp_path, **changes):
        path = trained().save(tmp_path / "p.safetensors")
        with safetensors.safe_open(path, framework="np") as file:
            described, theta = json.loads(file.metadata()[KEY]), file.get_tensor("theta")
        tensors = changes.pop("tensors", {"theta": theta})
        described = {name: value for name, value in (described | changes).items() if name != "checksum"}
        checksum = digest_policy(described, next(iter(tensors.values())))  # a forger can compute it too
        text = changes.pop("text", None) or json.dumps(described | {"checksum": checksum})
        path.write_bytes(safetensors.numpy.save(tensors, metadata={KEY: text}))
        return path

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"text": "{"}, "description inside .* is damaged"),
            ({"text": "[" * 100_000}, "description inside .* is damaged"),
            ({"text": "[]"}, "not a policy of ddopg"),
            ({"format": "other"}, "not a policy of ddopg: expected one tensor"),
            ({"tensors": {"weights": np.zeros(3, np.float32)}}, "not a policy of ddopg"),
            ({"schema": 99}, "schema 99, this version of ddopg reads 1; update"),
            ({"problem": {}}, "description inside .* is damaged"),
            ({"problem": {"observation_size": -1, "low": [0], "high": [1], "horizon": 5}}, "damaged"),
            ({"problem": {"observation_size": 3, "low": [2], "high": [1], "horizon": 5}}, "damaged"),
            ({"problem": {"observation_size": 3, "low": [], "high": [], "horizon": 5}}, "damaged"),
            ({"config": {"serach": 1}}, "damaged"),
            ({"config": []}, "damaged"),
            ({"environment": 7}, "damaged"),
            ({"note": 3}, "damaged"),
            ({"tensors": {"theta": np.zeros(7, np.float32)}}, "finite float32 parameters, but holds"),
            ({"tensors": {"theta": np.zeros(353, np.float64)}}, "but holds float64"),
            ({"tensors": {"theta": np.full(353, np.nan, np.float32)}}, "finite float32 parameters"),
        ],
    )
    def test_a_file_that_says_something_else_is_refused(self, tmp_path, changes, message):
        with pytest.raises(ArtefactError, match=message):
            load(self.written(tmp_path, **changes))

    def test_files_that_are_no_safetensors_are_refused(self, tmp_path):
        whole = trained().save(tmp_path / "p.safetensors").read_bytes()
        for content in (b"", b"hello", whole[:40], whole[:-7], b"\xff" * 64, whole[8:]):
            path = tmp_path / "bad.safetensors"
            path.write_bytes(content)
            with pytest.raises(ArtefactError, match=r"not a readable safetensors file|cannot read"):
                load(path)

    def test_a_path_without_a_file_is_refused(self, tmp_path):
        with pytest.raises(ArtefactError, match=r"cannot read .*; check the path"):
            load(tmp_path / "nothing.safetensors")
        with pytest.raises(ArtefactError):
            load(tmp_path)

    def test_every_flipped_bit_is_refused(self, tmp_path):
        """What is wrong may differ, that it is refused may not."""
        whole = bytearray(trained("trajectory").save(tmp_path / "p.safetensors").read_bytes())
        path = tmp_path / "bad.safetensors"
        for position in range(0, len(whole), 3):
            damaged = whole.copy()
            damaged[position] ^= 1 << position // 3 % 8
            path.write_bytes(damaged)
            with pytest.raises(ArtefactError):
                load(path)

    def test_a_file_that_is_too_large_is_refused_unread(self, tmp_path):
        path = trained().save(tmp_path / "p.safetensors")
        os.truncate(path, LARGEST_FILE + 1)  # a hole: it takes no room
        with pytest.raises(ArtefactError, match=r"has 268435457 bytes, a policy file has at most"):
            load(path)

    def test_what_is_no_file_is_refused_and_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
            with pytest.raises(ArtefactError, match="is not a file; give a policy file"):
                load(path)

    def test_a_run_store_or_a_picture_under_the_name_of_a_policy_is_refused(self, tmp_path):
        for content in (b"SQLite format 3\0" + bytes(4080), b"\x89PNG\r\n\x1a\n" + bytes(100)):
            path = tmp_path / "policy.safetensors"
            path.write_bytes(content)
            with pytest.raises(ArtefactError, match="not a readable safetensors file"):
                load(path)
