"""One job: its key, the grid, what counts at a mark, and evaluation on fresh episodes."""

import json

import numpy as np
import pytest

from ddopg.baselines.base import Checkpoint
from ddopg.baselines.settings import RandomSettings
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.errors import RolloutError
from ddopg.experiments.bench.jobs import Job, Judge, measure_learning_curve, place_marks, plan_jobs, run
from ddopg.policies import linear
from ddopg.support.records import to_dict
from tests.worlds import Logged

WORLD = "tests.worlds:Logged-v0"


def job(**changes):
    settings = to_dict(RandomSettings())
    return Job(WORLD, "random", "random", settings, seed=1, budget=90, episodes=4)._replace(**changes)


class TestKey:
    def test_the_same_job_has_the_same_key_also_after_a_journey_as_json(self):
        assert job().key == job().key
        assert Job(*json.loads(json.dumps(list(job())))).key == job().key

    @pytest.mark.parametrize(
        "changes",
        [
            {"env": "cartpole"},
            {"method": "random-mlp"},
            {"settings": {**job().settings, "spread": 0.5}},
            {"seed": 2},
            {"budget": 91},
            {"episodes": 5},
        ],
    )
    def test_whatever_changes_the_result_changes_the_key(self, changes):
        assert job(**changes).key != job().key

    def test_a_plan_holds_every_combination_once(self):
        jobs = plan_jobs(["cartpole", "swimmer"], ["random", "cmaes"], [1, 2, 3], 100, 5)
        assert len({j.key for j in jobs}) == 12
        assert {(j.env, j.method, j.seed) for j in jobs[:4]} == {
            (env, method, 1) for env in ("cartpole", "swimmer") for method in ("random", "cmaes")
        }


class TestCurve:
    """Checkpoints at chosen steps; θ says which one was judged."""

    def curve(self, steps, budget):
        checkpoints = (Checkpoint(s, linear(1, 1), np.array([float(s)])) for s in steps)
        return measure_learning_curve(checkpoints, budget, lambda checkpoint: checkpoint.theta[0])

    def test_the_grid_is_every_2_percent(self):
        assert place_marks(1000) == list(range(20, 1001, 20))

    def test_at_a_mark_counts_what_was_known_by_then(self):
        curve, used = self.curve([0, 30, 39, 41, 70, 100, 110], budget=100)
        assert dict(curve) == {
            mark: max(s for s in (0, 30, 39, 41, 70, 100) if s <= mark) for mark in range(2, 101, 2)
        }
        assert used == 100

    def test_what_is_learnt_beyond_the_budget_does_not_count(self):
        curve, used = self.curve([0, 60, 130], budget=100)
        assert curve[-1] == (100, 60)
        assert len(curve) == 50
        assert used == 130

    def test_the_budget_is_all_that_is_used(self):
        taken = []
        checkpoints = (
            taken.append(s) or Checkpoint(s, linear(1, 1), np.zeros(2)) for s in range(0, 1000, 10)
        )
        measure_learning_curve(checkpoints, 100, lambda checkpoint: 0.0)
        assert taken[-1] == 100

    def test_progress_ends_at_one(self):
        shares = []
        checkpoints = (Checkpoint(s, linear(1, 1), np.zeros(2)) for s in (0, 50, 120))
        measure_learning_curve(checkpoints, 100, lambda checkpoint: 0.0, shares.append)
        assert shares == [0.5, 1.0]


class TestRun:
    @pytest.fixture
    def record(self):
        Logged.seeds, Logged.steps = [], 0
        return run(job())

    def test_the_record_says_what_was_run_and_with_what(self, record):
        assert record["key"] == job().key
        assert {name: record[name] for name in Job._fields} == job()._asdict()
        assert record["steps"] == 90
        assert "jax" in record["packages"]
        assert [mark for mark, _ in record["curve"]] == place_marks(90)
        assert json.loads(json.dumps(record)) == record

    def test_evaluation_takes_its_own_episodes_and_learning_never_those(self, record):
        evaluation = [seed for seed in Logged.seeds if seed >= FIRST_EVALUATION_SEED]
        learning = [seed for seed in Logged.seeds if seed < FIRST_EVALUATION_SEED]
        first = FIRST_EVALUATION_SEED + 4 * job().seed
        assert set(evaluation) == set(range(first, first + 4))
        assert len(learning) == 30
        assert len(learning) * 3 == record["steps"]

    def test_runs_of_another_seed_are_judged_on_other_episodes(self):
        assert not set(Judge(WORLD, 1, 5).seeds) & set(Judge(WORLD, 2, 5).seeds)

    def test_the_last_value_is_that_of_the_best_policy(self, record):
        assert record["curve"][-1][1] > record["curve"][0][1]
        assert -0.75 < record["curve"][-1][1] <= 0

    def test_it_repeats(self, record):
        again = run(job())
        assert again["curve"] == record["curve"]
        assert run(job(seed=2))["curve"] != record["curve"]

    def test_settings_decide(self):
        assert run(job(settings={**job().settings, "probes": 0}))["curve"] != run(job())["curve"]

    def test_a_value_that_is_not_a_number_fails_the_job(self, monkeypatch):
        monkeypatch.setattr("ddopg.rollouts.playing.evaluate", lambda *_: np.array([1.0, np.nan]))
        with pytest.raises(RolloutError, match="mean return of the policy after 0 steps is nan"):
            run(job())

    def test_an_unchanged_policy_is_judged_once(self):
        Logged.seeds = []
        judge = Judge(WORLD, seed=1, episodes=3)
        policy = linear(1, 1)
        for theta in (np.zeros(2), np.zeros(2), np.ones(2)):
            judge.evaluate(Checkpoint(0, policy, theta.astype(np.float32)))
        assert len(Logged.seeds) == 6

    def test_a_policy_is_judged_by_its_mean_return(self):
        """a = 1 + 1·1 = 2 against the goal 0.5: −2.25 in each of three steps."""
        judge = Judge(WORLD, seed=1, episodes=2)
        assert judge.evaluate(Checkpoint(0, linear(1, 1), np.ones(2, np.float32))) == pytest.approx(-6.75)
