"""The habits around the code: what `make help` lists, what CI runs, the hooks, and what git must not hold."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_help_has_a_line_about_every_target():
    command = ["make", "--no-print-directory", "help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines() if len(line.split()) > 2} == TARGETS


def test_ci_runs_the_tests_as_the_readme_says_the_longer_ones_lint_types_and_the_site():
    called = re.findall(r"^make (.+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert called[0] == "test"
    assert "\nmake test " in (ROOT / "README.md").read_text()
    assert set(" ".join(called).split()) == {"test", "long", "lint", "types", "docs"} <= TARGETS


def test_the_hooks_are_tools_of_this_project_and_load_nothing():
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert set(re.findall(r"repo: (.+)", text)) == {"local"}
    assert set(re.findall(r"language: (.+)", text)) == {"system"}
    assert re.findall(r"entry: (.+)", text) == [
        f".venv/bin/{tool}" for tool in ("ruff format", "ruff check", "mypy")
    ]


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no clone")
def test_git_holds_no_lock_and_no_log():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = [Path(line) for line in listed.splitlines()]
    assert not [
        path
        for path in kept
        if path.suffix in (".log", ".lock", ".draft")
        or path.name == "lock"
        or path.name.startswith("MUJOCO_LOG")
    ]
