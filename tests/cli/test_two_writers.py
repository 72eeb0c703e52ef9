"""Two processes at one place: the second writer is refused and changes nothing, readers are let in."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import ddopg
from ddopg.cli.main import main
from tests.cli.test_kill_commands import add_logs, run_of
from tests.cli.test_robot import MACHINE, QUICK
from tests.experiments.test_bench import QUICK as QUICK_BENCH
from tests.experiments.test_tune import WORLD
from tests.recorded import SMALL

HOLD = """
import sys, time
from pathlib import Path
from ddopg.errors import StoreError
from ddopg.support.locks import acquire_lock
lock = acquire_lock(Path(sys.argv[1]), "busy", StoreError)
print("holding", flush=True)
time.sleep(600)
"""


@contextmanager
def held(path):
    """Within the block, another process holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "holding\n"
        yield
        holder.kill()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on cartpole, one of a machine, and a benchmark, all of them with a writer at work."""
    place = tmp_path_factory.mktemp("writers")
    run_of(place / "run", 9)
    assert main(["begin", str(place / "robot"), *MACHINE, *QUICK]) == 0
    add_logs(place / "robot", 1)
    (place / "bench").mkdir()
    locks = [place / name for name in ("run/run.lock", "robot/run.lock", "bench/lock")]
    with held(locks[0]), held(locks[1]), held(locks[2]):
        yield place


def files_of(place):
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "cartpole", "--episodes", "9", *SMALL, "--quiet", "--out", "run"],
        ["resume", "run", "--episodes", "12", "--quiet"],
        ["begin", "robot", *MACHINE],
        ["ask", "robot"],
        ["tell", "robot", "log0.json"],
        ["add", "robot", "log0.json"],
        ["bench", "--envs", WORLD, "--seeds", "1", *QUICK_BENCH, "--out", "bench"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_second_writer_is_refused_and_changes_nothing(arguments, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    before = files_of(place)
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert "another process is at work on" in shown or "another benchmark is writing into" in shown
    assert "wait until it ends" in shown
    assert files_of(place) == before


def test_readers_are_let_in(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    run = str(place / "run")
    before = files_of(place)
    for command in (
        ["report", run, "-o", str(tmp_path / "page.html")],
        ["export", run, str(tmp_path / "policy.onnx")],
        ["export", run, "--minari", "mine/cartpole-v0"],
        ["backup", run, str(tmp_path / "copy.sqlite")],
        ["evaluate", run, "--episodes", "2"],
    ):
        assert main(command) == 0, capsys.readouterr().err
    assert files_of(place) == before
    assert ddopg.load(place / "run" / "policy.safetensors").problem.horizon == 100
    assert set(os.listdir(tmp_path)) >= {"page.html", "policy.onnx", "copy.sqlite", "datasets"}
