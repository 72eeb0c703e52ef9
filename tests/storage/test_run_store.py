"""The run store: what is told is safe, comes back to the last bit, and a resumed run is the uninterrupted one."""

import json
import math
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.core import algorithm
from ddopg.core.types import Evaluation
from ddopg.errors import ArtefactError, ConfigError, SpaceError, StoreError
from ddopg.rollouts.playing import rollout
from ddopg.storage import database as tables
from ddopg.storage.backup import write_backup
from ddopg.storage.database import STORE
from ddopg.storage.reading import open_run, read_run
from ddopg.storage.run_store import RunStore
from ddopg.support.records import change as changed
from tests.probes import Follow, Target
from tests.recorded import contents, everything, quick, rows

ENDLESS = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)"
BOX = gym.spaces.Box(-2, 2, (1,), np.float32)


def learnt(directory, episodes, config=None, seed=3):
    agent = ddopg.DDOPG(Follow(), config=config or quick(), seed=seed, run_directory=directory)
    agent.learn(total_episodes=episodes)
    agent.close()
    return agent


def resumed(directory, episodes):
    agent = ddopg.DDOPG.resume(directory, env=Follow())
    agent.learn(total_episodes=episodes)
    agent.close()
    return agent


class TestResume:
    @pytest.mark.parametrize(
        "config",
        [
            quick("trajectory"),
            quick("paper"),
            quick("released"),
            quick("released", optimiser="adam"),
            quick("released", optimiser="sghmc", sghmc_temperature=0.1),
            quick("released", optimiser="momentum", fisher_damping=0.1),
            changed(quick(), {"critic.updates": 1.0, "critic.hidden": (8,)}),
        ],
        ids=["trajectory", "paper", "released", "adam", "sghmc", "natural momentum", "critic"],
    )
    def test_a_run_in_pieces_is_the_run_in_one_piece_bit_for_bit(self, config, tmp_path):
        whole = learnt(tmp_path / "whole", 22, config)
        learnt(tmp_path / "pieces", 3, config)  # within the initial design, with proposals waiting
        resumed(tmp_path / "pieces", 8)
        last = resumed(tmp_path / "pieces", 11)
        assert contents(last.state) == contents(whole.state)
        assert everything(tmp_path / "pieces") == everything(tmp_path / "whole")

    def test_a_state_that_does_not_fit_the_rollouts_is_refused(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        agent.ask(2)
        state, (first, second) = agent.state, agent.state.pending
        for change in (
            {"steps": state.steps + 1},
            {"asked": state.asked + 1},
            {"pending": (first,)},
            {"pending": (first, first)},
            {"pending": (first, second._replace(number=state.asked))},
        ):
            agent.store.save_state(state._replace(**change))
            with pytest.raises(ArtefactError, match="the state does not fit the rollouts"):
                read_run(tmp_path / "run")
        agent.store.save_state(state)
        assert contents(read_run(tmp_path / "run").state) == contents(state)

    def test_zeros_of_both_signs_come_back(self, tmp_path):
        learnt(tmp_path / "run", 3)
        agent = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        agent.store.add_evaluation(Evaluation(3, 30, -0.0, 0.0, -0.0, 4))
        for value in (0.0, -0.0):
            agent.store.save_state(agent.state._replace(return_bound=value))
        agent.close()
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        assert math.copysign(1, again.state.return_bound) == -1
        again.close()

    def test_what_was_asked_and_not_told_waits_in_another_process_too(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        asked = agent.ask(3)
        agent.close()
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        assert [(p.number, p.seed, p.purpose) for p in again.pending] == [
            (p.number, p.seed, p.purpose) for p in asked
        ]
        for found, lost in zip(again.pending, asked, strict=True):
            np.testing.assert_array_equal(found.theta, lost.theta)
        assert again.ask()[0].number == 12

    def test_a_robot_s_run_goes_on_without_an_environment(self, tmp_path):
        def one_more(agent):
            (proposal, *_) = agent.pending or agent.ask()
            trajectory = rollout(Follow(), agent.policy, proposal.theta, proposal.seed)
            agent.tell(proposal, trajectory)

        boxes = {"observation_space": BOX, "action_space": BOX, "horizon": 3}
        agent = ddopg.DDOPG(**boxes, config=quick(), seed=3, run_directory=tmp_path / "robot")
        for _ in range(9):
            one_more(agent)
        agent.close()
        agent = ddopg.DDOPG.resume(tmp_path / "robot")
        one_more(agent)
        assert contents(agent.state) == contents(learnt(tmp_path / "env", 10).state)
        with pytest.raises(ConfigError, match="without one, use ask"):
            agent.learn(1)

    def test_every_stored_rollout_replays_from_its_seed(self, tmp_path):
        state = learnt(tmp_path / "run", 10).state
        found = rows(tmp_path / "run", "SELECT number, seed, steps, theta, rewards, return FROM rollout")
        assert [row[0] for row in found] == list(range(1, 11))
        for (_, seed, steps, theta, rewards, value), kept in zip(
            found, state.memory.trajectories, strict=True
        ):
            again = rollout(
                Follow(), ddopg.DDOPG(Follow(), config=quick()).policy, np.frombuffer(theta, "<f4"), seed
            )
            assert steps == again.length
            assert np.frombuffer(rewards, "<f8").tolist() == again.rewards[:steps].tolist()
            assert value == again.rewards.sum() == kept.rewards.sum()

    def test_an_environment_that_poses_another_problem_is_refused(self, tmp_path):
        learnt(tmp_path / "run", 3)
        with pytest.raises(SpaceError, match="give the environment that it was begun with"):
            ddopg.DDOPG.resume(tmp_path / "run", env="Pendulum-v1")
        resumed(tmp_path / "run", 1)  # the refusal has let go of the lock

    def test_a_file_may_not_say_which_module_to_import(self, tmp_path):
        agent = ddopg.DDOPG("tests.worlds:Follow-v0", config=quick(), run_directory=tmp_path / "run")
        agent.close()
        with pytest.raises(SpaceError, match="may not say which module to import"):
            ddopg.DDOPG.resume(tmp_path / "run")
        assert ddopg.DDOPG.resume(tmp_path / "run", env="tests.worlds:Follow-v0").problem.horizon == 3

    def test_a_seed_of_any_size_comes_back(self, tmp_path):
        learnt(tmp_path / "run", 2, seed=2**80 + 1)
        assert resumed(tmp_path / "run", 1).state.seed == 2**80 + 1


class TestTell:
    def test_it_is_safe_when_tell_returns(self, tmp_path):
        """A copy of the files, taken while the run is open, holds every rollout told so far."""
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        for told in range(1, 10):
            agent.learn(total_episodes=1)
            copy = tmp_path / f"copy{told}"
            copy.mkdir()
            for name in (STORE, f"{STORE}-wal"):
                (copy / name).write_bytes((tmp_path / "run" / name).read_bytes())
            assert len(everything(copy)["rollouts"]) == told

    def test_one_tell_is_one_transaction(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        statements = []
        agent.store._connection.set_trace_callback(statements.append)
        agent.learn(total_episodes=1)
        statements = [s for s in statements if s != "PRAGMA wal_checkpoint(PASSIVE)"]
        assert [s for s in statements if s in ("BEGIN IMMEDIATE", "COMMIT")] == ["BEGIN IMMEDIATE", "COMMIT"]
        assert statements[0] == "BEGIN IMMEDIATE"
        assert statements[-1] == "COMMIT"
        assert any("INTO rollout" in s for s in statements)

    def test_a_tell_that_cannot_be_stored_changes_nothing_and_can_be_told_again(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), seed=3, run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        pages = agent.store._connection.execute("PRAGMA page_count").fetchone()[0]
        agent.store._connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        # A few pages more take some rollouts before the file would have to grow further.
        with pytest.raises(StoreError, match=r"cannot write .* disk is full; everything before this is safe"):
            agent.learn(total_episodes=50)
        told = agent.state.memory.size
        assert 9 < told < 59
        assert rows(tmp_path / "run", "SELECT count(*) FROM rollout") == [(told,)]
        before, agent.env.reset = contents(agent.state), None  # the rollout in hand is kept, no other is made
        with pytest.raises(StoreError, match="disk is full"):
            agent.learn(total_episodes=1)
        assert contents(agent.state) == before
        agent.store._connection.execute("PRAGMA max_page_count = 1000000")
        agent.learn(total_episodes=1)
        assert agent._in_hand == {}
        agent.env = Follow()
        agent.learn(total_episodes=1)
        agent.close()
        learnt(tmp_path / "whole", told + 2)
        assert everything(tmp_path / "run") == everything(tmp_path / "whole")

    def test_the_rows_are_readable_by_any_client(self, tmp_path):
        learnt(tmp_path / "run", 9)
        query = "SELECT info ->> 'steps', info ->> 'outcome', length(rewards) FROM rollout ORDER BY number"
        found = rows(tmp_path / "run", query)
        assert [steps for steps, _, _ in found] == list(range(3, 28, 3))
        assert found[0][1:] == ("initial_design", 24)
        described = dict(rows(tmp_path / "run", "SELECT name, value FROM run"))
        assert json.loads(described["config"])["search"]["steps"] == 10
        assert json.loads(described["problem"])["horizon"] == 3
        assert rows(tmp_path / "run", "PRAGMA journal_mode") == [("wal",)]

    def test_what_fails_in_the_middle_of_a_transaction_leaves_no_part_of_it(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        (proposal,) = agent.ask()
        trajectory = rollout(Follow(), agent.policy, proposal.theta, proposal.seed)
        before, connection = contents(agent.state), agent.store._connection
        connection.execute(
            "CREATE TEMP TRIGGER no BEFORE UPDATE ON state BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        with pytest.raises(StoreError, match=r"cannot write .* no; everything before this is safe"):
            agent.tell(proposal, trajectory)
        assert rows(tmp_path / "run", "SELECT count(*) FROM rollout") == [(9,)]
        assert contents(agent.state) == before
        connection.execute("DROP TRIGGER no")
        agent.tell(proposal, trajectory)
        assert rows(tmp_path / "run", "SELECT count(*) FROM rollout") == [(10,)]

    def test_an_endless_query_is_ended_and_nothing_of_it_is_kept(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        connection = agent.store._connection
        connection.execute(
            f"CREATE TEMP TRIGGER no AFTER INSERT ON rollout BEGIN SELECT count(*) FROM {ENDLESS}; END"
        )
        with pytest.raises(StoreError, match=r"a query on .* took more than [\d,]+ steps and was ended"):
            agent.learn(total_episodes=1)
        assert agent.state.memory.size == 9
        assert rows(tmp_path / "run", "SELECT count(*) FROM rollout") == [(9,)]
        connection.execute("DROP TRIGGER no")
        assert agent.learn(total_episodes=1).state.memory.size == 10

    def test_an_endless_query_of_a_reader_is_ended(self, tmp_path):
        learnt(tmp_path / "run", 2)
        with (
            pytest.raises(ArtefactError, match=r"took more than [\d,]+ steps and was ended"),
            open_run(tmp_path / "run") as connection,
        ):
            connection.execute(f"SELECT count(*) FROM {ENDLESS}").fetchall()

    def test_signals_get_through_an_endless_query(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        agent.store._connection.execute(
            f"CREATE TEMP TRIGGER no AFTER INSERT ON rollout BEGIN SELECT count(*) FROM {ENDLESS}; END"
        )
        agent.store._connection.set_trace_callback(
            lambda sql: signal.raise_signal(signal.SIGINT) if sql == "BEGIN IMMEDIATE" else None
        )
        with pytest.raises(KeyboardInterrupt):
            agent.learn(total_episodes=1)
        agent.close()
        assert len(everything(tmp_path / "run")["rollouts"]) == 9

    def test_a_state_that_could_not_be_read_again_is_not_written(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        for wrong in ({"centre": agent.state.centre.astype(np.float64)}, {"opt_state": (object(),)}):
            with pytest.raises(TypeError, match="which a run store cannot hold"):
                agent.store.save_state(agent.state._replace(**wrong))
        agent.close()
        assert contents(resumed(tmp_path / "run", 1).state)

    def test_the_log_comes_back_as_it_was_reported(self, tmp_path):
        infos = []
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9, callback=lambda agent, info: infos.append(info))
        reported = [{name.rstrip("_"): repr(v) for name, v in info._asdict().items()} for info in infos]
        assert [{name: repr(v) for name, v in row.items()} for row in agent.store.log()] == reported
        assert reported[0]["predicted"] == "nan"

    def test_after_close_nothing_can_be_told(self, tmp_path):
        agent = learnt(tmp_path / "run", 9)
        with pytest.raises(
            StoreError, match=r"cannot write .* closed database\.; everything before this is safe"
        ):
            agent.learn(total_episodes=1)
        assert agent.state.memory.size == 9

    def test_a_commit_waits_for_the_disk(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        assert agent.store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        agent.close()
        agent = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        assert agent.store._connection.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_a_run_is_recorded_from_its_beginning(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick())
        agent.learn(total_episodes=1)
        with pytest.raises(ConfigError, match="recorded from its beginning"):
            agent.record(tmp_path / "run")

    def test_an_interruption_between_disk_and_learner_cannot_tear_them_apart(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        (proposal,) = agent.ask()
        trajectory = rollout(Follow(), agent.policy, proposal.theta, proposal.seed)
        turn = algorithm.tell(agent.state, proposal.pure, trajectory, agent.policy, agent.config, None)
        before = agent.store._tip
        agent.store.tell(proposal.pure, turn.state, turn.info)  # the learner does not hear of it
        for tip in (agent.store._tip, before):  # nor, the second time, the store itself
            agent.store._tip = tip
            with pytest.raises(StoreError, match="is not where this learner left it"):
                agent.ask()
        with pytest.raises(StoreError):
            agent.tell(proposal, trajectory)
        agent.close()
        assert len(everything(tmp_path / "run")["rollouts"]) == 10


class TestCopies:
    """The file alone, copied from a run that goes on, is not empty; `ddopg backup` copies all of it."""

    @staticmethod
    def copy_alone(run, place):
        place.mkdir()
        shutil.copy(run / STORE, place / STORE)
        return place

    def test_the_file_alone_holds_the_rollouts_up_to_a_recent_checkpoint(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        assert read_run(self.copy_alone(tmp_path / "run", tmp_path / "0")).state.memory.size == 0
        missing = []
        for told in range(1, 34):
            agent.learn(total_episodes=1)
            copy = self.copy_alone(tmp_path / "run", tmp_path / str(told))
            missing.append(told - len(everything(copy)["rollouts"]))
        assert min(missing) >= 0
        assert max(missing) < 10

    def test_after_a_second_the_next_rollout_is_in_the_file_at_once(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        for told in (1, 2):
            time.sleep(1.01)  # as on a robot
            agent.learn(total_episodes=1)
            copy = self.copy_alone(tmp_path / "run", tmp_path / str(told))
            assert len(everything(copy)["rollouts"]) == told

    @pytest.mark.parametrize("content", [None, b"", "header"])
    def test_an_empty_file_beside_a_log_is_not_begun_again(self, content, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=3)
        copy, log = tmp_path / "copy", f"{STORE}-wal"
        copy.mkdir()
        if content == "header":
            with closing(sqlite3.connect(copy / STORE)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
            (copy / log).write_bytes(
                b"\0" * 32 + (tmp_path / "run" / log).read_bytes()
            )  # none that SQLite reads
        else:
            if content is not None:
                (copy / STORE).write_bytes(content)
            shutil.copy(tmp_path / "run" / log, copy / log)
        before = (copy / log).read_bytes()
        with pytest.raises(
            StoreError, match=rf"is empty, and {log} beside it has [\d,]+ bytes.*choose another dir"
        ):
            learnt(copy, 1)
        if content is not None:
            for opened in (RunStore.resume, read_run):
                with pytest.raises(
                    ArtefactError, match=rf"holds no run. But {log} beside it has .* Restore that file"
                ):
                    opened(copy)
        assert (copy / log).read_bytes() == before
        begin = ["begin", str(copy), "--observations", "1", "--low", "-1", "--high", "1", "--horizon", "3"]
        assert (
            main(begin) == main(["train", "cartpole", "--out", str(copy), "--episodes", "1", "--quiet"]) == 2
        )
        assert (copy / log).read_bytes() == before

    def test_an_empty_file_without_its_log_names_the_log(self, tmp_path):
        with closing(sqlite3.connect(tmp_path / STORE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        for opened in (RunStore.resume, read_run):
            with pytest.raises(
                ArtefactError, match=f"its rollouts are in {STORE}-wal .* ddopg backup DIR FILE"
            ):
                opened(tmp_path)

    def test_a_backup_of_a_run_that_goes_on_is_a_run(self, tmp_path, capsys):
        agent = ddopg.DDOPG(Follow(), config=quick(), seed=3, run_directory=tmp_path / "run")
        for told in (9, 16):
            agent.learn(total_episodes=told - agent.state.memory.size)
            target = tmp_path / "copies" / f"{told}[b]" / STORE
            assert main(["backup", str(tmp_path / "run"), str(target)]) == 0
            assert capsys.readouterr().out == f"backup: {target} ({told} rollouts)\n"
            assert [path.name for path in target.parent.iterdir()] == [STORE]
        agent.learn(total_episodes=6)
        agent.close()
        resumed(target.parent, 6)
        assert everything(target.parent) == everything(tmp_path / "run")

    def test_a_backup_replaces_nothing_and_says_what_it_cannot_do(self, tmp_path, capsys):
        learnt(tmp_path / "run", 2)
        (tmp_path / "file").write_text("mine")
        before = (tmp_path / "run" / STORE).read_bytes()
        for target, message in (
            ("file", "is there already"),
            (f"run/{STORE}", "is there already"),
            ("run", "is there already"),
            ("file/below", "cannot write .* the run is untouched"),
            (f"{'x' * 300}", "cannot write .* the run is untouched"),
        ):
            with pytest.raises(StoreError, match=message):
                write_backup(tmp_path / "run", tmp_path / target)
        assert (tmp_path / "run" / STORE).read_bytes() == before
        assert (tmp_path / "file").read_text() == "mine"
        assert main(["backup", str(tmp_path), str(tmp_path / "new")]) == 2
        assert f"holds no {STORE}" in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run"]


class TestOneWriter:
    def test_a_second_process_is_refused(self, tmp_path):
        agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
        code = f"import ddopg; ddopg.DDOPG.resume({str(tmp_path / 'run')!r})"
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "another process is at work on" in second.stderr
        agent.close()
        third = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another process" not in third.stderr

    def test_a_second_learner_in_the_same_process_is_refused_until_the_first_is_gone(self, tmp_path):
        agent = learnt(tmp_path / "run", 2)
        open_again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        with pytest.raises(StoreError, match="another process is at work"):
            ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        del open_again
        assert resumed(tmp_path / "run", 1).state.memory.size == agent.state.memory.size + 1

    def test_a_directory_with_a_run_is_not_begun_again(self, tmp_path):
        learnt(tmp_path / "run", 2)
        with pytest.raises(StoreError, match=r"already holds a run; continue it with DDOPG.resume"):
            learnt(tmp_path / "run", 2)
        assert resumed(tmp_path / "run", 1).state.memory.size == 3

    def test_a_run_killed_at_its_first_instant_can_be_begun_again(self, tmp_path):
        (tmp_path / "run").mkdir()
        path = tmp_path / "run" / STORE
        path.touch()
        learnt(tmp_path / "run", 2)
        for leftover in tmp_path.glob("run/*"):
            leftover.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        with pytest.raises(ArtefactError, match=r"is empty: it holds no run\. .* begin it again"):
            RunStore.resume(tmp_path / "run")
        assert learnt(tmp_path / "run", 2).state.memory.size == 2


class TestFilesFromElsewhere:
    """Foreign, changed and damaged files get an ArtefactError that says what is wrong."""

    @pytest.fixture
    def run(self, tmp_path):
        learnt(tmp_path / "run", 9)
        return tmp_path / "run"

    @staticmethod
    def change(run, *statements):
        with closing(sqlite3.connect(run / STORE, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("PRAGMA application_id = 7", "not a run of ddopg: expected the application id .* got 7"),
            ("PRAGMA user_version = 1", "schema 1: an unreleased version of ddopg wrote it"),
            ("PRAGMA user_version = 99", "schema 99, this version of ddopg reads 2"),
            ("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM rollout; END", "other tables"),
            ("CREATE VIEW v AS SELECT * FROM run", "other tables"),
            ("CREATE INDEX state_index ON state(checksum)", "other tables, indices"),
            ("DROP TABLE failure", "other tables"),
            ("UPDATE run SET value = '\"9\"' WHERE name = 'version'", "description .* does not fit its checksum"),
            ("DELETE FROM run", "damaged"),
            ("UPDATE rollout SET seed = seed + 1 WHERE number = 4", "rollout 4 does not fit its checksum"),
            ("UPDATE rollout SET rewards = zeroblob(24) WHERE number = 4", "rollout 4 does not fit its checksum"),
            ("UPDATE rollout SET info = '{}' WHERE number = 4", "rollout 4 does not fit its checksum"),
            ("DELETE FROM rollout WHERE number = 1", "rollout 2 does not fit its checksum"),
            ("DELETE FROM rollout WHERE number = 9", "the state does not fit its checksum"),
            ("UPDATE state SET content = zeroblob(99)", "the state does not fit its checksum"),
            ("UPDATE state SET checksum = zeroblob(32)", "the state does not fit its checksum"),
            ("INSERT INTO state SELECT * FROM state", "there are 2 states, expected one"),
            ("DELETE FROM state", "there are 0 states, expected one"),
        ],
    )  # fmt: skip
    def test_a_changed_file_is_refused(self, run, statement, message):
        self.change(run, "PRAGMA foreign_keys = OFF", statement)
        with pytest.raises(ArtefactError, match=message):
            RunStore.resume(run)

    @pytest.mark.parametrize("action", ["DELETE FROM rollout WHERE number > 9", f"SELECT * FROM {ENDLESS}"])
    def test_a_trigger_that_has_the_name_of_a_table_is_refused(self, run, action):
        self.change(
            run,
            "DROP TABLE failure",
            f"CREATE TRIGGER failure AFTER INSERT ON rollout BEGIN {action}; END",
            f"CREATE TABLE failure ({tables.TABLES['failure']})",
        )
        for opened in (RunStore.resume, read_run):
            with pytest.raises(ArtefactError, match="other tables, indices, triggers or views"):
                opened(run)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", r"is empty: it holds no run\. .* begin it again"),
            (b"hello", "expected an SQLite file"),
        ],
    )
    def test_a_file_of_another_kind_is_refused(self, tmp_path, content, message):
        (tmp_path / STORE).write_bytes(content)
        with pytest.raises(ArtefactError, match=message):
            RunStore.resume(tmp_path)

    def test_a_truncated_file_is_refused(self, run):
        whole = (run / STORE).read_bytes()
        for length in (100, 4096, len(whole) // 2, len(whole) - 4096):
            (run / STORE).write_bytes(whole[:length])
            with pytest.raises(ArtefactError):
                RunStore.resume(run)

    def test_a_directory_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(ArtefactError, match=f"holds no {STORE}"):
            ddopg.DDOPG.resume(tmp_path)
        (tmp_path / STORE).mkdir()
        with pytest.raises(ArtefactError, match="cannot read"):
            ddopg.DDOPG.resume(tmp_path)


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write into .*choose a writable directory"):
        ddopg.DDOPG(Target(), config=quick(), run_directory=tmp_path / "file" / "run")
    assert tables.is_empty(tmp_path / "file" / "run")
