"""Loggers: every value at its step, in files that can be read back; no logger costs a run anything."""

import csv
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections import defaultdict
from contextlib import closing, suppress
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from ddopg.cli.main import main, parse
from ddopg.errors import ConfigError, MissingPackageError
from ddopg.loggers import LOGGERS, CsvLogger, Logging, TensorBoardLogger, WandbLogger, loggers_for, scalars
from ddopg.loggers.base import Mark, list_hyperparameters
from ddopg.storage.exports import read_table, write_tables
from ddopg.storage.rows import LOG_COLUMNS
from ddopg.support.imports import import_object
from tests.probes import Follow, Target
from tests.recorded import SMALL, contents, everything
from tests.test_agent import agent

QUICK = [*SMALL, "--quiet"]
TABLES = ("progress.csv", "evaluation.csv")
EPISODES = 12


class Listed:
    """A logger that remembers what it was told; `fails` names the method that raises, from the `after`-th call on."""

    def __init__(self, fails="", after=1):
        self.rows, self.about, self.closed, self.fails, self.after, self.calls = [], None, 0, fails, after, 0

    def _call(self, name):
        self.calls += name == self.fails
        if name == self.fails and self.calls >= self.after:
            raise ConnectionError("the network is gone")

    def begin(self, about):
        self._call("begin")
        self.about = about
        return max((values["ddopg/rollout"] for _, values in self.rows), default=0)

    def write(self, values, step):
        self._call("write")
        self.rows.append((step, dict(values)))

    def close(self):
        self.closed += 1
        self._call("close")


def events(directory):
    """Step → name → value of all event files, in the order of writing; read by this test's own eyes."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(Path(directory).glob("events.out.tfevents.*"), key=lambda path: int(path.suffix[1:])):
        data = path.read_bytes()
        while len(data) >= 12:
            (length,) = struct.unpack("<Q", data[:8])
            if len(data) < 16 + length:
                break
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def curves(directory, timed=False):
    """Name → [(step, value)]; without those that depend on the clock."""
    found = defaultdict(list)
    for event in events(directory):
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value" and (
                timed or value.tag not in ("time/fps", "time/time_elapsed")
            ):
                found[value.tag].append((event.step, value.simple_value))
    return dict(found)


def tables(directory):
    return {name: (Path(directory) / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of the command line that nothing happened to."""
    out = tmp_path_factory.mktemp("loggers") / "whole"
    assert (
        main(["train", "cartpole", "--episodes", str(EPISODES), "--seed", "3", "--out", str(out), *QUICK])
        == 0
    )
    return out


