"""Logs made by mistake or to do harm: our error, which names the file, nothing misread, no memory for nothing."""

import io
import json
import os
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from ddopg.core.problem import Problem
from ddopg.errors import TrajectoryError
from ddopg.storage.robot_logs import find_number, log_to_trajectory, read_log

PROBLEM = Problem(observation_size=2, low=(-1.0,), high=(1.0,), horizon=3)
GOOD = {"observations": [[1, 2], [3, 4.5]], "actions": [[0.5], [-1]], "rewards": [1, 2e3]}
HEADER = "observation_0,observation_1,action_0,reward"


def read(path):
    return log_to_trajectory(read_log(path, PROBLEM), path, PROBLEM)


def write_json(path, **changed):
    path = path / "log.json"
    path.write_text(json.dumps(GOOD | changed))
    return path


def write_csv(path, *lines):
    path = path / "log.csv"
    path.write_text("\n".join(lines))
    return path


def write_npz(path, save=np.savez, **changed):
    path = path / "log.npz"
    save(path, **(GOOD | changed))
    return path


def refuse(path, complaint):
    with pytest.raises(TrajectoryError, match=complaint) as caught:
        read(path)
    assert path.name in str(caught.value)


class TestGoodLogs:
    def test_the_three_formats_say_the_same(self, tmp_path):
        rows = (f"{HEADER},time,terminated", "1,2, 0.5,1,0.0,", "", "3,4.5,-1,2e3,0.1,1")
        paths = (
            write_csv(tmp_path, *rows),
            write_json(tmp_path, terminated=True, comment=["windy"]),
            write_npz(tmp_path, terminated=[0, 1], comment="windy"),
        )
        for path in paths:
            found = read(path)
            assert found.observations[:2].tolist() == GOOD["observations"]
            assert found.actions[:2].tolist() == GOOD["actions"]
            assert found.rewards[:2].tolist() == GOOD["rewards"]
            assert found.terminated
            assert found.length == 2

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    @pytest.mark.parametrize("ended", [True, np.True_, 1, [False, True], np.array([1.0])])
    def test_npz_may_be_compressed_and_flags_of_any_kind(self, save, ended, tmp_path):
        assert read(write_npz(tmp_path, save, terminated=ended)).terminated

    @pytest.mark.parametrize("kind", [np.float32, np.float64, np.longdouble, np.int8, np.uint64])
    def test_npz_may_hold_numbers_of_any_kind_and_order(self, kind, tmp_path):
        rewards = np.array([1, 2], kind)
        observations = np.asfortranarray(np.array(GOOD["observations"]).astype(">f8"))
        found = read(write_npz(tmp_path, rewards=rewards, observations=observations))
        assert found.rewards[:2].tolist() == [1, 2]
        assert found.observations[:2].tolist() == GOOD["observations"]

    def test_the_proposal_is_read_where_it_is_a_whole_number(self, tmp_path):
        assert read_log(write_json(tmp_path, proposal=7), PROBLEM).proposal == 7
        assert read_log(write_json(tmp_path, proposal=None), PROBLEM).proposal is None
        assert read_log(write_npz(tmp_path, proposal=7), PROBLEM).proposal == 7


