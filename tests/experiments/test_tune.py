"""Tuning with the real Optuna: trials on several seeds, pruning, processes that share a study, an honest verdict."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from optuna.trial import TrialState

import ddopg
from ddopg.cli import tune as tuning
from ddopg.cli.main import main, parse
from ddopg.config import preset
from ddopg.errors import ConfigError, RolloutError
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.stats import iqm
from ddopg.experiments.bench.workers import Done, Failed, Progressed
from ddopg.experiments.tuning import ranges, storages, trials, verdict
from ddopg.experiments.tuning import study as studies
from ddopg.experiments.tuning.ranges import Range, choose_space
from ddopg.experiments.tuning.study import Plan
from ddopg.experiments.tuning.trials import Crew
from ddopg.support.records import flatten, to_dict
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
WORLD, RAISES, TRAPPED = (f"tests.worlds:{name}-v0" for name in ("Follow", "Raises", "Trapped"))
SPACE = {"exploration.noise": Range(0.3, 4.0), "search.steps": Range(2, 40)}
PLAN = Plan(WORLD, "trajectory", 40, 2, (7000, 7001, 7002, 7003, 7004), "area", SPACE)
QUICK = ["--steps", "30", "--eval-episodes", "2", "--seeds", "2", "--fresh-seeds", "5", "--quiet"]
QUICK += ["--params", "exploration.noise", "exploration.random"]  # no program depends on them


def address(directory):
    return f"sqlite:///{directory}/study.sqlite"


@pytest.fixture
def study(tmp_path):
    with studies.open_study(address(tmp_path), "mine", PLAN, 0) as made:
        yield made


def work(crew, value, most=10_000):
    """Run the crew's jobs: `value(settings, seed)` is the score, or None for a run that fails."""
    done = []
    while len(done) < most and (job := crew.next_job()) is not None:
        score = value(job.settings, job.seed)
        curve = [[1, score], [2, score]]
        crew.take(
            Failed(job, "Traceback\nOverflow: too far") if score is None else Done(job, {"curve": curve})
        )
        done.append(job)
    return done


def noise(settings, seed):
    return settings["exploration"]["noise"] + seed / 1e6