class TestValues:
    def test_every_value_stands_at_its_exact_step_under_its_customary_name(self):
        log, infos = Listed(), []
        learner = agent(Target(length=3)).learn(
            total_episodes=9, callback=[Logging(log), lambda a, info: infos.append(info)]
        )
        assert [step for step, _ in log.rows] == list(range(3, 28, 3))
        for (step, values), info in zip(log.rows, infos, strict=True):
            returns = learner.state.memory.returns[: info.rollout]
            assert values["rollout/ep_rew_mean"] == pytest.approx(np.mean(returns))
            assert values["rollout/ep_len_mean"] == 3
            assert values["time/episodes"] == info.rollout
            assert values["time/total_timesteps"] == step == info.steps
            assert values["time/fps"] == pytest.approx(step / values["time/time_elapsed"])
            for name in ("return", "incumbent", "incumbent_error", "lower_bound", "ess", "length_scale"):
                np.testing.assert_equal(
                    values[f"ddopg/{name}"], dict(zip(LOG_COLUMNS, info, strict=True))[name]
                )
            assert values["ddopg/failures"] == 0
        assert log.about["environment"] == "Target-v0"
        assert log.about["search"]["steps"] == 40
        assert log.closed == 1

    def test_the_means_are_those_of_the_last_hundred_rollouts_also_across_calls(self):
        log = Listed()
        learner = agent(Target(length=1)).learn(total_episodes=95)
        learner.learn(total_episodes=20, callback=Logging(log))
        returns = learner.state.memory.returns
        means = [np.mean(returns[max(0, k - 100) : k]) for k in range(96, 116)]
        np.testing.assert_allclose([values["rollout/ep_rew_mean"] for _, values in log.rows], means)

    def test_evaluations_stand_at_the_rollout_they_belong_to_and_may_end_the_learning(self):
        log = Listed()
        stop = StopTrainingOnRewardThreshold(-0.5)
        evaluation = EvalCallback(Follow(), stop, n_eval_episodes=20, eval_freq=6)
        learner = agent().learn(total_episodes=100, callback=Logging(log, evaluation=evaluation))
        assert learner.state.memory.size < 100
        found = {
            step: values["eval/mean_reward"] for step, values in log.rows if "eval/mean_reward" in values
        }
        results = [returns.mean() for returns in evaluation.evaluations_results]
        assert found == dict(zip(evaluation.evaluations_timesteps, results, strict=True))
        assert log.rows[-1][1]["eval/worst_reward"] == evaluation.evaluations_results[-1].min()

    def test_spoilt_rollouts_are_counted_when_they_happen(self, tmp_path):
        env = gym.make("tests.worlds:Flaky-v0")
        log, learner = Listed(), agent(env, run_directory=tmp_path)
        learner.learn(total_episodes=5, callback=Logging(log))
        expected = [0, 0, 1, 1, 1]
        assert [values["ddopg/failures"] for _, values in log.rows] == expected
        late = Listed()
        learner.learn(total_episodes=1, callback=Logging(late))
        assert [values["ddopg/failures"] for _, values in late.rows] == [*expected, 1]

    def test_only_finite_numbers_can_be_drawn(self):
        assert scalars({"a": 1, "b": float("nan"), "c": float("-inf"), "d": "text", "e": 0.5}) == {
            "a": 1.0,
            "e": 0.5,
        }

    def test_settings_have_the_names_of_the_options(self):
        about = {
            "seed": 3,
            "environment": None,
            "search": {"steps": 5},
            "surrogate": {"length_scale": [0.5, 1]},
        }
        assert list_hyperparameters(about) == {
            "seed": 3,
            "search.steps": 5,
            "surrogate.length_scale": "[0.5, 1]",
        }

    def test_a_wrong_evaluation_is_explained(self):
        with pytest.raises(ConfigError, match="evaluation must be an EvalCallback, got 3"):
            Logging(evaluation=3)


