"""A controller of the user's own file, `--policy module:name`, wherever runs and policies are used."""

import json
import sys

import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.cli.reproduce import make_recipe
from ddopg.errors import ArtefactError, ConfigError
from ddopg.policies import import_policy
from ddopg.rollouts import Here, Locally
from ddopg.storage.reading import read_description, read_run
from tests.recorded import SIZES, contents

MODULE = """
from ddopg.controllers import Parameter, black_box, controller, returns_only

balance = controller(
    [
        Parameter("position", 1.0, bounds=(0.0, 4.0), unit="N/m"),
        Parameter("angle", -40.0, scale=10.0, unit="N/rad"),
        Parameter("turn", -9.0, scale=4.0),
    ],
    lambda p, o: [p["position"] * o[0] + p["angle"] * o[2] + p["turn"] * o[3]],
    observation_size=4,
    action_size=1,
)
other = controller([Parameter("angle", -40.0, scale=10.0)], lambda p, o: [p["angle"] * o[2]], 4, 1)
alone = returns_only([Parameter("kp", 2.0, bounds=(0.0, 8.0), unit="N/m"), Parameter("kd", 0.1, scale=0.1)])
number = 3.0
"""
QUICK = [*SIZES, "--eval-points", "1", "--quiet"]
OWN = ["--policy", "mine:balance"]


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory):
    """A file of the user's in a directory where Python looks for modules."""
    place = tmp_path_factory.mktemp("modules")
    (place / "mine.py").write_text(MODULE)
    (place / "broken.py").write_text("1 / 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        patch.delitem(sys.modules, "mine", raising=False)  # examples of docstrings have one too
        yield
    for name in ("mine", "broken"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def run(module, tmp_path_factory):
    out = tmp_path_factory.mktemp("own") / "run"
    assert main(["train", "cartpole", "--episodes", "4", "--out", str(out), *OWN, *QUICK]) == 0
    return out


def refused(capsys, *arguments):
    assert main([*map(str, arguments)]) == 2
    return capsys.readouterr().err


class TestImporting:
    def test_it_knows_its_name_and_is_the_same_each_time(self):
        policy = import_policy("mine:balance")
        assert policy.home == "mine:balance"
        assert [each.name for each in policy.parameters] == ["position", "angle", "turn"]
        assert import_policy("mine:balance") == policy  # so that nothing is compiled twice

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("nowhere:balance", "nowhere:balance: its module cannot be imported: No module named 'nowhere'"),
            ("broken:balance", "its module raises ZeroDivisionError when it is imported: division by zero"),
            ("mine:balnce", "no policy class in mine called 'balnce'; did you mean 'balance'"),
            ("mine:number", "mine:number must be a policy class, .* got float"),
            ("mine:", "is named MODULE:NAME, got 'mine:'"),
        ],
    )
    def test_what_cannot_be_imported_is_said_in_words(self, name, said):
        with pytest.raises(ConfigError, match=said):
            import_policy(name)


