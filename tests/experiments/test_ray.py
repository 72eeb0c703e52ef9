"""The same jobs on a real Ray cluster, started here for the purpose."""

import os
import subprocess
import sys

import pytest

from ddopg.experiments.bench import records
from tests.traps import ROOT

pytestmark = pytest.mark.slow

NAMES = ("Follow", "Raises", "Dies", "Trapped")
WORLD, RAISES, DIES, TRAPPED = (f"tests.worlds:{name}-v0" for name in NAMES)


def ddopg_bench(*arguments):
    command = [sys.executable, "-m", "ddopg", "bench", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_jobs_run_on_the_cluster_fail_alone_and_are_not_run_again(cluster, tmp_path):
    options = ["--methods", "random", "--seeds", 1, 2, "--steps", 60, "--eval-episodes", 2]
    done = ddopg_bench(*options, "--envs", RAISES, DIES, WORLD, "--ray", cluster, "--out", tmp_path / "ray")
    assert done.returncode == 1, done.stderr
    rows = records.read(tmp_path / "ray" / "records.jsonl")
    assert {(row["env"], row["seed"]) for row in rows} == {(WORLD, 1), (WORLD, 2)}
    traces = [trace.read_text() for trace in (tmp_path / "ray" / "failures").iterdir()]
    assert len(traces) == 4
    assert sum("RuntimeError: the arm is stuck" in trace for trace in traces) == 2
    assert sum("worker died" in trace for trace in traces) == 2

    again = ddopg_bench(*options, "--envs", WORLD, "--ray", cluster, "--out", tmp_path / "ray")
    assert again.returncode == 0, again.stderr
    assert records.read(tmp_path / "ray" / "records.jsonl") == rows

    assert ddopg_bench(*options, "--envs", WORLD, "--out", tmp_path / "local").returncode == 0
    local = records.read(tmp_path / "local" / "records.jsonl")
    assert {row["key"]: row["curve"] for row in rows} == {row["key"]: row["curve"] for row in local}


def test_a_job_whose_worker_is_killed_is_reported_and_the_same_command_completes_it(cluster, trap, tmp_path):
    options = ["--methods", "random", "--seeds", 1, 2, 3, "--steps", 60, "--eval-episodes", 2]
    options += ["--envs", TRAPPED, "--out", tmp_path]
    trap.set()
    with trap.killing():
        done = ddopg_bench(*options, "--ray", cluster)
    assert done.returncode == 1, done.stderr
    before = records.read(tmp_path / "records.jsonl")
    (trace,) = (tmp_path / "failures").iterdir()
    assert "worker died" in trace.read_text()
    assert len(before) == 2

    again = ddopg_bench(*options, "--ray", cluster)
    assert again.returncode == 0, again.stderr
    rows = records.read(tmp_path / "records.jsonl")
    assert rows[:2] == before
    assert sorted(row["seed"] for row in rows) == [1, 2, 3]
    assert not list((tmp_path / "failures").iterdir())


def test_a_cluster_that_is_not_there_is_explained(tmp_path):
    done = ddopg_bench("--ray", "127.0.0.1:1", "--methods", "random", "--seeds", 1, "--out", tmp_path)
    assert done.returncode == 2
    assert "cannot reach a Ray cluster at '127.0.0.1:1'" in done.stderr
    assert "Traceback" not in done.stderr