class TestForeignErrors:
    """Each of these gave an error that was not ours."""

    @pytest.mark.parametrize("number", ["1e400", "1" * 401, "-" + "9" * 5000, "NaN", "-Infinity"])
    @pytest.mark.parametrize("name", ["rewards", "observations", "actions"])
    def test_numbers_that_no_float_can_hold(self, number, name, tmp_path):
        path = write_json(tmp_path)
        path.write_text(
            path.read_text().replace(json.dumps(GOOD[name]), "@").replace("@", WHERE[name] % number)
        )
        refuse(path, f"{name} must be finite")

    def test_numbers_that_the_learner_cannot_hold(self, tmp_path):
        refuse(write_json(tmp_path, actions=[[1e39], [0]]), "actions must be finite")
        refuse(write_npz(tmp_path, actions=[[1e39], [0]]), "actions must be finite")
        refuse(write_csv(tmp_path, HEADER, "1,2,1e39,0"), "actions must be finite")
        refuse(write_csv(tmp_path, HEADER, "1,2,0," + "9" * 500), "rewards must be finite")

    @pytest.mark.parametrize("ended", [[], {}, None, "", [[]], [0, 0, 0], 1e400])
    def test_flags_that_are_none(self, ended, tmp_path):
        refuse(write_json(tmp_path, terminated=ended), "terminated must be")

    def test_empty_flags_and_numbers_of_an_archive(self, tmp_path):
        refuse(write_npz(tmp_path, terminated=[]), "log.npz")
        refuse(write_npz(tmp_path, proposal=np.zeros(0, int)), "log.npz")

    def test_text_that_no_terminal_can_show(self, tmp_path):
        path = write_json(tmp_path, rewards=["\ud800", 1])
        refuse(path, "rewards must be numbers")
        path.write_bytes(path.read_bytes().replace(b'"actions"', b'"\\ud800"'))
        with pytest.raises(TrajectoryError) as caught:
            read(path)
        str(caught.value).encode()
        odd = tmp_path / os.fsdecode(b"\xff.json")
        odd.write_text("{")
        with pytest.raises(TrajectoryError) as caught:
            read(odd)
        str(caught.value).encode()

    @pytest.mark.parametrize("flag", [0x1, 0x40])
    def test_an_encrypted_archive(self, flag, tmp_path):
        path = write_npz(tmp_path)
        content = bytearray(path.read_bytes())
        for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            at = content.find(signature)
            while at >= 0:
                content[at + offset] |= flag
                at = content.find(signature, at + 4)
        path.write_bytes(content)
        refuse(path, "log.npz is not a log that can be read")

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_an_archive_compressed_as_numpy_does_not(self, method, tmp_path):
        source = write_npz(tmp_path)
        with zipfile.ZipFile(source) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(source, "w", method) as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
        refuse(source, "compressed in another way")

    def test_an_archive_cut_or_damaged_anywhere(self, tmp_path):
        path = write_npz(tmp_path, np.savez_compressed, terminated=True, proposal=1)
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at])
            refuse(path, "log.npz")
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
            try:
                assert read(path).rewards[:2].tolist() == GOOD["rewards"]
            except TrajectoryError as error:
                assert "log.npz" in str(error)  # noqa: PT017


WHERE = {"rewards": "[%s, 1]", "observations": "[[1, %s], [0, 0]]", "actions": "[[%s], [0]]"}


class TestSilentReading:
    """Each of these was read, and meant something else than it said."""

    def test_rows_of_a_table_with_too_many_or_too_few_cells(self, tmp_path):
        refuse(write_csv(tmp_path, HEADER, "1,2,0,5,1,3"), "line 2 has 6 cells, the header has 4")
        refuse(write_csv(tmp_path, HEADER, "1,2,0,5", "1,2"), "line 3 has 2 cells, the header has 4")

    def test_columns_and_names_that_are_there_twice(self, tmp_path):
        refuse(write_csv(tmp_path, f"{HEADER},reward", "1,2,0,5,6"), "'reward'.* more than once")
        path = write_json(tmp_path)
        path.write_text(path.read_text()[:-1] + ', "rewards": [7, 7]}')
        refuse(path, "more than once")

    @pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
    def test_arrays_that_are_there_twice(self, tmp_path):
        path = write_npz(tmp_path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("rewards.npy", archive.read("rewards.npy"))
        refuse(path, "'rewards' more than once")

    @pytest.mark.parametrize("number", ["1_0", "١", "0x10", "", "1,5", "1 0", "True"])
    def test_numbers_as_only_python_writes_them(self, number, tmp_path):
        refuse(write_csv(tmp_path, HEADER, f'1,2,0,"{number}"'), "reward must be a number")

    @pytest.mark.parametrize("value", ["false", "true", "0", 2, -1, 0.5, 1.0, ["false"], [0, "1"]])
    def test_flags_that_are_text_or_other_numbers(self, value, tmp_path):
        refuse(write_json(tmp_path, terminated=value), "terminated must be")

    @pytest.mark.parametrize("value", ["false", 2, 0.5, 1j, np.nan])
    def test_flags_of_archives_that_are_text_or_other_numbers(self, value, tmp_path):
        refuse(write_npz(tmp_path, terminated=value), "terminated must be")

    @pytest.mark.parametrize("value", ["2", "yes", "0.5", "nan"])
    def test_flags_of_tables_that_are_text_or_other_numbers(self, value, tmp_path):
        refuse(write_csv(tmp_path, f"{HEADER},terminated", f"1,2,0,5,{value}"), "terminated must be")

    @pytest.mark.parametrize("value", [0.9, True, "0", [0], {"a": 1}])
    def test_proposals_that_are_no_whole_numbers(self, value, tmp_path):
        refuse(write_json(tmp_path, proposal=value), "proposal must be a whole number")

    @pytest.mark.parametrize("value", [0.9, True, "0", [0, 1]])
    def test_proposals_of_archives_that_are_no_whole_numbers(self, value, tmp_path):
        refuse(write_npz(tmp_path, proposal=value), "proposal must ")

    @pytest.mark.parametrize(
        "value", [["1", "2"], [True, False], [None, 1], "12", {"0": 1, "1": 2}, [[1], [2]]]
    )
    def test_rewards_that_are_no_numbers(self, value, tmp_path):
        refuse(write_json(tmp_path, rewards=value), "rewards must be")

    @pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]", "complex128", "U3", "S3", "V4"])
    def test_rewards_of_archives_that_are_dates_or_complex_or_text(self, kind, tmp_path):
        refuse(write_npz(tmp_path, rewards=np.zeros(2, kind)), "rewards must be real numbers")

    def test_a_directory_whose_name_is_no_number_for_us(self, tmp_path):
        assert find_number(tmp_path / "proposals" / "0012" / "log.csv") == 12
        assert find_number(tmp_path / "proposals" / "²" / "log.csv") is None


