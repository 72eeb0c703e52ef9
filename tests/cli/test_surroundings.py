"""Odd surroundings: no place for temporary files, a directory that cannot be written, poor terminals, odd clocks."""

import os
import pty
import re
import subprocess
import sys

import pytest

from ddopg.cli.main import main
from tests.cli.test_kill_commands import run_of
from tests.cli.test_robot import MACHINE, QUICK
from tests.experiments.test_bench import QUICK as QUICK_BENCH
from tests.experiments.test_tune import QUICK as QUICK_TUNE
from tests.experiments.test_tune import WORLD
from tests.killing import open_nursery
from tests.loggers.test_loggers import curves
from tests.recorded import SMALL, everything
from tests.storage.test_disk import can_mount
from tests.traps import ROOT

pytestmark = pytest.mark.long

TRAIN = ["train", "cartpole", "--episodes", "9", "--seed", "3", *SMALL, "--quiet"]


def commands(run, out):
    """Every command, with all its files below `out`."""
    return {
        "train": [*TRAIN, "--out", out / "train"],
        "resume": ["resume", out / "train", "--episodes", "11", "--quiet"],
        "evaluate": ["evaluate", run, "--episodes", "2"],
        "report": ["report", run, "-o", out / "page.html"],
        "export": ["export", run, out / "policy.onnx"],
        "data set": ["export", run, "--minari", "mine/cartpole-v0"],
        "backup": ["backup", run, out / "copy.sqlite"],
        "film": ["play", run, "--video", out / "film.mp4"],
        "begin": ["begin", out / "robot", *MACHINE, *QUICK],
        "ask": ["ask", out / "robot"],
        "bench": ["bench", "--envs", WORLD, "--seeds", "1", *QUICK_BENCH, "--out", out / "bench"],
        "tune": ["tune", WORLD, "--trials", "1", *QUICK_TUNE, "--out", out / "tune"],
        "figure": [*("figure", "surrogate", "--quick", "--quiet"), "--data", out / "data", "--out", out],
    }


@pytest.mark.slow
@pytest.mark.timeout(5000)
@pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount")
@pytest.mark.parametrize("kind", ["missing", "nothing can be written"])
def test_no_place_for_scratch_files(kind, tmp_path, monkeypatch):
    """A TMPDIR that is not there; or none, and every usual place and the working directory are read-only."""
    out, empty = tmp_path / "out", tmp_path / "empty"
    out.mkdir()
    empty.mkdir()
    run = run_of(tmp_path / "run", 9)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(out / "datasets"))
    with open_nursery(out, "unshare", "-rm") as nursery:
        if kind != "missing":
            places = [*{"/tmp", "/var/tmp", os.environ.get("TMPDIR", "/tmp")}, str(empty)]
            for place in places:
                nursery.shell(f"mount --bind {place} {place} && mount -o remount,bind,ro {place}")
            nursery.shell(f"mount --bind {out} {out} && mount -o remount,bind,rw {out}")
        for name, command in commands(run, out).items():
            life = nursery.live(command, cwd=str(empty), variables={"TMPDIR": str(tmp_path / "missing")})
            assert life.code == 0, (name, life.said)
            assert "temporary directory" not in life.said, (name, life.said)


DEFAULTS = {
    "train": (TRAIN, "cannot write into runs/cartpole-"),
    "bench": (["bench", "--envs", WORLD, "--seeds", "1", *QUICK_BENCH], "cannot write into runs/bench"),
    "tune": (["tune", "cartpole", "--trials", "1", *QUICK_TUNE], "cannot write into runs/tune-cartpole"),
    "figure": (["figure", "surrogate", "--quick", "--quiet"], "cannot write"),
}


@pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount")
def test_a_working_directory_that_cannot_be_written_is_named(tmp_path):
    """Commands that choose a directory themselves say where they tried, and by which option to choose another."""
    empty = tmp_path / "empty"
    empty.mkdir()
    with open_nursery(tmp_path, "unshare", "-rm") as nursery:
        nursery.shell(f"mount --bind {empty} {empty} && mount -o remount,bind,ro {empty}")
        for name, (command, message) in DEFAULTS.items():
            life = nursery.live(command, cwd=str(empty))
            assert life.code == 2, (name, life.said)
            assert message in life.said, (name, life.said)
            remedy = r"Read-only file system; choose a writable directory with (run_directory=\.\.\. \()?--"
            assert re.search(remedy, life.said), (name, life.said)


def test_a_terminal_that_can_do_nothing_is_enough(tmp_path):
    """TERM=dumb on a real terminal: the progress display does without colours and cursor movements."""
    near, far = pty.openpty()
    command = [sys.executable, "-m", "ddopg", *TRAIN[:-1], "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"TERM": "dumb"}, stdout=far, stderr=far, stdin=far
    )
    os.close(far)
    shown = b""
    while True:
        try:
            part = os.read(near, 4096)
        except OSError:  # Linux: the other side was closed
            break
        if not part:
            break
        shown += part
    os.close(near)
    assert process.wait(120) == 0, shown
    assert b"Traceback" not in shown
    assert b"\x1b" not in shown, shown
    assert b"all files: " in shown


BACK = """
import sys, time
real, start = time.time, time.time()
def back():
    '''A clock that runs backwards, a thousand seconds each second, since yesterday.'''
    return start - 86_400 - 1000 * (real() - start)
time.time, time.time_ns = back, lambda: int(1e9 * back())
then = time.localtime
time.localtime = lambda seconds=None: then(back() if seconds is None else seconds)
import runpy
runpy.run_module("ddopg", run_name="__main__")
"""


def test_a_clock_that_is_set_back_changes_nothing(tmp_path):
    """A run that is begun now and resumed yesterday, by a clock that runs backwards: logs and time limit included."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    for out in (whole, run):
        assert main([*TRAIN, "--log", "csv", "tensorboard", "--time-limit", "60", "--out", str(out)]) == 0
    resume = ["--episodes", "12", "--quiet"]
    command = [sys.executable, "-c", BACK, "resume", str(run), *resume]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert main(["resume", str(whole), *resume]) == 0
    assert everything(run) == everything(whole)
    assert curves(run) == curves(whole)
