"""Suites: the table, its page, the plan, and `ddopg bench --suite`."""

import json
import re
from pathlib import Path
from typing import get_args

import gymnasium as gym
import numpy as np
import pytest

from ddopg.cli.main import main, parse
from ddopg.cli.options import SuiteName
from ddopg.envs import TASKS
from ddopg.envs.adapter import make, problem_from_env
from ddopg.errors import UnknownNameError
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import plan_suite, run
from ddopg.experiments.bench.suites import SMALL_BUDGET, SUITES, SuiteTask, find_suite
from tests.box2d import mark_box2d

PAGE = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text().replace("−", "-").replace(",", "")
BY_NAME = {task.env: task for task in SMALL_BUDGET}
ARMS = {"ddopg/TwoJointArm-v0", "ddopg/SevenJointArm-v0"}
OUR_THRESHOLDS = {"Pendulum-v1", "Reacher-v5", "Swimmer-v5", "Hopper-v5", *ARMS}
TINY = (
    SuiteTask("cartpole", budget=40, episodes=2, solved=950, nothing=87, best=1000),
    SuiteTask("swingup", budget=30, episodes=1, solved=180, nothing=0.1, best=196),
)


class TestTable:
    def test_the_command_line_knows_every_suite(self):
        assert get_args(SuiteName) == tuple(SUITES)

    @pytest.mark.parametrize("task", SMALL_BUDGET, ids=lambda task: task.env)
    def test_the_page_says_the_same(self, task):
        (row,) = re.findall(rf"^\| `{task.env}` \|(.*)\|$", PAGE, re.M)
        found = [float(cell) for cell in row.split("|")[:5]]
        assert found == [task.budget, task.episodes, task.nothing, task.solved, task.best]

    @pytest.mark.parametrize("name", mark_box2d(BY_NAME))
    def test_every_task_can_be_made_and_learnt_on(self, name):
        env = make(name)
        assert 10 * problem_from_env(env).horizon <= BY_NAME[name].budget  # a few rollouts, at least
        if name not in OUR_THRESHOLDS | set(TASKS):
            assert env.spec.reward_threshold == BY_NAME[name].solved

    @pytest.mark.parametrize("name", ["InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5"])
    def test_doing_nothing_returns_what_the_table_says(self, name):
        env = make(name)
        found = [play_nothing(env, seed) for seed in range(1000, 1050)]
        assert np.mean(found) == pytest.approx(BY_NAME[name].nothing, rel=0.12)

    def test_upright_and_at_rest_is_the_best_of_the_double_pendulum(self):
        env = gym.make("InvertedDoublePendulum-v5", reset_noise_scale=0.0)
        env.reset(seed=0)
        reward = env.step(np.zeros(1))[1]
        assert 1000 * reward == pytest.approx(BY_NAME["InvertedDoublePendulum-v5"].best, abs=1)


def play_nothing(env, seed):
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        total, over = total + float(reward), terminated or truncated
    return total


