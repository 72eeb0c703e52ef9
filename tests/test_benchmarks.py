"""The scripts that measure still run; what they measure is no test's business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


@pytest.mark.slow
def test_growth():
    measured = json.loads(run("growth.py", "--one", 20))
    assert measured["rollouts"] == 20
    assert measured["of_which_store_ms"] < measured["tell_ms"]


@pytest.mark.long
@pytest.mark.parametrize("what", ["default", "trajectory", "others", "front"])
def test_pictures_are_drawn_from_the_committed_runs(what, tmp_path):
    run("picture.py", what, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_the_tables_of_the_suite_are_those_of_the_committed_runs():
    page = (BENCHMARKS.parent / "docs" / "benchmark.md").read_text()
    for table in run("suite_page.py", "print").strip().split("\n\n"):
        assert table in page, "run python benchmarks/suite_page.py"


def test_the_plan_of_the_suite_names_every_job_once():
    lines = run("small_budget.py", "plan").splitlines()
    assert len(lines) > 5
    assert all(" of " in line for line in lines)


def test_the_page_of_the_suite_compares_what_each_method_is_now(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import suite_page

    from ddopg import baselines

    kinds = {
        (method, row["kind"].partition(baselines.OWN)[0])
        for methods in suite_page.read_groups().values()
        for method, rows in methods.items()
        for row in rows
    }
    assert kinds
    assert all(kind == baselines.METHODS[method].kind for method, kind in kinds)


def test_every_job_of_the_plan_is_there_once_and_short_ones_come_first(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import small_budget

    planned = small_budget.collect_jobs(small_budget.PLAN)
    assert len({job.key for job in planned}) == len(planned) == 16 * (2 * 5 + 8 * 10)
    first = planned[:16]
    assert {(job.method, job.seed) for job in first} == {("sac-zoo", 5400)}
    assert [job.budget for job in first] == sorted(job.budget for job in first)


@pytest.mark.slow
def test_speed(tmp_path):
    run("speed.py", "--quick", "--out", tmp_path / "results.json")
    measured = json.loads((tmp_path / "results.json").read_text())
    assert set(measured["gradient_step_us"]) == {"default", "A"}
    for parts in measured["iteration_ms"].values():
        assert 0 < parts["search"] < parts["iteration"]
