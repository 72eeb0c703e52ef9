"""The same jobs on a real Ray cluster, started here for the purpose."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ddopg.experiments import records

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RAY = str(Path(sys.executable).parent / "ray")
WORLD, RAISES, DIES = (f"tests.worlds:{name}-v0" for name in ("Follow", "Raises", "Dies"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a head node with one CPU, stopped afterwards by the process that started it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = Path("/tmp") / f"ray-{os.getpid()}"  # Ray's sockets need a short path
    command = [RAY, "start", "--head", "--block", "--num-cpus=1", "--include-dashboard=false"]
    command += ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={place}"]
    command += ["--object-store-memory=80000000", "--disable-usage-stats"]
    log = (tmp_path_factory.mktemp("ray") / "log").open("w")
    with log, subprocess.Popen(command, env=ENVIRONMENT, cwd=ROOT, stdout=log, stderr=log) as head:
        wait_for(port, head)
        yield f"127.0.0.1:{port}"
        head.terminate()
    shutil.rmtree(place, ignore_errors=True)


def wait_for(port, head):
    import time

    for _ in range(300):
        assert head.poll() is None, "the cluster did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the cluster did not answer")


def ddopg_bench(*arguments):
    command = [sys.executable, "-m", "ddopg", "bench", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


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


def test_a_cluster_that_is_not_there_is_explained(tmp_path):
    done = ddopg_bench("--ray", "127.0.0.1:1", "--methods", "random", "--seeds", 1, "--out", tmp_path)
    assert done.returncode == 2
    assert "cannot reach a Ray cluster at '127.0.0.1:1'" in done.stderr
    assert "Traceback" not in done.stderr
