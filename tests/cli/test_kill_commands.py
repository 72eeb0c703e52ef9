"""Every command that writes, killed again and again: what was there is whole, and the same command ends the same."""

import json
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import ddopg
from ddopg.experiments.bench import benchmark as bench
from ddopg.storage.reading import read_rollouts
from ddopg.support.presets import load_config
from tests.cli.test_robot import MACHINE, QUICK, roll_out
from tests.experiments.test_bench import QUICK as QUICK_BENCH
from tests.experiments.test_tune import QUICK as QUICK_TUNE
from tests.experiments.test_tune import WORLD
from tests.experiments.test_tune import stored as stored_trials
from tests.killing import count_kills, open_nursery
from tests.recorded import everything

pytestmark = [pytest.mark.slow, pytest.mark.timeout(20_000)]

MOST = {"statement": 40, "opcode": 500, "event": 25}  # a life has about so many


@pytest.fixture
def nursery(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    with open_nursery(tmp_path) as made:
        yield made


class Killer:
    """Draws deaths: before a change of a file, in the store, or at an instant of a life that lasts so long."""

    def __init__(self, seed, seconds, kinds=("event", "instant")):
        self._rng, self._seconds, self._kinds, self._drawn = np.random.default_rng(seed), seconds, kinds, 0

    def draw(self, most=MOST):
        kind = self._kinds[self._drawn % len(self._kinds)]
        self._drawn += 1
        if kind == "instant":
            return {"after": self._rng.uniform(0, self._seconds)}
        return {kind: int(self._rng.integers(1, most[kind] + 1))}


def run_of(place, episodes):
    ddopg.DDOPG("cartpole", seed=3, run_directory=place, preset="trajectory").learn(
        total_episodes=episodes
    ).close()
    agent = ddopg.DDOPG.resume(place)
    agent.save(place / "policy.safetensors")
    agent.close()
    return place


def talk(nursery, run, killer=None, kills=0):
    """A machine's run by files; each command is killed so many times, and then repeated until it is done.

    Returns how long the last command took.
    """

    def command(*arguments):
        for _ in range(kills):
            life = nursery.live(arguments, **killer.draw())
            assert life.killed or life.code == 0, life.said
        return nursery.finish(arguments)

    nursery.finish(["begin", run, *MACHINE, *QUICK, "--seed", "3"])
    while len(read_rollouts(run)[1]) < 10:
        places = [run.parent / line for line in command("ask", run).said.splitlines()]
        logs = [roll_out(place) for place in places]
        told = command("tell", run, *logs)
        assert len(read_rollouts(run)[1]) == int(places[-1].name) + 1
    return told.seconds


def files_of(run):
    names = [*run.glob("proposals/*/p*"), *run.glob("*.csv"), run / "policy.safetensors"]
    return {str(path.relative_to(run)): path.read_bytes() for path in names}


def test_a_run_by_files_whose_every_command_is_killed_is_the_run_that_was_not(nursery, tmp_path):
    seconds = talk(nursery, tmp_path / "whole")
    killer, number = Killer(1, seconds, ("event", "statement", "instant", "opcode")), 0
    while nursery.deaths < count_kills(150):
        run = tmp_path / str(number)
        talk(nursery, run, killer, kills=3)
        assert everything(run) == everything(tmp_path / "whole")
        assert files_of(run) == files_of(tmp_path / "whole")
        number += 1
    print(f"ask, tell: {nursery.deaths} kills over {number} runs")


def add_logs(run, count):
    """Logs of somebody else's controller."""
    rng, logs = np.random.default_rng(0), []
    for number in range(count):
        values = {"observations": rng.random((3, 1)), "actions": rng.random((3, 1)), "rewards": rng.random(3)}
        logs.append(run.parent / f"log{number}.json")
        logs[-1].write_text(json.dumps({name: array.tolist() for name, array in values.items()}))
    return logs


def test_logs_that_are_added_by_a_command_that_is_killed_are_added_once(nursery, tmp_path):
    logs = add_logs(tmp_path / "run", 3)
    nursery.finish(["begin", tmp_path / "whole", *MACHINE, *QUICK, "--seed", "3"])
    seconds = nursery.finish(["add", tmp_path / "whole", *logs]).seconds
    killer, number = Killer(2, seconds, ("statement", "opcode", "instant", "event")), 0
    while nursery.deaths < count_kills(30):
        run = tmp_path / str(number)
        nursery.finish(["begin", run, *MACHINE, *QUICK, "--seed", "3"])
        for _ in range(5):
            nursery.live(["add", run, *logs], **killer.draw())
        nursery.finish(["add", run, *logs])
        assert len(read_rollouts(run)[1]) == 3
        assert everything(run) == everything(tmp_path / "whole")
        number += 1
    print(f"add: {nursery.deaths} kills over {number} runs")


def read_page(path):
    """But for the time at which it was made."""
    return re.sub(rb"20\d\d-\d\d-\d\d \d\d:\d\d", b"", path.read_bytes())


def read_dataset(name):
    import minari

    dataset = minari.load_dataset(name)
    steps = [episode.rewards.tobytes() for episode in dataset.iterate_episodes()]
    return len(steps), b"".join(steps)


# A converter to ONNX takes seconds to load; a page is cheap.
@pytest.mark.parametrize(("what", "kills"), [("report", 50), ("onnx", 16), ("minari", 50)])
def test_what_a_killed_command_was_to_replace_is_whole_old_or_whole_new(what, kills, nursery, tmp_path):
    runs = [run_of(tmp_path / str(episodes), episodes) for episodes in (3, 9)]
    page, model, name = tmp_path / "page.html", tmp_path / "policy.onnx", "mine/cartpole-v0"
    command, read = {
        "report": (lambda run: ["report", run, "-o", page], lambda: read_page(page)),
        "onnx": (lambda run: ["export", run, model], model.read_bytes),
        "minari": (lambda run: ["export", run, "--minari", name, "--overwrite"], lambda: read_dataset(name)),
    }[what]
    results = []
    for run in (*runs, runs[0]):
        seconds = nursery.finish(command(run)).seconds
        results.append(read())
    old, new = results[:2]
    assert old == results[2] != new
    killer, expected, turn = Killer(3, seconds), [old], 0
    while nursery.deaths < count_kills(kills):
        turn += 1
        life = nursery.live(command(runs[1]), **killer.draw({"event": 40 if what == "minari" else 4}))
        assert life.killed or life.code == 0, life.said
        expected = [old, new] if life.killed else [new]
        assert read() in expected
        if read() == new:
            nursery.finish(command(runs[0]))
            assert read() == old
    nursery.finish(command(runs[1]))
    assert read() == new
    print(f"{what}: {nursery.deaths} kills of {turn} commands")


def test_a_backup_is_there_whole_or_not_at_all(nursery, tmp_path):
    run, place = run_of(tmp_path / "run", 40), tmp_path / "copies"
    seconds = nursery.finish(["backup", run, place / "first.sqlite"]).seconds
    killer, number = Killer(4, seconds, ("event", "instant")), 0
    while nursery.deaths < count_kills(60):
        target = place / f"{number}.sqlite"
        life = nursery.live(["backup", run, target], **killer.draw({"event": 6}))
        assert life.killed or life.code == 0, life.said
        if not target.exists():
            nursery.finish(["backup", run, target])
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("SELECT count(*) FROM rollout").fetchone() == (40,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        number += 1
    print(f"backup: {nursery.deaths} kills of {number} commands")


def curves_of(out):
    return {key: record["curve"] for key, record in bench.read_finished(out).items()}


def test_a_benchmark_that_is_killed_loses_no_record_and_runs_no_job_twice(nursery, tmp_path):
    def command(out):
        return ["bench", "--envs", WORLD, "--seeds", "1", "2", "--workers", "2", *QUICK_BENCH, "--out", out]

    seconds = nursery.finish(command(tmp_path / "whole")).seconds
    whole, killer, number = curves_of(tmp_path / "whole"), Killer(5, seconds), 0
    while nursery.deaths < count_kills(40):
        out, before = tmp_path / str(number), {}
        for _ in range(4):
            life = nursery.live(command(out), **killer.draw({"event": 12}))
            assert life.killed or life.code == 0, life.said
            after = curves_of(out)
            assert before.items() <= after.items() <= whole.items()
            before = after
        nursery.finish(command(out))
        assert curves_of(out) == whole
        assert len((out / "records.jsonl").read_text().splitlines()) == len(whole)
        number += 1
    print(f"bench: {nursery.deaths} kills over {number} benchmarks")


def test_a_search_that_is_killed_finishes_exactly_the_trials_that_are_wanted(nursery, tmp_path):
    def command(out):
        return ["tune", WORLD, "--trials", "2", *QUICK_TUNE, "--out", out]

    seconds = nursery.finish(command(tmp_path / "whole")).seconds
    killer, number = Killer(6, seconds, ("instant", "instant", "event")), 0
    while nursery.deaths < count_kills(24):
        out = tmp_path / str(number)
        for _ in range(3):  # more often than a trial is tried again would be its end
            life = nursery.live(command(out), grace=2, **killer.draw())
            assert life.killed or life.code == 0, life.said
        nursery.finish(command(out), grace=2)
        states = [state for state, _ in stored_trials(out)]
        assert sum(state in ("COMPLETE", "PRUNED") for state in states) == 2
        assert "RUNNING" not in states
        load_config(out / "preset.json")
        number += 1
    print(f"tune: {nursery.deaths} kills over {number} studies")
