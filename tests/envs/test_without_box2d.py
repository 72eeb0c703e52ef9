"""Where Box2D cannot be had, mountaincar says so and everything else works. Each process here does without it."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from ddopg.experiments.bench.jobs import make_job
from tests.box2d import is_expected

pytestmark = pytest.mark.long

SENTENCE = (
    r"mountaincar needs the package Box2D, which is not installed; .*3\.11 to 3\.13.*cartpole or swimmer"
)

PYTHON = """
import gymnasium as gym
import ddopg
from ddopg.envs import TASKS
from ddopg.errors import MissingPackageError

assert "mountaincar" in TASKS and gym.spec("ddopg/MountainCar-v0")
ways = (gym.make, "ddopg/MountainCar-v0"), (ddopg.DDOPG, "mountaincar"), (ddopg.envs.adapter.make, "mountaincar")
for make, name in ways:
    try:
        make(name)
    except MissingPackageError as error:
        print(error)
print(*(gym.make(TASKS[name].id).spec.name for name in ("cartpole", "swimmer")))
"""

COMMANDS = """
import contextlib, io, json, sys
from ddopg.cli.main import main

said = {}
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code or 0
    said[" ".join(arguments)] = code, out.getvalue(), err.getvalue()
print(json.dumps(said))
"""

REFUSED = [
    "train mountaincar --episodes 2 --quiet",
    "train mountaincar --episodes 2 --quiet --isolate",
    "train ddopg/MountainCar-v0 --episodes 2 --quiet",
    "bench --envs cartpole mountaincar --methods random --seeds 1 --steps 100 --quiet --out new",
    "figure benchmark --data new --quiet",
]
"""Each needs the task itself."""

DONE = [
    "--help",
    "train --help",
    "train cartpole --episodes 2 --eval-episodes 1 --eval-points 1 --quiet --out cartpole",
    "report cartpole -o page.html",
    "bench --envs mountaincar --methods random --seeds 1 --steps 100 --quiet --out held",
]
"""None does: the last finds the record that it wants."""


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    """An empty directory, and an environment in which Box2D is not found, in child processes as well."""
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "Box2D.py").write_text("raise ModuleNotFoundError(\"No module named 'Box2D'\", name='Box2D')\n")
    return {
        "cwd": tmp_path_factory.mktemp("empty"),
        "env": os.environ | {"PYTHONPATH": str(hidden), "COLUMNS": "120"},
    }


@pytest.fixture(scope="module")
def said(surroundings):
    """Command → exit code, output and errors."""
    held = surroundings["cwd"] / "held"
    held.mkdir()
    job = make_job("mountaincar", "random", seed=1, budget=100, episodes=100)
    record = {"key": job.key, **job._asdict(), "curve": [[100, -123.0]]}
    (held / "records.jsonl").write_text(json.dumps(record) + "\n")
    commands = json.dumps([command.split() for command in REFUSED + DONE])
    return json.loads(run(surroundings, COMMANDS, commands))


def run(surroundings, code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **surroundings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_says_what_is_missing_and_the_other_tasks_work(surroundings):
    *refused, last = run(surroundings, PYTHON).splitlines()
    assert [bool(re.match(SENTENCE, line)) for line in refused] == [True] * 3
    assert last == "Cartpole Swimmer"


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_that_needs_the_task_says_what_is_missing(said, surroundings, command):
    code, _, errors = said[command]
    assert (code, errors.count("\n")) == (2, 1)
    assert re.match("ddopg: " + SENTENCE, errors)
    assert not (surroundings["cwd"] / "new").exists()


@pytest.mark.parametrize("command", DONE)
def test_a_command_that_does_not_need_the_task_works(said, command):
    code, output, errors = said[command]
    assert (code, errors) == (0, "")
    assert output


def test_a_finished_benchmark_is_printed_without_its_task(said):
    assert "-123.0" in said[DONE[-1]][1]


@pytest.mark.parametrize(
    ("version", "system", "machine", "there"),
    [
        ("3.11", "linux", "x86_64", True),
        ("3.13", "win32", "AMD64", True),
        ("3.13", "darwin", "arm64", True),
        ("3.13", "linux", "aarch64", False),
        ("3.14", "linux", "x86_64", False),
        ("3.14", "darwin", "arm64", False),
    ],
)
def test_it_is_a_dependency_exactly_where_it_has_a_wheel(version, system, machine, there):
    place = {"python_version": version, "sys_platform": system, "platform_machine": machine}
    assert is_expected(requires("ddopg"), **place) is there