class TestNoLoggerCostsTheRunAnything:
    def test_learning_is_the_same_to_the_last_bit(self, tmp_path):
        loggers = [CsvLogger(tmp_path), TensorBoardLogger(tmp_path)]
        logged = agent().learn(total_episodes=15, callback=Logging(*loggers))
        assert contents(logged.state) == contents(agent().learn(total_episodes=15).state)

    @pytest.mark.parametrize(("method", "after", "rows"), [("begin", 1, 0), ("write", 4, 3), ("close", 1, 8)])
    def test_one_that_fails_is_warned_of_once_and_the_others_go_on(self, method, after, rows, caplog):
        failing, sound = Listed(method, after), Listed()
        learner = agent().learn(total_episodes=8, callback=Logging(failing, sound))
        assert contents(learner.state) == contents(agent().learn(total_episodes=8).state)
        (record,) = caplog.records
        assert "Listed failed: the network is gone. The run continues without it" in record.getMessage()
        assert len(failing.rows) == rows
        assert len(sound.rows) == 8
        assert sound.closed == 1

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
    def test_a_full_disk_ends_the_table_and_a_resumed_run_completes_it(self, tmp_path, caplog):
        out = tmp_path / "run"
        learner = agent(run_directory=out)

        def fill(agent, info):
            if info.rollout == 4:
                (out / "progress.csv").rename(out / "kept")
                (out / "progress.csv").symlink_to("/dev/full")

        learner.learn(total_episodes=8, callback=[Logging(CsvLogger(out)), fill])
        learner.close()
        assert "No space left on device" in caplog.text
        (out / "kept").rename(out / "progress.csv")
        assert read_table(out / "progress.csv")["rollout"] == [1, 2, 3, 4]
        resumed = ddopg.DDOPG.resume(out, env=Follow())
        resumed.learn(total_episodes=1, callback=Logging(CsvLogger(out)))
        assert read_table(out / "progress.csv")["rollout"] == list(range(1, 10))

    def test_a_place_that_cannot_be_written_is_no_reason_to_stop(self, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        loggers = CsvLogger(tmp_path / "file" / "x"), TensorBoardLogger(tmp_path / "file" / "x")
        assert agent().learn(total_episodes=6, callback=Logging(*loggers)).state.memory.size == 6
        assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [
            "ddopg: CsvLogger",
            "ddopg: TensorBoardLogger",
        ]


class TestTables:
    def test_every_row_is_there_when_its_rollout_is_over(self, tmp_path):
        seen = []

        def look(agent, info):
            seen.append(read_table(tmp_path / "progress.csv")["rollout"][-1])

        agent().learn(total_episodes=7, callback=[Logging(CsvLogger(tmp_path)), look])
        assert seen == list(range(1, 8))

    def test_they_are_what_is_made_of_the_store_in_the_end(self, tmp_path, monkeypatch):
        out, live = tmp_path / "run", {}
        monkeypatch.setattr(
            "ddopg.cli.train.leave_files",
            lambda session: live.update(tables(session.agent.store.directory)),
        )
        main(["train", "cartpole", "--episodes", "9", "--out", str(out), *QUICK])
        monkeypatch.undo()
        for name in TABLES:
            (out / name).unlink()
        main(["resume", str(out), "--quiet"])
        assert tables(out) == live
        assert read_table(out / "evaluation.csv")["rollout"] == [1, 3, 5, 7, 9]

    @pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.93, 0.999])
    def test_rows_that_a_kill_tore_or_prevented_are_made_up_for(self, share, whole, tmp_path):
        out = tmp_path / "run"
        shutil.copytree(whole, out)
        progress, evaluation = tables(whole).values()
        (out / "progress.csv").write_bytes(progress[: int(share * len(progress))])
        (out / "evaluation.csv").write_bytes(evaluation + b"61,1")  # it is written before the rollout's row
        learner = ddopg.DDOPG.resume(out)
        learner.learn(total_episodes=1, callback=Logging(CsvLogger(out)))
        learner.close()
        assert (out / "progress.csv").read_bytes().startswith(progress)
        assert (out / "evaluation.csv").read_bytes() == evaluation
        assert read_table(out / "progress.csv")["rollout"] == list(range(1, EPISODES + 2))

    def test_a_table_of_other_columns_is_written_anew(self, whole, tmp_path):
        out = tmp_path / "run"
        shutil.copytree(whole, out)
        (out / "progress.csv").write_bytes(b"rollout,steps\r\n1,5\r\n")
        learner = ddopg.DDOPG.resume(out)
        learner.learn(total_episodes=1, callback=Logging(CsvLogger(out)))
        learner.close()
        assert (out / "progress.csv").read_bytes().startswith(tables(whole)["progress.csv"])

    def test_what_an_older_version_did_not_log_is_not_a_number(self, tmp_path):
        older = {name: 1 for name in LOG_COLUMNS if name != "length_scale"}
        write_tables(tmp_path, [older], [])
        table = read_table(tmp_path / "progress.csv")
        assert np.isnan(table["length_scale"]).all()
        assert table["ess"] == [1]

    def test_trajectories_from_elsewhere_cost_no_steps_and_are_rows_all_the_same(self, tmp_path):
        learner, log = agent(run_directory=tmp_path / "run"), Listed()
        observations, actions = np.linspace(-1, 1, 3)[:, None], -np.linspace(-1, 1, 3)[:, None]
        given = ddopg.make_trajectory(np.zeros(2), observations, actions, np.zeros(3), horizon=3)
        learner.add(given)
        learner.add(given)
        learner.learn(
            total_episodes=6, callback=Logging(log, CsvLogger(tmp_path), TensorBoardLogger(tmp_path))
        )
        learner.close()
        assert [step for step, _ in log.rows] == [0, 0, 3, 6, 9, 12, 15, 18]
        assert read_table(tmp_path / "progress.csv")["rollout"] == list(range(1, 9))
        assert [step for step, _ in curves(tmp_path)["ddopg/return"]] == [step for step, _ in log.rows]
        live = (tmp_path / "progress.csv").read_bytes()
        assert CsvLogger(tmp_path).begin({}) == TensorBoardLogger(tmp_path).begin({}) == 8
        assert (tmp_path / "progress.csv").read_bytes() == live

    def test_commas_in_a_remark_stay_in_their_column(self, tmp_path):
        logger = CsvLogger(tmp_path)
        logger.begin({})
        logger.write({"ddopg/rollout": 1, "ddopg/remark": 'all, "equal"'}, 3)
        logger.write({"ddopg/rollout": 2}, 6)
        assert CsvLogger(tmp_path).begin({}) == 2
        with (tmp_path / "progress.csv").open(newline="") as file:
            assert [row["remark"] for row in csv.DictReader(file)] == ['all, "equal"', "nan"]