def start(*arguments):
    command = [sys.executable, "-m", "ddopg", "tune", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stored(directory):
    """State and number of every trial, read by SQLite itself."""
    path = directory / "study.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute("SELECT state, number FROM trials ORDER BY number").fetchall()
        except sqlite3.OperationalError:
            return []  # the tables are being made


class TestRanges:
    @pytest.mark.parametrize("name", ranges.USUAL)
    def test_every_preset_lies_within_what_is_usually_searched(self, name):
        own = ranges.find_start(name, choose_space(name))
        assert own is not None
        assert ranges.apply_values(name, own) == preset(name)

    def test_every_range_is_of_a_setting_and_sound_at_both_ends(self):
        known = flatten(to_dict(preset("trajectory")))
        for name in ranges.RANGES:
            assert name in known
            start = (
                "released" if name == "search.fisher_damping" else "trajectory"
            )  # adam has no natural gradient
            assert choose_space(start, [name]) == {name: ranges.RANGES[name]}

    def test_params_restrict_and_a_file_gives_ranges(self, tmp_path):
        path = tmp_path / "ranges.toml"
        path.write_text(
            '"search.radius" = {low = 1, high = 2}\n[search]\nsteps = {low = 5, high = 9, log = true}\n'
            '[selection]\nrule = ["latest", "best"]\n'
        )
        space = choose_space("trajectory", file=path)
        assert space == {
            "search.radius": Range(1.0, 2.0, False),
            "search.steps": Range(5, 9, True),
            "selection.rule": ("latest", "best"),
        }
        assert (space["search.radius"].whole, space["search.steps"].whole) == (False, True)
        assert list(choose_space("trajectory", ["search.steps", "restart.threshold"], path)) == [
            "search.steps",
            "restart.threshold",
        ]

    @pytest.mark.parametrize(
        ("params", "text", "message"),
        [
            (["search.radus"], "", "no setting called 'search.radus'; did you mean 'search.radius'"),
            (["search.window"], "", "search.window has no range of its own; give one with --ranges"),
            ([], '"search.radius" = {low = 2, high = 1}', "search.radius needs finite low < high"),
            ([], '"search.radius" = {low = 0, high = 1, log = true}', "low > 0 where log = true"),
            ([], '"search.radius" = {high = 1}', "search.radius needs finite low < high"),
            ([], '"search.steps" = {low = 0.5, high = 2}', "search.steps needs integers"),
            ([], '"selection.rule" = {low = 1, high = 2}', "is no number; give a list of values"),
            ([], '"selection.rule" = ["latest", "bst", "best"]', "did you mean 'best'"),
            ([], '"search.radius" = 1', "or a list of at least two values, got 1"),
            (
                [],
                '"incumbent.ema_rate" = {low = -1, high = 1}',
                "settings that cannot be: incumbent.ema_rate",
            ),
            ([], '"serch.follow" = {low = 1, high = 2}', "no setting called 'serch.follow'"),
        ],
    )
    def test_what_cannot_be_searched_is_refused_with_a_reason(self, params, text, message, tmp_path):
        path = tmp_path / "ranges.toml"
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            choose_space("trajectory", params, path)
        assert message in str(caught.value)

    def test_a_preset_outside_the_ranges_is_no_trial(self):
        assert ranges.find_start("trajectory", {"exploration.noise": Range(2.0, 3.0)}) is None
        assert ranges.find_start("trajectory", {"selection.rule": ("best", "rank")}) is None
        assert ranges.find_start("trajectory", {"policy.hidden": ([], [8])}) == {"policy.hidden": []}


class TestTrials:
    def test_the_first_trial_is_the_preset_and_a_value_is_the_iqm_over_all_seeds(self, study):
        scores = {7000: 1.0, 7001: 2.0, 7002: 4.0, 7003: 100.0, 7004: -100.0}
        jobs = work(Crew(study, PLAN, 1), lambda settings, seed: scores[seed])
        assert sorted(job.seed for job in jobs) == list(PLAN.seeds)
        assert all(job.settings == to_dict(preset("trajectory")) for job in jobs)
        (trial,) = study.trials
        assert trial.intermediate_values == dict(enumerate(scores.values()))
        assert trial.value == pytest.approx(7 / 3) == iqm(np.array(list(scores.values())))

    def test_the_score_is_the_mean_over_the_curve_or_its_end(self):
        curve = [[1, 0.0], [2, 1.0], [3, 5.0]]
        assert (trials.score_curve(curve, "area"), trials.score_curve(curve, "final")) == (2.0, 5.0)

    def test_trials_that_are_worse_on_three_seeds_of_three_end_there(self, study):
        jobs = work(Crew(study, PLAN, 8), noise)
        count = Counter(job.method for job in jobs)
        pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
        assert pruned
        assert {count[f"trial {t.number}"] for t in pruned} == {3}
        best = max(t.params["exploration.noise"] for t in study.trials)
        assert study.best_trial.params["exploration.noise"] == best > preset("trajectory").exploration.noise
        assert len(study.trials) == 8

    def test_a_trial_that_is_better_on_one_seed_of_three_goes_on(self, study):
        work(Crew(study, PLAN, 1), lambda settings, seed: 1.0)
        scores = iter([0.5, 0.4, 3.0, -9.0, -9.0])
        jobs = work(Crew(study, PLAN, 2), lambda settings, seed: next(scores))
        assert len(jobs) >= 4

    def test_the_order_of_the_seeds_differs_between_trials(self, study):
        jobs = work(Crew(study, PLAN, 8), lambda settings, seed: 0.0)
        assert len({job.seed for job in jobs[::5]}) > 1

    def test_tuned_numbers_have_few_digits_and_stay_in_their_range(self, study):
        jobs = work(Crew(study, PLAN, 8), noise)
        drawn = {job.settings["exploration"]["noise"] for job in jobs}
        assert all(value == float(f"{value:.4g}") and 0.3 <= value <= 4.0 for value in drawn)
        assert all(type(job.settings["search"]["steps"]) is int for job in jobs)
        assert len(drawn) == 8

    def test_a_setting_under_which_a_run_fails_is_out(self, study):
        crew = Crew(study, PLAN, 8)
        jobs = work(
            crew, lambda s, seed: None if s["exploration"]["noise"] > 1.5 and seed == 7002 else noise(s, seed)
        )
        failed = [t for t in study.trials if "failure" in t.user_attrs]
        assert failed
        assert {t.state for t in failed} == {TrialState.PRUNED}
        assert failed[0].user_attrs["failure"] == "seed 7002: Overflow: too far"
        assert study.best_trial.params["exploration.noise"] <= 1.5
        for trial in failed:
            assert [j.seed for j in jobs if j.method == f"trial {trial.number}"][-1] == 7002

    def test_a_preset_that_fails_stops_the_search_and_is_tried_again_later(self, study):
        crew = Crew(study, PLAN, 3)
        with pytest.raises(RolloutError, match=r"the preset itself fails with seed 700\d: Overflow: too far"):
            work(crew, lambda settings, seed: None)
        crew.give_up()
        jobs = work(Crew(study, PLAN, 3), noise)
        assert jobs[0].settings == to_dict(preset("trajectory"))
        assert studies.count_finished(study) == 3

    def test_the_same_seed_repeats_a_search_and_another_does_not(self, tmp_path):
        def drawn(name, seed):
            plan = PLAN._replace(seeds=(7000,))
            with studies.open_study(address(tmp_path), name, plan, seed) as study:
                work(Crew(study, plan, 11), noise)
                return [trial.params for trial in study.trials]

        assert drawn("a", 3) == drawn("b", 3) != drawn("c", 4)


class TestSharing:
    def test_two_crews_finish_exactly_what_is_wanted_and_draw_differently(self, tmp_path):
        with (
            studies.open_study(address(tmp_path), "mine", PLAN, 0) as one,
            studies.open_study(address(tmp_path), "mine", PLAN, 0) as other,
        ):
            crews = Crew(one, PLAN, 9), Crew(other, PLAN, 9)
            while any(work(crew, noise, most=1) for crew in crews):
                pass
            assert studies.count_finished(one) == len(one.trials) == 9
            assert len({tuple(t.params.values()) for t in one.trials}) == 9

    def test_processes_that_begin_a_study_at_the_same_instant_do_not_disturb_each_other(self, tmp_path):
        gate = Barrier(3)

        def begin(number):
            gate.wait()
            with studies.open_study(address(tmp_path), "mine", PLAN, 0) as study:
                return study.study_name

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(begin, range(3))) == ["mine"] * 3
        with studies.open_study(address(tmp_path), "mine", PLAN, 0) as study:
            assert len(study.trials) == 1

    def test_a_trial_too_many_is_given_back_before_anything_is_run(self, study, monkeypatch):
        work(Crew(study, PLAN, 2), noise)
        monkeypatch.setattr(
            studies, "has_work_left", lambda study, wanted: True
        )  # as if another had been faster
        assert Crew(study, PLAN, 2).next_job() is None
        assert studies.count_finished(study) == 2
        (given_back,) = [t for t in study.trials if t.state == TrialState.FAIL]
        assert given_back.user_attrs["surplus"]
        assert not given_back.intermediate_values

    def test_what_is_given_back_goes_on_with_the_seeds_that_are_left(self, study):
        crew = Crew(study, PLAN, 2)
        before = work(crew, noise, most=2)
        crew.next_job()
        crew.give_up()
        assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]
        after = work(Crew(study, PLAN, 1), noise)
        assert sorted(job.seed for job in (*before, *after)) == list(PLAN.seeds)
        assert study.best_value == pytest.approx(1.2 + 7002 / 1e6)

    def test_a_trial_of_a_dead_process_is_noticed_and_put_back_once(self, tmp_path, monkeypatch):
        monkeypatch.setattr(storages, "HEARTBEAT", 1)
        monkeypatch.setattr(storages, "GRACE", 1)
        with (
            studies.open_study(address(tmp_path), "mine", PLAN, 0) as one,
            studies.open_study(address(tmp_path), "mine", PLAN, 0) as other,
        ):
            dead = Crew(one, PLAN, 1)
            work(dead, noise, most=3)
            assert Crew(other, PLAN, 1).next_job() is None
            wait_until(lambda: studies.revive(other) or studies.has_work_left(other, 1), seconds=10)
            studies.revive(one)
            assert [t.state for t in other.trials] == [TrialState.FAIL, TrialState.WAITING]
            assert len(work(Crew(other, PLAN, 1), noise)) == 2
            work(dead, noise)  # it was not dead: what it has to say comes too late, and is not counted
            assert studies.count_finished(other) == 1
            assert not dead.open

    def test_a_process_that_died_before_its_first_sign_of_life_is_noticed_too(self, tmp_path, monkeypatch):
        monkeypatch.setattr(storages, "HEARTBEAT", 1)
        monkeypatch.setattr(storages, "GRACE", 1)
        with studies.open_study(address(tmp_path), "mine", PLAN, 0) as study:
            with pytest.warns(UserWarning, match="Heartbeat"):
                study.ask()
            wait_until(lambda: studies.revive(study) or studies.has_work_left(study, 1), seconds=10)
            assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]

    def test_a_trial_whose_process_died_before_the_clock_was_set_back_is_noticed_too(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(storages, "HEARTBEAT", 1)
        monkeypatch.setattr(storages, "GRACE", 1)
        with studies.open_study(address(tmp_path), "mine", PLAN, 0) as study:
            Crew(study, PLAN, 1).next_job()
            with closing(sqlite3.connect(tmp_path / "study.sqlite")) as connection:
                later = "UPDATE trial_heartbeats SET heartbeat = datetime('now', '+1 day')"
                assert connection.execute(later).rowcount == 1
                connection.commit()
            wait_until(lambda: studies.revive(study) or studies.has_work_left(study, 1), seconds=10)
            assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]

    def test_a_living_process_keeps_its_trial(self, tmp_path, monkeypatch):
        monkeypatch.setattr(storages, "HEARTBEAT", 1)
        monkeypatch.setattr(storages, "GRACE", 2)
        with studies.open_study(address(tmp_path), "mine", PLAN, 0) as study:
            crew = Crew(study, PLAN, 1)
            crew.next_job()
            with studies.keep_alive(study, lambda: [one.trial for one in crew.open.values()]):
                time.sleep(4.5)
                studies.revive(study)
            assert [t.state for t in study.trials] == [TrialState.RUNNING]

    def test_another_plan_is_refused(self, study, tmp_path):
        with (
            pytest.raises(ConfigError, match="was begun with steps 40, this command says 41"),
            studies.open_study(address(tmp_path), "mine", PLAN._replace(steps=41), 0),
        ):
            raise AssertionError
        changed = PLAN._replace(space={"exploration.noise": Range(0.3, 3.0)})
        with (
            pytest.raises(ConfigError, match="space"),
            studies.open_study(address(tmp_path), "mine", changed, 0),
        ):
            raise AssertionError

    def test_nothing_in_the_storage_is_a_pickle(self, study, tmp_path):
        work(Crew(study, PLAN, 11), noise)
        assert b"\x80\x04\x95" not in (tmp_path / "study.sqlite").read_bytes()


