"""README and examples: every Python block and every script runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


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


@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_of_the_pages_runs(block, tmp_path):
    """Budgets are cut down: the blocks are checked for being true, not for how well they learn."""
    block = re.sub(r"total_timesteps=[\d_]+", "total_timesteps=60", block)
    block = re.sub(r"total_episodes=[\d_]+", "total_episodes=6", block)
    run("-c", block, cwd=tmp_path)


EXAMPLES = {"quickstart.py": 100, "ask_tell.py": 6, "custom_policy.py": 300, "ask_tell_robot.py": 4}


@pytest.mark.parametrize(("name", "budget"), EXAMPLES.items())
def test_every_example_runs(name, budget, tmp_path):
    assert run(ROOT / "examples" / name, budget, cwd=tmp_path)
    assert list(tmp_path.rglob("*.safetensors"))


def test_every_example_is_tested():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


def test_the_robot_of_the_example_needs_nothing_but_numpy():
    """It is a process of its own that may import neither ddopg nor JAX."""
    text = (ROOT / "examples" / "ask_tell_robot.py").read_text()
    imports = set(re.findall(r"^(?:import|from) (\w+)", text, re.M))
    assert imports <= {*sys.stdlib_module_names, "numpy"}


def test_every_local_link_of_the_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