class TestTensorBoard:
    def test_the_curves_are_those_of_the_run(self, whole):
        found, progress = curves(whole, timed=True), read_table(whole / "progress.csv")
        for name in ("return", "incumbent", "length"):
            steps, values = zip(*found[f"ddopg/{name}"], strict=True)
            assert list(steps) == progress["steps"]
            np.testing.assert_allclose(values, progress[name], rtol=1e-6)
        evaluation = read_table(whole / "evaluation.csv")
        steps, values = zip(*found["eval/mean_reward"], strict=True)
        assert list(steps) == evaluation["steps"]
        np.testing.assert_allclose(values, evaluation["mean"], rtol=1e-6)
        assert len(found["time/fps"]) == EPISODES
        assert len(found["ddopg/ess"]) == EPISODES - 7, "what is not a number is left out"

    def test_the_settings_are_hyperparameters(self, whole):
        from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

        contents = {
            value.tag: HParamsPluginData.FromString(value.metadata.plugin_data.content)
            for event in events(whole)
            for value in event.summary.value
            if value.metadata.plugin_data.plugin_name == "hparams"
        }
        session = contents["_hparams_/session_start_info"].session_start_info
        assert session.hparams["search.steps"].number_value == 5
        assert session.hparams["environment"].string_value == "cartpole"
        metrics = contents["_hparams_/experiment"].experiment.metric_infos
        assert "eval/mean_reward" in [metric.name.tag for metric in metrics]

    @pytest.mark.parametrize("cut", [1, 300, 5000])
    def test_a_run_in_pieces_is_logged_like_one_in_one_piece(self, cut, whole, tmp_path):
        out = tmp_path / "run"
        main(["train", "cartpole", "--episodes", "8", "--seed", "3", "--out", str(out), *QUICK])
        (file,) = out.glob("events.*")
        file.write_bytes(file.read_bytes()[:-cut])  # a kill
        main(["resume", str(out), "--episodes", "10", "--quiet"])
        main(["resume", str(out), "--episodes", str(EPISODES), "--quiet"])
        assert len(list(out.glob("events.*"))) == 3
        one, pieces = curves(whole), curves(out)
        names = [name for name in one if not name.startswith("eval/")]  # other budgets have other marks
        assert {name: pieces[name] for name in names} == {name: one[name] for name in names}
        assert pieces.keys() == one.keys()

    def test_a_log_that_is_begun_late_gets_everything(self, whole, tmp_path):
        out = tmp_path / "run"
        main(
            [
                "train",
                "cartpole",
                "--episodes",
                str(EPISODES),
                "--seed",
                "3",
                "--out",
                str(out),
                "--log",
                "csv",
                *QUICK,
            ]
        )
        assert not list(out.glob("events.*"))
        main(["resume", str(out), "--log", "tensorboard", "--quiet"])
        assert curves(out) == curves(whole)
        main(["resume", str(out), "--log", "tensorboard", "--quiet"])
        assert len(list(out.glob("events.*"))) == 1, "a log that is complete stays as it is"

    def test_events_of_other_programs_do_not_count(self, tmp_path):
        logger = TensorBoardLogger(tmp_path)
        assert logger.begin({}) == 0
        logger.write({"train/loss": 1.0}, 10**6)
        logger.close()
        assert TensorBoardLogger(tmp_path).begin({}) == 0