class TestVerdict:
    fresh = range(8000, 8010)

    def compared(self, tmp_path, gain, plan=PLAN):
        """The verdict where the tuned setting gains `gain(seed)`."""
        jobs = verdict.make_jobs(plan, {"search.steps": 3}, self.fresh)

        def execute(jobs):
            for job in jobs:
                score = 10.0 * (job.seed % 7) + (gain(job.seed) if job.method == verdict.TUNED else 0.0)
                yield Done(job, {"key": job.key, **job._asdict(), "curve": [[1, score], [2, score]]})

        return verdict.compare(plan, jobs, tmp_path, execute, True)[0]

    def test_a_steady_gain_is_better_and_a_loss_is_worse(self, tmp_path):
        better = self.compared(tmp_path / "a", lambda seed: 2.0 + 0.1 * (seed % 3))
        assert better.verdict == verdict.BETTER
        assert better.mean == pytest.approx(2.11)
        assert self.compared(tmp_path / "b", lambda seed: -2.0 - 0.1 * (seed % 3)).verdict == verdict.WORSE

    def test_luck_is_not_better(self, tmp_path):
        difference = self.compared(tmp_path, lambda seed: 30.0 if seed == 8003 else -1.0)
        assert difference.mean > 0
        assert difference.verdict == verdict.OPEN
        assert "not better than the preset" in verdict.OPEN

    def test_seeds_of_trials_and_of_the_comparison_never_meet(self):
        for seed in (0, 1, 17):
            command = parse(["tune", "cartpole", "--seed", str(seed), "--seeds", "1000"])
            first = tuning.FRESH + tuning.STRIDE * seed
            assert not set(tuning.make_plan(command).seeds) & set(range(first, first + tuning.MOST_SEEDS))


