"""Append-only records: what a kill can do to them, and what must not be passed over in silence."""

import json
import os
import subprocess
import sys

import pytest

from ddopg.errors import ArtefactError, StoreError
from ddopg.experiments.bench import records

ROWS = [{"key": "a", "value": 1.5}, {"key": "b", "curve": [[1, 2.0]]}]


@pytest.fixture
def path(tmp_path):
    for row in ROWS:
        records.append(tmp_path / "records.jsonl", row)
    return tmp_path / "records.jsonl"


def test_what_is_appended_is_read(path):
    assert records.read(path) == ROWS
    assert len(path.read_text().splitlines()) == 2


def test_no_file_has_no_records(tmp_path):
    assert records.read(tmp_path / "nothing") == []
    records.repair(tmp_path / "nothing")


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_line_torn_anywhere_is_passed_over_and_then_repaired(path, cut):
    line = json.dumps({"key": "c", "text": "ü" * 20})
    with path.open("ab") as file:
        file.write(line.encode()[:cut])
    assert records.read(path) == ROWS
    records.repair(path)
    records.append(path, {"key": "d"})
    assert records.read(path) == [*ROWS, {"key": "d"}]


def test_a_whole_record_that_lost_only_its_newline_is_kept(path):
    with path.open("a") as file:
        file.write('{"key": "c"}')
    assert records.read(path)[-1] == {"key": "c"}
    records.repair(path)
    records.append(path, {"key": "d"})
    assert [row["key"] for row in records.read(path)] == ["a", "b", "c", "d"]


def test_repair_leaves_a_whole_file_alone(path):
    before = path.read_bytes()
    records.repair(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ['{"key": ', "[1, 2]", "\x00\x00"])
def test_a_broken_line_in_the_middle_is_an_error_with_its_number(path, line):
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{line}\n{second}\n")
    with pytest.raises(ArtefactError, match=r"line 2 of .* is not a record .*; remove that line"):
        records.read(path)


def test_numbers_that_json_does_not_know_are_not_written(path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.append(path, {"value": float("nan")})
    assert records.read(path) == ROWS


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_a_full_disk_gets_a_sentence(tmp_path):
    path = tmp_path / "records.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(
        StoreError, match=r"cannot write .*: No space left on device; what was finished before is"
    ):
        records.append(path, ROWS[0])


def test_a_directory_has_one_writer_and_a_dead_one_does_not_count(tmp_path):
    code = f"""
import sys, time, pathlib
from ddopg.experiments.bench import records
with records.lock_records(pathlib.Path({str(tmp_path)!r})):
    print("holding", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "holding\n"
        with (
            pytest.raises(ArtefactError, match="another benchmark is writing"),
            records.lock_records(tmp_path),
        ):
            pass
        holder.kill()
    with records.lock_records(tmp_path):
        pass


def test_a_lock_that_cannot_be_made_is_not_taken_for_another_writer(tmp_path):
    (tmp_path / "lock").mkdir()
    with (
        pytest.raises(ArtefactError, match=r"cannot write into .*: Is a directory; choose .* with --data"),
        records.lock_records(tmp_path, "--data"),
    ):
        pass
