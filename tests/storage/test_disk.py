"""Disks that are full or cannot be written: what was told is kept, the reason is said, and the run goes on later."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddopg.cli.main import main
from tests.recorded import SIZES, everything, rows

pytestmark = pytest.mark.long

OPTIONS = ["--seed", "3", *SIZES, "--eval-points", "2", "--quiet"]
DDOPG = [sys.executable, "-m", "ddopg"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing happened to."""
    out = tmp_path_factory.mktemp("disk") / "whole"
    assert main(["train", "cartpole", "--episodes", "60", "--out", str(out), *OPTIONS]) == 0
    return everything(out)


def can_mount():
    test = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(test, capture_output=True, check=False).returncode == 0
    )


SCRIPT = """
import json, subprocess, sys

place, out, ddopg, options = json.loads(sys.argv[1])
said = []

def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    said.append([done.returncode, done.stderr])

run("mount", "-t", "tmpfs", "-o", "size=220k", "tmpfs", place)
run(*ddopg, "train", "cartpole", "--episodes", "60", "--out", place + "/run", *options)
run("mount", "-o", "remount,ro", place)
run(*ddopg, "resume", place + "/run", "--quiet")
run("mount", "-o", "remount,rw,size=64m", place)
run(*ddopg, "resume", place + "/run", "--quiet")
run("cp", "-r", place + "/run", out)
print(json.dumps(said))
"""


@pytest.mark.skipif(
    not can_mount(), reason="this system lets nobody mount; the limit on file sizes below is tried everywhere"
)
def test_a_full_disk_and_a_read_only_one_stop_a_run_which_goes_on_where_there_is_room(tmp_path, whole):
    place = tmp_path / "place"
    place.mkdir()
    arguments = json.dumps([str(place), str(tmp_path / "out"), DDOPG, OPTIONS])
    command = ["unshare", "-rm", sys.executable, "-c", SCRIPT, arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mounted, full, _, read_only, _, resumed, copied = json.loads(done.stdout)
    assert mounted[0] == copied[0] == 0, done.stdout
    assert full[0] == 2
    assert "database or disk is full; everything before this is safe" in full[1]
    assert f"rollouts are stored in {place}/run; continue with\n       ddopg resume {place}/run" in full[1]
    assert read_only[0] == 2
    assert f"cannot write into {place}/run: Read-only file system" in read_only[1]
    assert "Traceback" not in full[1] + read_only[1]
    assert resumed[0] == 0, resumed[1]
    assert everything(tmp_path / "out") == whole


LEFT_BEHIND = """
import os, sys, ddopg

agents = []
for name in ("killed", "file", "closed"):
    directory = sys.argv[1] + "/" + name
    agents.append(ddopg.DDOPG("cartpole", run_directory=directory).learn(total_episodes=3))
    agents[-1].save(directory + "/policy.safetensors")
agents[-1].close()
os._exit(0)  # the others as a kill leaves them
"""

READ_ONLY = """
import contextlib, io, json, os, subprocess, sys
from ddopg.cli.main import main

place, left_behind = json.loads(sys.argv[1])
said = []

def run(*command):
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(io.StringIO()):
        code = main(command)
    said.append([code, shown.getvalue()])

def mount(*options):
    subprocess.run(["mount", *options], check=True)

def try_all(directory):
    run("resume", directory, "--quiet")
    run("report", directory, "-o", os.path.dirname(place) + "/report.html")
    run("evaluate", directory, "--episodes", "2")

mount("-t", "tmpfs", "tmpfs", place)
subprocess.run([sys.executable, "-c", left_behind, place], check=True)
os.remove(f"{place}/killed/run.sqlite-shm")  # as on a copy: it can be made again, but not here
mount("--bind", f"{place}/file/run.sqlite", f"{place}/file/run.sqlite")
mount("-o", "remount,bind,ro", f"{place}/file/run.sqlite")
try_all(f"{place}/file")
mount("-o", "remount,ro", place)
try_all(f"{place}/killed")
try_all(f"{place}/closed")
print(json.dumps(said))
"""


@pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount")
def test_what_cannot_be_written_is_named_and_not_called_damaged(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    arguments = json.dumps([str(place), LEFT_BEHIND])
    command = ["unshare", "-rm", sys.executable, "-c", READ_ONLY, arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    print(json.dumps(said, indent=1))
    codes = [code for code, _ in said]
    assert codes == [2, 0, 0, 2, 2, 0, 2, 0, 0], said
    assert f"{place}/file/run.sqlite cannot be written, and SQLite has to write there" in said[0][1]
    for _, shown in said[3:5]:
        assert (
            f"{place}/killed cannot be written, and SQLite has to write there. Make it writable, or copy"
            in shown
        )
    assert f"cannot write into {place}/closed: Read-only file system" in said[6][1]
    for _, shown in said:
        assert "damaged" not in shown
        assert "Traceback" not in shown


def test_a_file_that_may_not_grow_stops_a_run_which_goes_on_when_it_may(tmp_path, whole):
    out = tmp_path / "run"
    code = "import resource, runpy; from ddopg.storage import run_store; run_store.CHECKPOINT_SECONDS = 1e9; "
    # No checkpoint by the clock: how far the run gets shall not depend on the speed of the machine.
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (140_000, -1)); "
    code += "runpy.run_module('ddopg', run_name='__main__')"
    command = [sys.executable, "-c", code, "train", "cartpole", "--episodes", "60", "--out", out, *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "everything before this is safe" in done.stderr
    assert "Traceback" not in done.stderr
    told = rows(out, "SELECT count(*) FROM rollout")[0][0]
    assert 8 < told < 60
    assert f"{told} rollouts are stored" in done.stderr
    assert main(["resume", str(out), "--quiet"]) == 0
    assert everything(out) == whole


def test_tables_and_pictures_that_cannot_be_written_get_a_sentence(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "cartpole", "--episodes", "9", "--out", str(out), *OPTIONS]) == 0
    Path(out / "learning_curve.png").unlink()
    os.mkdir(out / "learning_curve.png")
    assert main(["resume", str(out), "--quiet"]) == 2
    shown = capsys.readouterr().err
    assert f"cannot write {out}/learning_curve.png" in shown
    assert "Traceback" not in shown