@pytest.mark.long
class TestMemory:
    def test_what_is_not_asked_for_is_not_read(self, tmp_path):
        path = write_npz(tmp_path, np.savez_compressed)
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            pour(archive, "video.npy", 2**28)
        assert measure_memory(path) < 2**26

    @pytest.mark.parametrize("name", ["observations", "rewards", "terminated", "proposal"])
    def test_what_is_larger_than_the_problem_is_refused_before_it_is_read(self, name, tmp_path):
        path = tmp_path / "log.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for other, value in (GOOD | {"terminated": True, "proposal": 1}).items():
                if other != name:
                    archive.writestr(f"{other}.npy", to_npy(np.array(value)))
            pour(archive, f"{name}.npy", 2**28)
        refuse(path, f"'{name}.npy' has 268435.* bytes")
        assert measure_memory(path) < 2**26

    def test_an_array_that_says_it_is_larger_than_it_is(self, tmp_path):
        forged = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            forged, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
        )
        path = write_npz(tmp_path)
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in GOOD.items():
                archive.writestr(f"{name}.npy", to_npy(np.array(value, float)))
            archive.writestr("terminated.npy", forged.getvalue() + bytes(16))
        refuse(path, "does not have the bytes that it needs")

    def test_an_archive_with_a_long_list_of_contents(self, tmp_path):
        path = write_npz(tmp_path)
        with zipfile.ZipFile(path, "a") as archive:
            for number in range(8000):
                archive.writestr(f"{number:0100}", b"")
        refuse(path, "its list of contents has")

    def test_longer_logs_than_the_horizon_are_not_read_to_their_end(self, tmp_path):
        refuse(
            write_csv(tmp_path, HEADER, *["1,2,0,5"] * 4, "no more of this is read"), "between 1 and 3 steps"
        )
        refuse(write_json(tmp_path, observations=[[1, 2]] * 4), "between 1 and 3 steps")
        refuse(write_npz(tmp_path, rewards=[1.0] * 4), "between 1 and 3 steps")

    @pytest.mark.parametrize("ending", ["csv", "json"])
    def test_texts_are_bounded_by_the_problem(self, ending, tmp_path):
        path = tmp_path / f"log.{ending}"
        with path.open("wb") as file:
            file.truncate(2**28)
        refuse(path, "bytes, a log of this problem has at most")

    def test_rows_of_another_width_are_refused(self, tmp_path):
        refuse(write_json(tmp_path, actions=[[1, 2], [3, 4]]), "at most 1 numbers, got 2")
        refuse(write_json(tmp_path, observations=[[1], [3]]), "must have 2 numbers per step, got 1")
        refuse(write_npz(tmp_path, actions=[[1, 2], [3, 4]]), r"actions must have the shape \(steps, 1\)")


def to_npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def pour(archive, name, size):
    """An array of zeros, without having it in memory."""
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)}
    np.lib.format.write_array_header_1_0(header, about)
    with archive.open(name, "w", force_zip64=True) as member:
        member.write(header.getvalue())
        for _ in range(size // 2**22):
            member.write(bytes(2**22))


MEASURE = """
import resource, sys
from pathlib import Path
from tests.storage.test_robot_logs import PROBLEM, read_log
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_log(Path(sys.argv[1]), PROBLEM)
except ValueError:
    pass
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def measure_memory(path):
    """The bytes by which a process grows that reads a log."""
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True, timeout=100
    )
    return int(ended.stdout)


class TestOtherThanFiles:
    def test_a_fifo_is_refused_at_once(self, tmp_path):
        os.mkfifo(tmp_path / "log.json")
        done = threading.Event()

        def try_it():
            refuse(tmp_path / "log.json", "give an ordinary file")
            done.set()

        threading.Thread(target=try_it, daemon=True).start()
        assert done.wait(20)

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
    @pytest.mark.parametrize("ending", ["csv", "json", "npz"])
    def test_a_device_is_refused(self, device, ending, tmp_path):
        path = tmp_path / f"log.{ending}"
        path.symlink_to(device)
        refuse(path, "give an ordinary file")

    def test_a_directory_is_refused(self, tmp_path):
        (tmp_path / "log.csv").mkdir()
        refuse(tmp_path / "log.csv", "cannot read")
