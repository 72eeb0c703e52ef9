"""The examples run as a user runs them; what the pages show is in test_documents.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(*arguments, cwd):
    environment = os.environ | {"PYTHONWARNINGS": "error::DeprecationWarning:ddopg"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(("name", "budget"), [("quickstart.py", 100), ("ask_tell.py", 6)])
def test_every_example_runs(name, budget, tmp_path):
    assert run(EXAMPLES / name, budget, cwd=tmp_path)
    assert list(tmp_path.glob("*.safetensors"))


def test_every_example_is_tested():
    tested = {"quickstart.py", "ask_tell.py", "ddopg_by_hand.py", "tour.ipynb"}
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == tested
