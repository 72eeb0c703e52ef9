"""A real training process, killed again and again: no rollout lost, none doubled, the same end as without a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ddopg.storage.database import STORE
from tests.loggers.test_loggers import curves
from tests.recorded import SIZES, everything, rows

ROOT = Path(__file__).parents[2]
OPTIONS = ["--seed", "3", *SIZES, "--eval-points", "6"]
KINDS = ("statement", "instant", "inside", "early")


def process(fatal, notes, *arguments):
    command = [sys.executable, "-m", "tests.killed", str(fatal), str(notes), *map(str, arguments), "--quiet"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(directory, episodes):
    return ["train", "cartpole", "--episodes", episodes, "--out", directory, *OPTIONS]


def finish(child):
    out, errors = child.communicate(timeout=120)
    assert child.returncode == 0, out + errors


def stored(directory):
    return rows(directory, "SELECT count(*) FROM rollout")[0][0] if has_run(directory) else 0


def has_run(directory):
    return (directory / STORE).exists() and rows(directory, "SELECT name FROM sqlite_master") != []


def promised(notes):
    return int(notes.read_text().split()[-1]) if notes.exists() else 0


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def one_life(rng, kind, notes, arguments):
    """Start a process and kill it before a random statement, inside one, or at a random instant; did it die?"""
    fatal = {"statement": int(rng.integers(1, 70)), "inside": -int(rng.integers(1, 700))}.get(kind, 0)
    written = size_of(notes)
    child = process(fatal, notes, *arguments)
    if kind == "early":
        child.stdout.readline()
        time.sleep(rng.uniform(0, 2.0))
    elif kind == "instant":
        while size_of(notes) == written and child.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.2))
    if not fatal:
        os.kill(child.pid, signal.SIGKILL)
    _, errors = child.communicate(timeout=120)
    assert child.returncode in (-signal.SIGKILL, 0), errors
    return child.returncode != 0


def kill_and_resume(place, episodes, kills, seed):
    """Kill processes and resume what they did; a run that is finished before it can be killed gives way to a new one.

    Returns the runs, all of them finished, and how many processes are known to have died inside a transaction.
    """
    rng, deaths, lives, runs = np.random.default_rng(seed), 0, 0, [place / "0"]
    while deaths < kills:
        directory, notes = runs[-1], runs[-1] / "notes"
        directory.mkdir(exist_ok=True)
        before = stored(directory)
        died = one_life(rng, KINDS[lives % len(KINDS)], notes, next_command(directory, episodes))
        lives, deaths = lives + 1, deaths + died
        now, acknowledged = stored(directory), max(before, promised(notes))
        assert now >= acknowledged, "a rollout that was acknowledged is gone"
        assert now <= acknowledged + 1, "there are more rollouts than were made"
        numbers = rows(directory, "SELECT number FROM rollout ORDER BY number") if now else []
        assert [n for (n,) in numbers] == list(range(1, now + 1))
        if not died:
            runs.append(place / str(len(runs)))
    runs[-1].mkdir(exist_ok=True)
    finish(process(0, runs[-1] / "notes", *next_command(runs[-1], episodes)))
    return runs, sum(len(note.read_text().split()) for note in place.glob("*/notes.torn"))


def next_command(directory, episodes):
    return ["resume", directory] if has_run(directory) else train(directory, episodes)


@pytest.mark.parametrize(
    ("kills", "episodes"),
    [(len(KINDS), 60), pytest.param(60, 500, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])],
)
def test_a_run_killed_at_random_instants_ends_like_one_that_was_not(kills, episodes, tmp_path):
    finish(process(0, tmp_path / "notes", *train(tmp_path / "whole", episodes)))
    (tmp_path / "killed").mkdir()
    runs, torn = kill_and_resume(tmp_path / "killed", episodes, kills, seed=kills)
    print(f"{kills} kills, at least {torn} of them inside a transaction, {len(runs)} runs")
    assert torn >= max(1, kills // 8)
    whole = everything(tmp_path / "whole")
    assert len(whole["rollouts"]) == episodes
    assert len(whole["evaluations"]) == 6
    for run in runs:
        assert everything(run) == whole
        for name in ("progress.csv", "evaluation.csv", "policy.safetensors"):
            assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert curves(run) == curves(tmp_path / "whole")
        assert not list(run.glob(".*.draft"))