class TestCommandLine:
    def test_an_evaluation_that_a_kill_prevented_is_logged_too(self, whole, tmp_path):
        out = tmp_path / "run"
        shutil.copytree(whole, out)
        with closing(sqlite3.connect(out / "run.sqlite")) as connection, connection:
            connection.execute(f"DELETE FROM evaluation WHERE rollout = {EPISODES}")
        (file,) = out.glob("events.*")
        last = events(out)[-1].ByteSize() + 16
        file.write_bytes(file.read_bytes()[:-last])
        assert len(curves(out)["eval/mean_reward"]) == 4
        assert main(["resume", str(out), "--quiet"]) == 0
        assert curves(out) == curves(whole)
        assert everything(out) == everything(whole)

    def test_what_is_not_installed_is_said_before_anything_begins(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for module in ("tensorboardX", "wandb", "mlflow"):
            monkeypatch.setitem(sys.modules, module, None)
        for name in ("tensorboard", "wandb", "mlflow"):
            assert main(["train", "cartpole", "--steps", "50", "--log", "csv", name]) == 2
            shown = capsys.readouterr().err
            assert f'which is not installed; get it with pip install "ddopg[{name}]"' in shown
        assert os.listdir(tmp_path) == []
        with pytest.raises(MissingPackageError, match="needs wandb"):
            WandbLogger()

    def test_a_resumed_run_that_cannot_log_as_it_did_says_so_and_may_log_otherwise(
        self, whole, tmp_path, monkeypatch, capsys
    ):
        out = tmp_path / "run"
        options = ["--seed", "3", "--out", str(out), "--log", "tensorboard", *QUICK]
        main(["train", "cartpole", "--episodes", "9", *options])
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
        assert main(["resume", str(out), "--episodes", "10", "--quiet"]) == 2
        assert "need tensorboardX, which is not installed" in capsys.readouterr().err
        assert main(["resume", str(out), "--episodes", "10", "--log", "csv", "--quiet"]) == 0
        assert read_table(out / "progress.csv")["rollout"][-1] == 10

    def test_without_tensorboard_nobody_asks_for_it(self, tmp_path, monkeypatch):
        assert [type(logger).__name__ for logger in loggers_for((), tmp_path, "p")] == [
            "CsvLogger",
            "TensorBoardLogger",
        ]
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
        assert [type(logger).__name__ for logger in loggers_for((), tmp_path, "p")] == ["CsvLogger"]

    def test_a_name_that_is_no_logger_is_refused(self, capsys):
        assert parse(["train", "cartpole", "--log", "csv", "wandb", "--project", "p"]).log == ("csv", "wandb")
        with pytest.raises(SystemExit):
            parse(["train", "cartpole", "--log", "wandbb"])
        assert "wandb" in capsys.readouterr().err


class TestMarks:
    def test_they_are_kept_and_a_damaged_one_is_none(self, tmp_path):
        Mark(tmp_path / "m.json").keep(id="a", steps=3)
        mark = Mark(tmp_path / "m.json")
        assert mark.read() == {"id": "a", "steps": 3}
        mark.keep(steps=6)
        assert Mark(tmp_path / "m.json").read() == {"id": "a", "steps": 6}
        for text in ("{", "[1]"):
            (tmp_path / "m.json").write_text(text)
            assert Mark(tmp_path / "m.json").read() == {}
        nowhere = Mark(None)
        nowhere.keep(id="b")
        assert nowhere.read() == {"id": "b"}


class TestNames:
    def test_the_command_line_takes_exactly_the_names_of_the_table(self, capsys):
        for name in LOGGERS:
            assert parse(["train", "cartpole", "--log", name]).log == (name,)
        with pytest.raises(SystemExit):
            parse(["train", "cartpole", "--log", "paper"])
        refused = "".join(capsys.readouterr())
        assert all(name in refused for name in LOGGERS)

    def test_naming_the_loggers_imports_nothing_heavy(self):
        code = (
            "import sys, ddopg.loggers\n"
            "assert set(ddopg.loggers.__all__) <= {*dir(ddopg.loggers), *ddopg.loggers._HOMES}\n"
            "assert not {'jax', 'gymnasium', 'tensorboardX', 'wandb', 'mlflow', 'sqlite3'} & set(sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_every_public_name_is_there_and_no_other(self):
        assert all(getattr(ddopg.loggers, name) is not None for name in ddopg.loggers.__all__)
        with pytest.raises(AttributeError, match="no attribute 'Loging'"):
            _ = ddopg.loggers.Loging

    @pytest.mark.parametrize("name", LOGGERS)
    def test_every_name_leads_to_a_logger_or_to_the_package_that_it_needs(self, name, tmp_path):
        with suppress(MissingPackageError):
            logger = import_object(LOGGERS[name])(tmp_path, "project")
            assert all(callable(getattr(logger, method)) for method in ("begin", "write", "close"))
