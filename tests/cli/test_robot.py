"""The file protocol: begin, ask, tell and add, by the commands themselves; wrong files; policies that agree."""

import csv
import json
from contextlib import closing
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ddopg
from ddopg import numpy_policy
from ddopg.cli.main import main
from ddopg.rollouts.playing import rollout
from ddopg.storage.robot_logs import list_columns, read_log
from tests.probes import Follow

MACHINE = ["--observations", "1", "--low", "-2", "--high", "2", "--horizon", "3"]
QUICK = ["--preset", "trajectory", "--selection.size", "8", "--search.steps", "10"]


@pytest.fixture
def run(tmp_path, capsys):
    """A run that was begun."""
    assert main(["begin", str(tmp_path / "robot"), *MACHINE, *QUICK, "--seed", "3"]) == 0
    assert "next: ddopg ask" in capsys.readouterr().out
    return tmp_path / "robot"


def ask(run, capsys, *options):
    assert main(["ask", str(run), *options]) == 0
    return [Path(line) for line in capsys.readouterr().out.splitlines()]


def roll_out(place, name="rollout.csv", scale=1.0):
    """What the machine does: it reads the policy of a proposal and leaves a log beside it."""
    about = json.loads((place / "proposal.json").read_text())
    policy = numpy_policy.load(place / "policy.safetensors")
    env, rows = Follow(), []
    observation, _ = env.reset(seed=about["seed"])
    for _ in range(about["steps_at_most"]):
        action = scale * policy(observation)
        row = [*observation.tolist(), *action.tolist()]
        observation, reward, terminated, _, _ = env.step(action)
        rows.append([*row, float(reward), int(terminated)])
    return write(place / name, about["columns_of_the_log"], rows, about["proposal"])


def write(path, names, rows, proposal=None):
    table = np.array(rows)
    arrays = {"observations": table[:, :1], "actions": table[:, 1:2], "rewards": table[:, 2]}
    ended = bool(table[-1, 3])
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([[*names, "terminated"], *rows])
    elif path.suffix == ".npz":
        np.savez(path, **arrays, terminated=ended, allow_pickle=False)
    else:
        plain = {name: array.tolist() for name, array in arrays.items()}
        path.write_text(json.dumps(plain | {"terminated": ended, "proposal": proposal}))
    return path