class TestCommand:
    @pytest.mark.long
    def test_it_tunes_compares_and_leaves_a_preset_that_train_reads(self, tmp_path, capsys):
        options = ["tune", WORLD, "--trials", "3", *QUICK, "--out", str(tmp_path)]
        assert main(options) == 0
        shown = capsys.readouterr().out
        assert "3 trials complete, 0 ended early" in shown
        assert "= preset" in shown
        assert any(text in shown for text in (verdict.BETTER, verdict.WORSE, verdict.OPEN, verdict.SAME))
        path = tmp_path / "preset.json"
        told = json.loads(path.read_text())
        assert told["preset"] == "default"
        assert told["note"]["seeds"] == [7000, 7001]
        assert len(told["note"]["scores"]) == 2
        assert told["note"]["version"] == ddopg.__version__
        assert set(told["changes"]) <= {"exploration.noise", "exploration.random"}
        config = parse(["train", "cartpole", "--config", str(path)]).config
        assert flatten(to_dict(config)) == flatten(to_dict(preset("default"))) | told["changes"]
        if told["changes"]:
            assert told["note"]["fresh_seeds"] == [8000, 8001, 8002, 8003, 8004]
            assert len(bench.read_finished(tmp_path)) == 10
        before = path.read_bytes()
        assert main(options) == 0  # nothing is run again, the same is said
        assert path.read_bytes() == before
        assert [state for state, _ in stored(tmp_path)] == ["COMPLETE"] * 3

    @pytest.mark.long
    def test_two_processes_on_one_storage_finish_exactly_the_trials_that_are_wanted(self, tmp_path):
        options = [WORLD, "--trials", "4", *QUICK, "--workers", "1", "--storage", address(tmp_path)]
        with (
            start(*options, "--out", tmp_path / "a") as one,
            start(*options, "--out", tmp_path / "b", "--no-compare") as other,
        ):
            errors = [process.communicate(timeout=200)[1] for process in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0), errors
        found = Counter(state for state, _ in stored(tmp_path))
        assert found["COMPLETE"] + found["PRUNED"] == 4
        assert not {"RUNNING", "WAITING"} & set(found)
        with studies.open_study(address(tmp_path), f"{WORLD}-default", plan_in(tmp_path), 0) as study:
            ended = [t for t in study.trials if t.state in studies.FINISHED]
            assert len({tuple(t.params.values()) for t in ended}) == 4
        assert (tmp_path / "a" / "preset.json").exists()

    def test_a_trial_that_ends_just_after_it_was_looked_at_is_not_waited_for(self, monkeypatch):
        finished = 0

        def look(study):
            nonlocal finished
            finished, before = 1, finished
            return before

        def count(study):
            return Counter(COMPLETE=finished, RUNNING=1 - finished)

        monkeypatch.setattr(studies, "count_finished", look)
        monkeypatch.setattr(studies, "count_states", count)
        monkeypatch.setattr(studies, "revive", lambda study: pytest.fail("waits for what has ended"))
        monkeypatch.setattr(studies, "has_work_left", lambda study, wanted: False)
        monkeypatch.setattr(tuning, "PATIENCE", 0.0)
        assert tuning._all_finished(None, None, parse(["tune", WORLD, "--trials", "1", "--quiet"]))

    @pytest.mark.long
    def test_an_interrupted_search_gives_its_trial_back(self, tmp_path):
        options = [WORLD, "--trials", "2", *QUICK, "--out", tmp_path]
        with start(*options) as first:
            wait_until(lambda: ("RUNNING", 0) in stored(tmp_path))
            time.sleep(0.5)
            os.kill(first.pid, signal.SIGTERM)
            _, errors = first.communicate(timeout=60)
        assert first.returncode == 143, errors
        assert "of 2 trials are finished; the same command goes on" in errors
        assert stored(tmp_path) == [("FAIL", 0), ("WAITING", 1)]

    @pytest.mark.long
    def test_a_killed_search_goes_on(self, tmp_path, monkeypatch, capsys):
        options = ["tune", WORLD, "--trials", "1", *QUICK, "--out", str(tmp_path)]
        with start(*options[1:]) as first:
            wait_until(lambda: ("RUNNING", 0) in stored(tmp_path))
            os.kill(first.pid, signal.SIGKILL)
        assert stored(tmp_path) == [("RUNNING", 0)]
        for name, value in (("HEARTBEAT", 1), ("GRACE", 2)):
            monkeypatch.setattr(storages, name, value)
        monkeypatch.setattr(tuning, "PATIENCE", 0.1)
        assert main(options) == 0
        states = Counter(state for state, _ in stored(tmp_path))
        assert states == {"COMPLETE": 1, "FAIL": 1}
        assert "1 trials complete" in capsys.readouterr().out

    def test_an_environment_that_fails_is_named(self, tmp_path, capsys):
        assert main(["tune", RAISES, *QUICK, "--out", str(tmp_path)]) == 2
        shown = capsys.readouterr().err
        assert "the preset itself fails" in shown
        assert "the arm is stuck" in shown

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--trials", "0"], "--trials must be at least 1, got 0"),
            (["--fresh-seeds", "4"], "--fresh-seeds must be at least 5, got 4"),
            (["--seeds", "1001"], "there are 1000 seeds of each kind"),
            (["--workers", "0"], "--workers must be at least 1"),
            (["--seed", "-1"], "--seed must not be negative"),
            (["--steps", "0"], "budget must be at least 1 step"),
            (["--params", "search.radus"], "did you mean 'search.radius'"),
            (["--storage", "nonsense"], "expected an SQLAlchemy URL"),
            (["--storage", "foo://me:secret@there/x"], "cannot open the storage foo://me:***@there/x"),
            (["--storage", "sqlite:////nowhere/x.sqlite"], "does not answer as it should"),
        ],
    )
    def test_wrong_input_is_explained_before_anything_runs(self, arguments, message, tmp_path, capsys):
        assert main(["tune", "cartpole", "--out", str(tmp_path / "out"), *arguments]) == 2
        shown = capsys.readouterr().err
        assert message in shown
        assert "secret" not in shown
        assert not (tmp_path / "out").exists()

    def test_a_directory_that_cannot_be_written(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert main(["tune", "cartpole", "--out", str(tmp_path / "file" / "tune")]) == 2
        assert "choose a writable directory with --out" in capsys.readouterr().err

    def test_without_optuna_its_absence_is_explained(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "optuna", None)
        for name in [name for name in sys.modules if name.startswith("ddopg.cli.tune")]:
            monkeypatch.delitem(sys.modules, name)
        assert main(["tune", "cartpole", "--out", str(tmp_path)]) == 2
        assert 'pip install "ddopg[tune]"' in capsys.readouterr().err


def plan_in(tmp_path):
    return plan_of(WORLD, tmp_path)


def plan_of(world, tmp_path):
    return tuning.make_plan(parse(["tune", world, *QUICK, "--storage", address(tmp_path)]))


def test_a_source_that_dries_up_for_a_while_is_asked_again():
    """Two workers, one job at first: the second job comes only after the first has ended."""
    from ddopg.experiments.bench.jobs import make_job

    jobs = [make_job(WORLD, "random", seed, 6, 1) for seed in (1, 2)]
    ended, given = [], []

    def source():
        if len(ended) == 2 or len(given) > len(ended):
            return None
        given.append(jobs[len(given)])
        return given[-1]

    for event in workers.run_from(source, workers.use_processes(2)):
        if isinstance(event, Done):
            ended.append(event.job.seed)
    assert ended == [1, 2]


@pytest.mark.long
class TestDeadWorkers:
    """A process that dies need not be the fault of what it ran."""

    @pytest.fixture(params=["locally", pytest.param("ray", marks=pytest.mark.slow)])
    def where(self, request):
        return ["--ray", request.getfixturevalue("cluster")] if request.param == "ray" else []

    @staticmethod
    def results(out):
        with studies.open_study(address(out), f"{TRAPPED}-default", plan_of(TRAPPED, out), 0) as study:
            found = [
                (t.number, t.state, t.value, t.params, t.intermediate_values, t.user_attrs.get("failure"))
                for t in study.get_trials()
            ]
        return found, sorted((row["method"], row["seed"]) for row in bench.read_finished(out).values())

    def test_a_run_whose_worker_is_killed_is_begun_anew_and_counted_once(self, where, trap, tmp_path):
        options = ["tune", TRAPPED, *QUICK, "--trials", "3", "--workers", "1"]
        assert main([*options, "--out", str(tmp_path / "whole")]) == 0
        trap.set()
        with trap.killing():
            assert main([*options, *where, "--out", str(tmp_path / "killed")]) == 0
        whole, killed = self.results(tmp_path / "whole"), self.results(tmp_path / "killed")
        assert len(killed[0]) == 3
        assert killed == whole

    def test_a_run_that_kills_every_worker_fails_in_the_end(self):
        from ddopg.experiments.bench.jobs import make_job

        jobs = [make_job(f"tests.worlds:{name}-v0", "random", 1, 6, 1) for name in ("Dies", "Follow")]
        events = list(workers.run_all(jobs, workers.use_processes(1), again=2))
        beginnings = [e for e in events if isinstance(e, Progressed) and e.job == jobs[0]]
        assert len(beginnings) == 2
        (failed,) = [event for event in events if isinstance(event, Failed)]
        assert failed.job == jobs[0]
        assert "exit code 7" in failed.reason
        assert [event.job for event in events if isinstance(event, Done)] == jobs[1:]
