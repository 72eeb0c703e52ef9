"""A real training process, killed again and again: no rollout lost, none doubled, the same end as without a kill."""

from functools import partial

import numpy as np
import pytest

from ddopg.storage.database import STORE
from tests.killing import count_kills, open_nursery
from tests.loggers.test_loggers import curves
from tests.recorded import everything, rows

pytestmark = pytest.mark.long

OPTIONS = [
    "--preset",
    "trajectory",
    "--seed",
    "3",
    "--search.steps",
    "10",
    "--selection.size",
    "20",
    "--eval-episodes",
    "2",
    "--quiet",
]
LEARNING = ["--eval-points", "6"]
# Most rollouts come before the first search, which is what takes time to compile.
DESIGN = ["--eval-points", "2", "--design.policies", "380"]
KINDS = ("statement", "noted", "opcode", "early", "event")


def train(directory, episodes, more):
    return ["train", "cartpole", "--episodes", episodes, "--out", directory, *OPTIONS, *more]


def next_command(directory, begin):
    return ["resume", directory, "--quiet"] if has_run(directory) else begin(directory)


def stored(directory):
    return rows(directory, "SELECT count(*) FROM rollout")[0][0] if has_run(directory) else 0


def has_run(directory):
    return (directory / STORE).exists() and rows(directory, "SELECT name FROM sqlite_master") != []


def promised(notes):
    return int(notes.read_text().split()[-1]) if notes.exists() else 0


def choose_death(rng, kind, whole):
    """Before a random statement, inside one, before a file changes, or at a random instant of a life."""
    if kind in ("early", "noted"):
        return {"after": rng.uniform(0, 0.1 * whole if kind == "early" else 0.05), "noted": kind == "noted"}
    return {kind: int(rng.integers(1, {"statement": 50, "opcode": 700, "event": 25}[kind]))}


def kill_and_resume(nursery, place, begin, kills, whole):
    """Kill processes and resume what they did; a run that is finished before it can be killed gives way to a new one.

    Yields the runs, as soon as they are finished.
    """
    rng, number, lives, last = np.random.default_rng(kills), 0, 0, nursery.deaths + kills
    while nursery.deaths < last:
        directory, notes = place / str(number), place / str(number) / "notes"
        directory.mkdir(exist_ok=True)
        before = stored(directory)
        death = choose_death(rng, KINDS[lives % len(KINDS)], whole)
        life = nursery.live(next_command(directory, begin), notes=str(notes), **death)
        assert life.killed or life.code == 0, life.said
        lives += 1
        print(f"\r{nursery.deaths} kills of {lives} processes, {number} runs finished", end="", flush=True)
        now, acknowledged = stored(directory), max(before, promised(notes))
        assert now >= acknowledged, "a rollout that was acknowledged is gone"
        assert now <= acknowledged + 1, "there are more rollouts than were made"
        numbers = rows(directory, "SELECT number FROM rollout ORDER BY number") if now else []
        assert [n for (n,) in numbers] == list(range(1, now + 1))
        if not life.killed:
            yield directory
            number += 1
    (place / str(number)).mkdir(exist_ok=True)
    nursery.finish(next_command(place / str(number), begin))
    yield place / str(number)


def assert_equal_runs(run, expected, whole):
    assert everything(run) == expected
    for name in ("progress.csv", "evaluation.csv", "policy.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert curves(run) == curves(whole)
    assert not list(run.glob(".*.draft"))


def many(*values):
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.timeout(20_000)])


@pytest.mark.parametrize(
    ("kills", "episodes", "more"),
    [(8, 60, LEARNING), many(100, 150, LEARNING), many(600, 400, DESIGN)],
    ids=["few", "learning", "design"],
)
def test_a_run_killed_at_random_instants_ends_like_one_that_was_not(kills, episodes, more, tmp_path):
    place, whole = tmp_path / "killed", tmp_path / "whole"
    place.mkdir()
    begin = partial(train, episodes=episodes, more=more)
    with open_nursery(tmp_path) as nursery:
        seconds = nursery.finish(begin(whole)).seconds
        if kills > 8:  # once more, now that all is compiled: instants are drawn from the length of a life
            kills, seconds = count_kills(kills), nursery.finish(begin(tmp_path / "again")).seconds
        expected, runs = everything(whole), 0
        assert len(expected["rollouts"]) == episodes
        assert len(expected["evaluations"]) == int(more[1]) + 1
        for run in kill_and_resume(nursery, place, begin, kills, seconds):
            assert_equal_runs(run, expected, whole)
            runs += 1
    torn = sum(len(note.read_text().split()) for note in place.glob("*/notes.torn"))
    print(f"\ntrain, resume: {kills} kills, at least {torn} of them inside a transaction, {runs} runs")
    assert torn >= kills // 10