class TestProtocol:
    def test_a_run_by_files_is_the_run_in_python(self, run, capsys):
        told = 0
        while told < 10:
            places = ask(run, capsys)
            logs = [str(roll_out(place)) for place in places]
            assert main(["tell", str(run), *logs]) == 0
            capsys.readouterr()
            told += len(logs)
        by_files = ddopg.DDOPG.resume(run)
        config = by_files.config
        agent = ddopg.DDOPG(Follow(), config=config, seed=3, horizon=3)
        agent.learn(total_episodes=told)
        np.testing.assert_allclose(by_files.state.memory.returns, agent.state.memory.returns, rtol=1e-5)
        np.testing.assert_allclose(by_files.incumbent.theta, agent.incumbent.theta, rtol=1e-4, atol=1e-5)
        kept = ddopg.load(run / "policy.safetensors")
        np.testing.assert_array_equal(kept.theta, by_files.incumbent.theta)
        assert len((run / "progress.csv").read_text().splitlines()) == told + 1

    def test_a_proposal_says_everything_and_both_files_hold_the_same_policy(self, run, capsys):
        place, *_ = ask(run, capsys)
        about = json.loads((place / "proposal.json").read_text())
        assert about["columns_of_the_log"] == ["observation_0", "action_0", "reward"]
        assert (about["action_low"], about["action_high"], about["steps_at_most"]) == ([-2.0], [2.0], 3)
        observations = np.linspace(-3, 3, 7, dtype=np.float32)[:, None]
        model = onnxruntime.InferenceSession(place / "policy.onnx")
        (answer,) = model.run(None, {"observation": observations})
        np.testing.assert_allclose(
            answer, numpy_policy.load(place / "policy.safetensors")(observations), atol=1e-5
        )

    def test_what_waits_comes_again_until_it_is_told(self, run, capsys):
        first = ask(run, capsys)
        assert ask(run, capsys) == first
        main(["tell", str(run), str(roll_out(first[1]))])
        capsys.readouterr()
        assert ask(run, capsys) == [first[0], *first[2:]]
        more = ask(run, capsys, "--new", "-n", "2")
        assert len(more) == 2
        assert not set(more) & set(first)

    def test_late_and_in_any_order(self, run, capsys):
        places = ask(run, capsys) + ask(run, capsys, "-n", "3")
        for place in reversed(places[1:]):
            assert main(["tell", str(run), str(roll_out(place))]) == 0
        agent = ddopg.DDOPG.resume(run)
        assert [p.number for p in agent.pending] == [0]
        assert agent.state.told == len(places) - 1

    @pytest.mark.parametrize("name", ["log.csv", "log.npz", "log.json"])
    def test_every_format_says_the_same(self, name, run, capsys):
        place, *_ = ask(run, capsys)
        reference = read_log(roll_out(place), Follow_problem())
        log = read_log(roll_out(place, name), Follow_problem())
        np.testing.assert_allclose(log.observations, reference.observations)
        np.testing.assert_allclose(log.actions, reference.actions)
        np.testing.assert_allclose(log.rewards, reference.rewards)
        assert log.terminated == reference.terminated
        assert main(["tell", str(run), str(place / name), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["proposal"] == 0
        assert told["return"] == pytest.approx(float(np.sum(reference.rewards)))
        assert told["remark"] == ""

    def test_a_log_from_anywhere_needs_the_number_of_its_proposal(self, run, capsys, tmp_path):
        places = ask(run, capsys)
        log = roll_out(places[2]).rename(tmp_path / "somewhere.csv")
        assert main(["tell", str(run), str(log)]) == 2
        assert "4 are waiting (0, 1, 2, 3); give --proposal NUMBER" in capsys.readouterr().err
        assert main(["tell", str(run), str(log), "--proposal", "2"]) == 0
        other = roll_out(places[2], "other.csv", scale=0.5)
        assert main(["tell", str(run), str(other), "--proposal", "2"]) == 2
        assert "waiting: 0, 1, 3. Each proposal is told once" in capsys.readouterr().err

    def test_a_command_that_was_stopped_half_way_is_repeated_as_it_is(self, run, capsys, tmp_path):
        """What was told is recognised by its content, and the rest is taken in."""
        logs = [str(roll_out(place)) for place in ask(run, capsys)]
        assert main(["tell", str(run), *logs[:2]]) == 0
        capsys.readouterr()
        assert main(["tell", str(run), *logs]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert f"rollout 1: {logs[0]} was taken in before, bit for bit; nothing was changed" in shown[0]
        assert [line.partition(":")[0] for line in shown] == [
            *("rollout 1", "rollout 2", "rollout 3 (proposal 2)", "rollout 4 (proposal 3)")
        ]
        assert main(["tell", str(run), logs[0], "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"rollout": 1, "proposal": 0, "told_before": True}

    def test_a_log_without_a_number_that_was_told_is_not_counted_as_the_next_proposal_s(
        self, run, capsys, tmp_path
    ):
        logs = [str(roll_out(place)) for place in ask(run, capsys, "--number", "2")]
        assert main(["tell", str(run), logs[0]]) == 0
        log = tmp_path / "somewhere.csv"
        log.write_bytes(Path(logs[0]).read_bytes())
        capsys.readouterr()
        assert main(["tell", str(run), str(log)]) == 0  # proposal 1 is the only one that waits
        assert "was taken in before" in capsys.readouterr().out
        with closing(ddopg.DDOPG.resume(run)) as agent:
            assert agent.state.memory.size == 1

    def test_a_log_that_is_added_again_is_not_counted_twice(self, run, capsys, tmp_path):
        log = write(tmp_path / "old.json", [], [[0.0, 1.0, 2.0, 0], [1.0, 0.5, -1.0, 0]])
        for expected in ("rollout 1 (added)", "was taken in before"):
            assert main(["add", str(run), str(log)]) == 0
            assert expected in capsys.readouterr().out
        with closing(ddopg.DDOPG.resume(run)) as agent:
            assert agent.state.memory.size == 1

    def test_actions_that_are_not_the_policy_s_are_remarked(self, run, capsys):
        place, *_ = ask(run, capsys)
        assert main(["tell", str(run), str(roll_out(place, scale=0.5))]) == 0
        assert "the logged actions differ from the policy's by" in capsys.readouterr().out
        with closing(ddopg.DDOPG.resume(run)) as agent:
            assert "the logged actions differ from the policy's by" in agent.store.log()[-1]["remark"]

    def test_an_old_log_is_added_and_its_misfit_told(self, run, capsys, tmp_path):
        rows = [[o, 0.5 * o, 1.0, 0] for o in (0.3, -0.2, 0.9)]
        log = write(tmp_path / "pid.csv", ["observation_0", "action_0", "reward"], rows)
        assert main(["add", str(run), str(log), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["proposal"] is None
        assert told["misfit"][0] < 0.01
        log = write(tmp_path / "other.csv", ["observation_0", "action_0", "reward"], rows[:2])
        assert main(["add", str(run), str(log), "--policy", str(run)]) == 0
        assert "explains" in capsys.readouterr().out
        assert ddopg.DDOPG.resume(run).state.added == 2


def Follow_problem():
    return ddopg.DDOPG(Follow(), horizon=3, preset="trajectory").problem


class TestWrongInput:
    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            ("log.csv", "a,b\n1,2\n", r"missing are ['observation_0', 'action_0', 'reward']; expected"),
            ("log.csv", "", "missing are"),
            ("log.csv", "observation_0,action_0,reward\n1,oh,2\n", "not a log that can be read"),
            (
                "log.csv",
                "observation_0,action_0,reward\n1,nan,2\n",
                "actions must be finite, got nan at step 0",
            ),
            ("log.csv", "observation_0,action_0,reward\n" + "1,1,1\n" * 4, "between 1 and 3 steps"),
            (
                "log.csv",
                "observation_0,action_0,reward,terminated\n1,1,1,1\n1,1,1,0\n",
                "goes on after a step with terminated",
            ),
            ("log.json", "[1, 2]", "must hold one JSON object"),
            ("log.json", '{"rewards": [1]}', "missing are ['observations', 'actions']"),
            ("log.json", "{", "not a log that can be read"),
            (
                "log.json",
                '{"observations": [[1],[2]], "actions": [[1]], "rewards": [1]}',
                "one row per step, got 2, 1 and 1",
            ),
            ("log.npz", "no zip", "not a log that can be read"),
            ("log.txt", "1 2 3", "ending in .csv, .npz, .json"),
        ],
    )
    def test_a_log_that_is_none(self, name, content, complaint, run, capsys, tmp_path):
        ask(run, capsys, "-n", "1")
        (tmp_path / name).write_text(content)
        assert main(["tell", str(run), str(tmp_path / name), "--proposal", "0"]) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert name in said
        assert ddopg.DDOPG.resume(run).state.memory.size == 0

    def test_an_array_of_objects_is_not_unpickled(self, run, capsys, tmp_path):
        ask(run, capsys, "-n", "1")
        np.savez(
            tmp_path / "log.npz", observations=np.array([{"a": 1}], object), actions=[[1.0]], rewards=[1.0]
        )
        assert main(["tell", str(run), str(tmp_path / "log.npz"), "--proposal", "0"]) == 2
        assert "allow_pickle=False" in capsys.readouterr().err

    def test_a_file_or_a_run_that_is_not_there(self, run, capsys, tmp_path):
        assert main(["tell", str(run), str(tmp_path / "gone.csv")]) == 2
        assert "cannot read" in capsys.readouterr().err
        assert main(["ask", str(tmp_path / "nowhere")]) == 2
        assert "holds no run.sqlite" in capsys.readouterr().err

    def test_a_machine_that_cannot_be(self, tmp_path, capsys):
        wrong = ["--observations", "1", "--low", "2", "--high", "-2", "--horizon", "3"]
        assert main(["begin", str(tmp_path / "a"), *wrong]) == 2
        assert "one number per action, low < high" in capsys.readouterr().err
        none = ["--observations", "0", "--low", "-2", "--high", "2", "--horizon", "3"]
        assert main(["begin", str(tmp_path / "a"), *none]) == 2
        assert "--observations must be at least 1" in capsys.readouterr().err

    def test_a_second_run_in_the_same_place(self, run, capsys):
        assert main(["begin", str(run), *MACHINE]) == 2
        assert "already holds a run" in capsys.readouterr().err


def test_the_columns_are_in_the_order_of_the_numbers():
    problem = ddopg.DDOPG("Reacher-v5", preset="trajectory").problem
    assert list_columns(problem)[:2] == ["observation_0", "observation_1"]
    assert list_columns(problem)[-3:] == ["action_0", "action_1", "reward"]


def test_logged_rollouts_are_learnt_from_like_any_other(run, capsys):
    places = ask(run, capsys)
    agent = ddopg.DDOPG.resume(run)
    expected = [rollout(Follow(), agent.policy, p.theta, p.seed).rewards.sum() for p in agent.pending]
    agent.close()
    assert main(["tell", str(run), *(str(roll_out(place)) for place in places)]) == 0
    np.testing.assert_allclose(ddopg.DDOPG.resume(run).state.memory.returns, expected, rtol=1e-5)


@pytest.mark.parametrize("command", ["tell", "add"])
def test_a_command_without_logs_is_refused(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 2
    assert "give at least one log: a file ending in .csv, .npz or .json" in capsys.readouterr().err