class TestARun:
    def test_its_first_rollout_is_the_declared_start(self, run):
        first = read_run(run).state.memory.trajectories[0]
        assert import_policy("mine:balance").describe(first.theta) == {
            "position": 1.0,
            "angle": -40.0,
            "turn": -9.0,
        }

    def test_it_remembers_the_name(self, run):
        assert read_description(run).policy_home == "mine:balance"

    def test_training_prints_the_parameters_and_evaluate_does(self, run, capsys):
        assert main(["evaluate", str(run), "--episodes", "2", *OWN]) == 0
        assert " N/rad\n" in capsys.readouterr().out
        assert main(["evaluate", str(run), "--episodes", "2", "--json", *OWN]) == 0
        assert list(json.loads(capsys.readouterr().out)["parameters"]) == ["position", "angle", "turn"]

    @pytest.mark.parametrize("words", [["evaluate", "--episodes", "1"], ["resume"], ["ask"]])
    def test_without_the_option_the_message_names_it(self, run, capsys, words):
        said = refused(capsys, words[0], run, *words[1:])
        assert "was made with the policy class mine:balance, with 3 parameters; got none" in said
        assert said.count(str(run)) == 1  # the file is named once
        assert "if you trust this one, give policy=... (--policy mine:balance on the command line)" in said

    def test_nothing_is_imported_because_a_file_says_so(self, run, capsys, monkeypatch):
        monkeypatch.delitem(sys.modules, "mine")
        refused(capsys, "evaluate", run, "--episodes", "1")
        refused(capsys, "resume", run)
        assert main(["report", str(run), "-o", str(run / "report.html")]) == 0
        assert "mine" not in sys.modules

    def test_another_class_is_refused(self, run, capsys):
        said = refused(capsys, "resume", run, "--policy", "mine:other")
        assert "with 3 parameters; got one with 1." in said

    def test_a_module_that_is_gone_is_said_in_words(self, run, capsys):
        said = refused(capsys, "evaluate", run, "--policy", "gone:balance")
        assert said.startswith("ddopg: gone:balance: its module cannot be imported")

    def test_stopped_and_resumed_it_is_the_same_run(self, run, tmp_path, capsys):
        out = tmp_path / "short"
        assert main(["train", "cartpole", "--episodes", "2", "--out", str(out), *OWN, *QUICK]) == 0
        assert main(["resume", str(out), "--episodes", "4", "--quiet", *OWN]) == 0
        assert contents(read_run(out).state) == contents(read_run(run).state)

    def test_the_report_says_the_commands_with_the_option(self, run):
        recipe = make_recipe(read_run(run))
        first, *_, last = recipe["text"].splitlines()
        assert "--policy mine:balance" in first
        assert last == f"ddopg evaluate {run} --policy mine:balance"
        assert recipe["play"].endswith("--policy mine:balance")

    def test_a_run_of_python_says_how_to_get_the_class_again(self, tmp_path):
        agent = ddopg.DDOPG(
            "cartpole",
            policy=import_policy("mine:balance"),
            run_directory=tmp_path / "run",
            preset="trajectory",
        )
        agent.learn(total_episodes=1).close()
        assert (
            "policy=ddopg.policies.import_policy('mine:balance')"
            in make_recipe(read_run(tmp_path / "run"))["text"]
        )


def test_a_policy_file_says_which_class_it_needs(run):
    with pytest.raises(ArtefactError, match="made with the policy class mine:balance"):
        ddopg.load(run / "policy.safetensors")
    own = import_policy("mine:balance")
    assert ddopg.load(run / "policy.safetensors", policy=own).network.home == "mine:balance"


def test_other_processes_import_it_too():
    def learn(parallel):
        agent = ddopg.DDOPG("cartpole", policy=import_policy("mine:balance"), seed=1, preset="trajectory")
        return agent.learn(total_episodes=3, parallel=parallel).state

    assert contents(learn(Locally(2))) == contents(learn(Here(2)))


def test_a_robot_without_python_is_tuned_by_files(tmp_path, capsys):
    run = tmp_path / "run"
    sizes = ["--observations", "4", "--low", "-10", "--high", "10", "--horizon", "2"]
    assert main(["begin", str(run), *sizes, *OWN]) == 0
    assert f"ddopg ask {run} --policy mine:balance" in capsys.readouterr().out
    assert main(["ask", str(run), "--json", *OWN]) == 0
    proposal = json.loads(capsys.readouterr().out)[0]
    assert proposal["parameters"] == {"position": 1.0, "angle": -40.0, "turn": -9.0}
    assert proposal["units"] == {"position": "N/m", "angle": "N/rad"}
    log = run / "proposals" / "0000" / "rollout.json"
    seen = [[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, 0.2, 0.0]]
    log.write_text(json.dumps({"observations": seen, "actions": [[-4.0], [-8.0]], "rewards": [1.0, 1.0]}))
    assert main(["tell", str(run), str(log), *OWN]) == 0
    shown = capsys.readouterr().out
    assert "(proposal 0): return 2 in 2 steps" in shown
    assert "differ" not in shown  # the actions are those of the controller
    foreign = tmp_path / "old.json"
    foreign.write_text(json.dumps({"observations": seen, "actions": [[-3.0], [-6.0]], "rewards": [1.0, 0.0]}))
    assert main(["add", str(run), str(foreign), "--policy-class", "mine:balance"]) == 0


