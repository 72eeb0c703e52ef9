"""The examples run as a user runs them; what the pages show is in test_documents.py."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

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


BUDGETS = {
    "quickstart.py": 100,
    "ask_tell.py": 6,
    "custom_policy.py": 300,
    "ask_tell_robot.py": 4,
    "tune_pid.py": 3,
    "tune_black_box.py": 2,
    "tune_movement.py": 3,
}
OTHERS = {"ddopg_by_hand.py", "tour.ipynb"}  # below


@pytest.mark.parametrize(("name", "budget"), BUDGETS.items())
def test_every_example_runs(name, budget, tmp_path):
    assert run(EXAMPLES / name, budget, cwd=tmp_path)
    assert list(tmp_path.rglob("*.safetensors"))


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {*BUDGETS, *OTHERS}


def test_the_robot_of_the_example_needs_nothing_but_numpy():
    """It is a process of its own that may import neither ddopg nor JAX."""
    text = (EXAMPLES / "ask_tell_robot.py").read_text()
    imports = set(re.findall(r"^(?:import|from) (\w+)", text, re.M))
    assert imports <= {*sys.stdlib_module_names, "numpy"}


def test_the_by_hand_example_runs(tmp_path):
    assert "after 18 rollouts" in run(EXAMPLES / "ddopg_by_hand.py", 0, 18, cwd=tmp_path)


NOTEBOOK = """
import sys
import nbclient, nbformat
from jupyter_client import AsyncKernelManager

notebook = nbformat.read(sys.argv[1], as_version=4)
manager = AsyncKernelManager(kernel_name="python3", transport="ipc")  # files of the user instead of ports
nbclient.NotebookClient(notebook, km=manager, timeout=200).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output["output_type"], output.get("text", sorted(output.get("data", {}))))
"""


def test_the_notebook_runs_and_draws(tmp_path):
    said = run("-c", NOTEBOOK, EXAMPLES / "tour.ipynb", cwd=tmp_path)
    assert said.count("image/png") == 3
    assert "mean ESS" in said
    assert "fresh episodes" in said


def test_the_notebook_is_committed_without_outputs():
    for cell in json.loads((EXAMPLES / "tour.ipynb").read_text())["cells"]:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")
