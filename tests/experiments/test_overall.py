"""All tasks together: scores at one number of steps, the summary by hand, and the LaTeX table."""

import numpy as np
import pytest

from ddopg.experiments.bench.latex import escape, write_latex
from ddopg.experiments.bench.overall import (
    collect_scores,
    compare_at,
    compare_scores,
    find_covered,
    find_median_steps,
    summarise_scores,
)

NOTHING, BEST = {"cartpole": 87, "swingup": 0.1}, {"cartpole": 1000, "swingup": 196}


def record(env, scores, budget=100, seconds=12.0):
    """A record whose curve has these scores, at equal distances."""
    marks = np.linspace(0, budget, len(scores) + 1)[1:]
    span = BEST[env] - NOTHING[env]
    curve = [[int(mark), NOTHING[env] + span * score] for mark, score in zip(marks, scores, strict=True)]
    return {"budget": budget, "curve": curve, "seconds": seconds, "evaluation_seconds": 2.0}


GROUPS = {
    "cartpole": {
        "mine": [record("cartpole", [0.5, 1.0], seconds=s) for s in (12, 32, 22)],
        "their_s": [record("cartpole", [0.0, 0.9, 0.2, 0.3], budget=200)],
    },
    "swingup": {
        "mine": [record("swingup", [0.0, 0.4]), record("swingup", [0.2, 0.6])],
        "their_s": [record("swingup", [0.0, 0.4])],
    },
}
TASKS = ("cartpole", "swingup")


def test_runs_are_compared_at_the_shortest_budget_of_a_task():
    assert compare_at(GROUPS) == {"cartpole": 100, "swingup": 100}
    found = collect_scores(GROUPS, "their_s", TASKS)
    # A mark at 50 of 200 steps: doing nothing counts before it, and its value until the next one at 100.
    curve = found.by_task["cartpole"][0]
    assert curve[[0, 23, 24, 48, 49]] == pytest.approx([0, 0, 0, 0, 0.9])


def test_the_summary_by_hand():
    found = summarise_scores(collect_scores(GROUPS, "mine", TASKS))
    assert (found.method, found.tasks, found.runs) == ("mine", 2, (2, 3))
    assert found.iqm == pytest.approx((0.6 + 1 + 1) / 3)  # 0.4 and one 1 are cut
    assert found.worst == pytest.approx(0.4)
    assert found.worst_mean == pytest.approx((1 + 0.4) / 2)
    assert found.solved == pytest.approx((1 + 0) / 2)  # every run on cartpole, none on the swing-up
    assert found.seconds == pytest.approx(20 + 10)  # the median without evaluation, of each task
    assert found.interval[0] <= found.iqm <= found.interval[1]
    # The first mark of the curve is at 50 of 100 steps: 24 marks of nothing, 25 of the first value, one of the last.
    areas = sorted([(0.5 * 25 + 1) / 50] * 3 + [0.4 / 50, (0.2 * 25 + 0.6) / 50])
    assert found.area == pytest.approx(np.mean(areas[1:4]))


def test_the_same_records_give_the_same_intervals():
    spread = np.random.default_rng(0).uniform(size=30)
    scores = collect_scores(
        {"swingup": {"mine": [record("swingup", [x]) for x in spread]}}, "mine", ["swingup"]
    )
    assert summarise_scores(scores) == summarise_scores(scores)
    assert summarise_scores(scores).interval != summarise_scores(scores, seed=1).interval


def test_methods_are_compared_on_the_tasks_that_both_have():
    mine, theirs = collect_scores(GROUPS, "mine", TASKS), collect_scores(GROUPS, "their_s", ["swingup"])
    chance, (low, high) = compare_scores(mine, theirs)
    assert chance == pytest.approx((0.5 + 1) / 2)  # a tie and a win, on the swing-up
    assert low <= chance <= high


def test_steps_to_solved_are_those_of_the_median_run():
    assert find_median_steps(collect_scores(GROUPS, "mine", TASKS), "cartpole") == 100
    assert find_median_steps(collect_scores(GROUPS, "mine", TASKS), "swingup") == np.inf


def test_a_task_without_a_scale_or_without_runs_is_not_covered():
    groups = {**GROUPS, "mountaincar": {"mine": []}, "Own-v0": {"mine": [record("cartpole", [1.0])]}}
    assert find_covered(groups, "mine") == ["cartpole", "swingup"]


def test_the_latex_table():
    lines = write_latex(GROUPS).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[2] == r"task & steps & mine & their\_s \\"
    assert lines[4].startswith(r"cartpole & 100 & $1000.0$ {\scriptsize $[1000.0, 1000.0]$} & $908.7$")
    assert lines[7].startswith(r"score, 2 tasks &  & $0.87$ {\scriptsize $[")
    assert lines[-1] == r"\end{tabular}"
    assert all(line.count("&") == 3 for line in lines[4:6])


def test_a_method_that_lacks_a_task_has_a_dash_and_no_score():
    groups = {"cartpole": GROUPS["cartpole"], "swingup": {"mine": GROUPS["swingup"]["mine"]}}
    lines = write_latex(groups).splitlines()
    assert lines[5].endswith(r" & -- \\")
    assert lines[7].endswith(r" & -- \\")


def test_what_is_special_in_latex_is_escaped():
    assert (
        escape(r"a_b\c^2 ~ {50%}") == r"a\_b\textbackslash{}c\textasciicircum{}2 \textasciitilde{} \{50\%\}"
    )