class TestReturnsAlone:
    OF_RETURNS = ("--policy", "mine:alone")

    def test_a_machine_of_which_only_returns_are_known_is_tuned_from_the_command_line(self, tmp_path, capsys):
        place = tmp_path / "machine"
        assert main(["begin", str(place), "--returns-only", *self.OF_RETURNS]) == 0
        for number in range(7):
            assert main(["ask", str(place), "--number", "1", *self.OF_RETURNS]) == 0
            about = (place / "proposals" / f"{number:04d}" / "proposal.json").read_text()
            found = json.loads(about, parse_constant=pytest.fail)  # no infinities, which JSON has not
            earned = -((found["parameters"]["kp"] - 3.0) ** 2)
            words = ["--return", str(earned), "--context", "0.5"]
            assert main(["tell", str(place), *words, *self.OF_RETURNS]) == 0
        assert "rollout 1 (proposal 0): return -1 in 1 steps" in capsys.readouterr().out  # the start, 2 N/m
        assert read_description(place).problem.horizon == 1

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--returns-only"], "--returns-only needs parameters without a controller"),
            (["--returns-only", *OWN], "--returns-only needs parameters without a controller"),
            (["--returns-only", "--horizon", "3", *OWN], "--returns-only goes without --observations"),
            (["--observations", "4", "--horizon", "3"], "give --observations, --low, --high and --horizon"),
        ],
    )
    def test_what_does_not_describe_a_machine_is_refused(self, words, said, tmp_path, capsys):
        assert said in refused(capsys, "begin", tmp_path / "machine", *words)
        assert not (tmp_path / "machine").exists()

    def test_a_return_is_one_finite_number_of_a_proposal_that_waits(self, tmp_path, capsys):
        place = tmp_path / "machine"
        assert main(["begin", str(place), "--returns-only", *self.OF_RETURNS]) == 0
        assert main(["ask", str(place), "--number", "1", *self.OF_RETURNS]) == 0
        tell = ("tell", place, *self.OF_RETURNS)
        assert "--return must be a finite number, got nan" in refused(capsys, *tell, "--return", "nan")
        log = place / "rollout.csv"
        assert "either a log or --return" in refused(capsys, *tell, log, "--return", "1")
        assert "proposal 3 is not waiting" in refused(capsys, *tell, "--return", "1", "--proposal", "3")
        assert main([*map(str, tell), "--return", "1"]) == 0
        assert "0 are waiting" in refused(capsys, *tell, "--return", "1")


class TestTuning:
    TUNE = ("tune", "cartpole", "--policy", "mine:balance", "--steps", "100", "--quiet")

    def test_few_parameters_have_no_settings_to_tune_and_the_message_says_what_to_compare(
        self, capsys, tmp_path
    ):
        said = refused(capsys, *self.TUNE, "--out", tmp_path)
        assert "mine:balance has 3 parameters, which a Gaussian process searches" in said
        assert "search.method" in said

    def test_its_jobs_have_the_controller_and_the_chosen_way_of_searching(self, tmp_path):
        from itertools import islice

        from ddopg.baselines import load_learner, read_settings
        from ddopg.cli.main import parse
        from ddopg.cli.tune import make_plan
        from ddopg.envs.adapter import make

        (tmp_path / "ranges.json").write_text('{"search.method": ["auto", "gradient"]}')
        plan = make_plan(parse([*self.TUNE, "--ranges", str(tmp_path / "ranges.json")]))
        assert plan.to_plain()["policy"] == "mine:balance"
        learn = load_learner(plan.kind)
        settings = read_settings(plan.kind, {"search": {"method": "gradient"}})
        assert settings.search.method == "gradient"
        first, second = islice(learn(make("cartpole"), 0, plan.apply({"search.method": "gradient"})), 2)
        assert set(second.policy.describe(second.theta)) == {"position", "angle", "turn"}
        assert second.steps > first.steps == 0

    def test_a_ready_made_controller_is_part_of_the_settings(self):
        from ddopg.experiments.tuning.study import Plan

        plan = Plan("Swimmer-v5", "default", 100, 1, (1,), "area", {}, "oscillator")
        assert plan.kind == "ddopg"
        assert plan.apply({}).policy.controller == "oscillator"
        assert "policy" not in plan._replace(policy="").to_plain()
