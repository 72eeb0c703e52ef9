"""The runner in real processes: resuming after a kill, failures that stay alone, and what the user is shown."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddopg.cli.main import main
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import make_job, plan_jobs
from tests.waiting import gone, wait_until

WORLD, RAISES, DIES, SLOW = (f"tests.worlds:{name}-v0" for name in ("Follow", "Raises", "Dies", "Slow"))
ROOT = Path(__file__).parents[2]
QUICK = ["--methods", "random", "--steps", "30", "--eval-episodes", "2", "--quiet"]


def keys(out):
    return [json.loads(line)["key"] for line in (out / "records.jsonl").read_text().splitlines()]


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "ddopg", "bench", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_process(jobs):
    """Events without processes, for tests of what is done with them."""
    from ddopg.experiments.bench.jobs import run

    for job in jobs:
        yield workers.Done(job, run(job))


@pytest.fixture
def jobs():
    return plan_jobs([WORLD], ["random", "ars"], [1, 2], 30, 2)


class TestComplete:
    def test_every_job_leaves_a_record_and_none_is_run_twice(self, jobs, tmp_path):
        assert bench.complete(jobs, tmp_path, in_process, quiet=True) == []
        assert sorted(keys(tmp_path)) == sorted(job.key for job in jobs)

        def never(jobs):
            raise AssertionError("nothing is missing")

        before = (tmp_path / "records.jsonl").read_bytes()
        bench.complete(jobs, tmp_path, never, quiet=True)
        assert (tmp_path / "records.jsonl").read_bytes() == before

    def test_other_settings_are_another_job(self, jobs, tmp_path):
        bench.complete(jobs[:1], tmp_path, in_process, quiet=True)
        changed = jobs[0]._replace(settings={**jobs[0].settings, "spread": 0.3})
        bench.complete([jobs[0], changed], tmp_path, in_process, quiet=True)
        assert keys(tmp_path) == [jobs[0].key, changed.key]

    def test_a_record_from_before_a_setting_existed_still_counts(self, jobs, tmp_path):
        bench.complete(jobs[:1], tmp_path, in_process, quiet=True)
        path = tmp_path / "records.jsonl"
        record = json.loads(path.read_text())
        assert record["settings"].pop("repeats") == 1
        record["key"] = "0" * 16  # of the settings as they were
        path.write_text(json.dumps(record) + "\n")
        assert list(bench.read_finished(tmp_path)) == [jobs[0].key]

    def test_a_record_whose_settings_cannot_be_read_keeps_its_key(self, jobs, tmp_path):
        bench.complete(jobs[:1], tmp_path, in_process, quiet=True)
        path = tmp_path / "records.jsonl"
        record = json.loads(path.read_text())
        record["settings"]["vanished"] = 1
        path.write_text(json.dumps(record) + "\n")
        assert list(bench.read_finished(tmp_path)) == [jobs[0].key]

    def test_a_torn_line_is_run_again(self, jobs, tmp_path):
        bench.complete(jobs, tmp_path, in_process, quiet=True)
        path = tmp_path / "records.jsonl"
        path.write_bytes(path.read_bytes()[:-40])
        assert len(bench.read_finished(tmp_path)) == 3
        bench.complete(jobs, tmp_path, in_process, quiet=True)
        assert keys(tmp_path) == [job.key for job in jobs]

    def test_a_job_that_failed_is_tried_again_and_its_trace_removed_when_it_succeeds(self, jobs, tmp_path):
        def failing(some):
            yield workers.Failed(some[0], "Traceback\nValueError: no\n")
            yield from in_process(some[1:])

        (failure,) = bench.complete(jobs, tmp_path, failing, quiet=True)
        trace = bench.locate_failure_file(tmp_path, failure.job)
        assert "ValueError: no" in trace.read_text()
        assert len(keys(tmp_path)) == 3
        assert bench.complete(jobs, tmp_path, in_process, quiet=True) == []
        assert not trace.exists()

    def test_the_display_counts_jobs_and_tells_the_time_left(self, jobs, tmp_path, capsys):
        bench.complete(jobs, tmp_path, in_process)
        shown = capsys.readouterr().err
        assert "4/4 jobs" in shown
        assert "left" in shown


@pytest.mark.long
class TestProcesses:
    def test_jobs_that_raise_or_die_do_not_stop_the_others(self, tmp_path, capsys):
        options = [
            "--envs",
            RAISES,
            DIES,
            WORLD,
            "--seeds",
            "1",
            "2",
            "--workers",
            "2",
            "--out",
            str(tmp_path),
        ]
        assert main(["bench", *options, *QUICK]) == 1
        done = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
        assert {(row["env"], row["seed"]) for row in done} == {(WORLD, 1), (WORLD, 2)}
        traces = sorted(path.read_text() for path in (tmp_path / "failures").iterdir())
        assert len(traces) == 4
        assert (
            sum("RuntimeError: the arm is stuck" in trace and "Traceback" in trace for trace in traces) == 2
        )
        assert sum("the worker process died (exit code 7)" in trace for trace in traces) == 2
        shown = capsys.readouterr()
        assert "RuntimeError: the arm is stuck" in shown.err
        assert "worker process died (exit code 7)" in shown.err
        assert f"see {tmp_path}/failures/" in shown.err
        assert "random" in shown.out

    def test_a_killed_benchmark_goes_on_where_it_stopped(self, tmp_path):
        options = ["--envs", SLOW, "--seeds", "1", "2", "3", "4", *QUICK, "--out", tmp_path]
        path = tmp_path / "records.jsonl"
        with start(*options) as first:
            wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 2)
            os.kill(first.pid, signal.SIGKILL)
        assert first.returncode == -signal.SIGKILL
        before = path.read_bytes()
        assert 2 <= before.count(b"\n") < 4
        with path.open("ab") as file:
            file.write(b'{"key": "torn by the k')
        with start(*options) as second:
            output, errors = second.communicate(timeout=120)
        assert second.returncode == 0, errors
        assert path.read_bytes().startswith(before)
        assert len(keys(tmp_path)) == len(set(keys(tmp_path))) == 4
        assert "random" in output

    def test_a_killed_benchmark_leaves_no_process_behind_even_if_a_job_hangs(self, tmp_path, monkeypatch):
        said = tmp_path / "pid"
        monkeypatch.setenv("STUCK", str(said))
        with start("--envs", "tests.worlds:Stuck-v0", "--seeds", "1", *QUICK, "--out", tmp_path) as killed:
            wait_until(lambda: said.exists() and said.read_text())
            os.kill(killed.pid, signal.SIGKILL)
        wait_until(lambda: gone(int(said.read_text())), seconds=20)

    def test_a_job_whose_worker_is_killed_is_reported_and_the_same_command_completes_it(
        self, trap, tmp_path, capsys
    ):
        options = [
            "bench",
            "--envs",
            "tests.worlds:Trapped-v0",
            "--seeds",
            "1",
            "2",
            "--workers",
            "2",
            *QUICK,
        ]
        trap.set()
        with trap.killing():
            assert main([*options, "--out", str(tmp_path)]) == 1
        assert "the worker process died (exit code -9)" in capsys.readouterr().err
        before = (tmp_path / "records.jsonl").read_bytes()
        assert len(keys(tmp_path)) == 1
        assert main([*options, "--out", str(tmp_path)]) == 0
        assert (tmp_path / "records.jsonl").read_bytes().startswith(before)
        assert len(set(keys(tmp_path))) == 2
        assert os.listdir(tmp_path / "failures") == []

    def test_two_workers_work_at_the_same_time(self, tmp_path):
        """Each Slow job sleeps 0.6 s while learning: overlapping events of two jobs show it."""
        jobs = [make_job(SLOW, "random", seed, 90, 1) for seed in (1, 2)]
        events = [event.job.seed for event in workers.run_locally(jobs, workers=2)]
        changes = sum(a != b for a, b in itertools.pairwise(events))
        assert changes > 3

    def test_an_interruption_ends_the_workers_and_keeps_the_records(self, tmp_path):
        jobs = [make_job(SLOW, "random", seed, 30, 1) for seed in range(5)]
        events = workers.run_locally(jobs, workers=1)
        first = next(event for event in events if isinstance(event, workers.Done))
        started = time.monotonic()
        events.close()
        assert time.monotonic() - started < 5
        assert first.record["key"] == jobs[0].key


class TestShown:
    def test_one_seed_has_neither_a_deviation_nor_an_interval(self, tmp_path, capsys):
        options = ["--envs", "cartpole", "--methods", "random", "--seeds", "1", "--steps", "2e1"]
        assert main(["bench", *options, "--eval-episodes", "1", "--quiet", "--out", str(tmp_path)]) == 0
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(" random"))
        assert not any(mark in row for mark in ("nan", "±", "["))

    def test_the_table_has_a_row_per_method_and_the_tasks_together(self, tmp_path, capsys):
        options = ["--envs", "cartpole", "swimmer", "--methods", "random", "ars", "--seeds", "1", "2"]
        options += ["--steps", "200", "--eval-episodes", "3", "--quiet", "--out", str(tmp_path)]
        assert main(["bench", *options]) == 0
        shown = capsys.readouterr().out
        assert "cartpole after 200 steps" in shown
        assert "swimmer after 200 steps" in shown
        assert "cartpole and swimmer together" in shown
        assert shown.count("ars") == 3
        assert shown.count("random") == 4, "a row in each table, and the name of the last column"
        assert "…" not in shown
        assert str(tmp_path / "records.jsonl") in shown.replace("\n", "")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--methods", "cmaess"], "no method called 'cmaess'; did you mean 'cmaes'"),
            (["--envs", "cartpol"], "no environment called 'cartpol'; did you mean 'cartpole'"),
            (["--envs", "CartPole-v1"], "action space must be a Box"),
            (["--steps", "0"], "budget must be at least 1 step, got 0"),
            (["--seeds", "-1"], "seeds must be integers and not negative, got -1"),
            (["--eval-episodes", "0"], "at least 1 episode, got 0"),
            (["--workers", "0"], "--workers must be at least 1, got 0"),
            (["--seeds"], "at least one task, one method and one seed"),
            (["--seeds", "1", "1"], "every job once"),
        ],
    )
    def test_wrong_input_is_explained_before_anything_runs(self, arguments, message, tmp_path, capsys):
        assert main(["bench", "--out", str(tmp_path / "out"), *arguments]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_a_directory_that_cannot_be_written(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert main(["bench", "--out", str(tmp_path / "file" / "bench"), *QUICK, "--seeds", "1"]) == 2
        assert "choose a writable directory with --out" in capsys.readouterr().err

    def test_without_ray_its_absence_is_explained(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        assert main(["bench", "--ray", "auto", "--seeds", "1", "--out", str(tmp_path), *QUICK]) == 2
        assert 'pip install "ddopg[ray]"' in capsys.readouterr().err

    def test_a_missing_package_is_named_before_anything_runs(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("ddopg.baselines.find_spec", lambda name: None)
        options = ["--methods", "ppo-paper", "--out", str(tmp_path / "out")]
        assert main(["bench", *options]) == 2
        assert (
            'ppo needs stable_baselines3, which is not installed; get it with pip install "ddopg[baselines]"'
            in (capsys.readouterr().err)
        )
        assert not (tmp_path / "out").exists()