class TestPlan:
    def test_every_task_has_its_own_budget_and_episodes_seeds_outermost(self):
        jobs = plan_suite(TINY, ["random", "ars"], [7, 8])
        assert [(job.env, job.method, job.seed, job.budget, job.episodes) for job in jobs[:4]] == [
            ("cartpole", "random", 7, 40, 2),
            ("cartpole", "ars", 7, 40, 2),
            ("swingup", "random", 7, 30, 1),
            ("swingup", "ars", 7, 30, 1),
        ]
        assert len({job.key for job in jobs}) == 8

    def test_searches_tune_the_controller_of_a_task_and_others_learn_a_policy_of_their_own(self):
        (arm,) = find_suite("small-budget", ["ddopg/TwoJointArm-v0"])
        found = {job.method: job.kind for job in plan_suite([arm], ["ddopg", "cmaes", "sac-zoo"], [0])}
        where = "ddopg.experiments.bench.controllers:two_loops"
        assert found == {"ddopg": f"ddopg@{where}", "cmaes": f"cmaes@{where}", "sac-zoo": "sac-sbx"}

    @pytest.mark.parametrize("name", sorted(ARMS))
    def test_the_first_rollout_of_a_controller_returns_what_the_table_says(self, name):
        job, *_ = plan_suite([BY_NAME[name]], ["random"], [0])
        record = run(job._replace(budget=50, episodes=10))
        assert record["curve"][0][1] == pytest.approx(BY_NAME[name].nothing, rel=0.02)

    def test_some_tasks_of_a_suite_keep_its_order(self):
        chosen = find_suite("small-budget", ["Reacher-v5", "cartpole"])
        assert chosen == [BY_NAME["cartpole"], BY_NAME["Reacher-v5"]]

    def test_an_unknown_suite_is_refused(self):
        with pytest.raises(UnknownNameError, match="no suite called 'small-budgets'; did you mean"):
            find_suite("small-budgets")


class TestCommand:
    @pytest.fixture
    def bench(self, monkeypatch, tmp_path):
        """Run the command on the tiny suite, in this process; gives the exit code."""
        monkeypatch.setitem(SUITES, "small-budget", TINY)
        ran = []

        def run_here(jobs, **_):
            for job in jobs:
                ran.append(job)
                yield workers.Done(job, run(job))

        monkeypatch.setattr(workers, "run_locally", run_here)

        def start(*arguments):
            options = ["--suite", "small-budget", "--methods", "random", "--quiet", "--out", str(tmp_path)]
            return main(["bench", *options, *arguments])

        start.ran, start.records = ran, tmp_path / "records.jsonl"
        return start

    def test_it_runs_what_is_missing_and_scores_all_tasks_together(self, bench, capsys):
        assert bench("--seeds", "5-6") == 0
        shown = capsys.readouterr().out
        assert "cartpole after 40 steps" in shown
        assert "swingup after 30 steps" in shown
        assert "cartpole and swingup together: IQM of scores" in shown
        rows = [json.loads(line) for line in bench.records.read_text().splitlines()]
        assert [(row["env"], row["seed"], row["budget"], row["episodes"]) for row in rows] == [
            (task.env, seed, task.budget, task.episodes) for seed in (5, 6) for task in TINY
        ]
        assert bench("--seeds", "5-6", "8", "--envs", "swingup") == 0
        assert [(job.env, job.seed) for job in bench.ran[4:]] == [("swingup", 8)]

    def test_a_latex_table_comes_on_request(self, bench, capsys):
        assert bench("--seeds", "5", "--envs", "swingup") == 0
        assert "tabular" not in capsys.readouterr().out
        assert bench("--seeds", "5", "--envs", "swingup", "--latex") == 0
        assert r"\begin{tabular}{lrr}" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--steps", "100"],
                "has its own budget and evaluation episodes, got --steps 100; leave out --steps",
            ),
            (["--eval-episodes", "0"], "got --eval-episodes 0; leave out --eval-episodes"),
            (
                ["--envs", "cartpol"],
                "no task of the suite small-budget called 'cartpol'; did you mean 'cartpole'",
            ),
        ],
    )
    def test_what_does_not_go_with_a_suite_is_refused(self, arguments, message, bench, capsys):
        assert bench(*arguments) == 2
        assert message in capsys.readouterr().err
        assert bench.ran == []

    def test_seeds_are_numbers_and_ranges(self):
        assert parse(["bench", "--seeds", "3", "5200-5203", "-1"]).seeds == (3, 5200, 5201, 5202, 5203, -1)

    @pytest.mark.parametrize("wrong", ["5-x", "x", "5-"])
    def test_other_seeds_are_refused(self, wrong, capsys):
        with pytest.raises(SystemExit) as refused:
            main(["bench", "--seeds", wrong])
        assert refused.value.code == 2
        assert wrong in capsys.readouterr().err
