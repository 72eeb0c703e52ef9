"""The command line as a user meets it: real processes for speed and exit codes, in-process for the rest."""

import importlib
import json
import operator
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import typing
from contextlib import closing

import gymnasium as gym
import matplotlib.image
import numpy as np
import pytest

from ddopg.agent import DDOPG
from ddopg.cli import train
from ddopg.cli.main import COMMANDS, Command, main, parse
from ddopg.cli.policy import measure_spread
from ddopg.config import preset
from ddopg.errors import DisplayError, MissingPackageError
from ddopg.rollouts import video
from ddopg.storage.exports import read_table
from ddopg.storage.policy_file import load
from ddopg.support.renamed import RENAMED
from tests.box2d import mark_box2d
from tests.probes import Target
from tests.recorded import SIZES, everything, quick, rows

QUICK = [*SIZES, "--eval-points", "2", "--quiet"]


def ddopg(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "ddopg", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def processor_seconds():
    """Of all child processes so far: unlike the time on the wall, it does not count what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "cartpole"
    assert main(["train", "cartpole", "--episodes", "8", "--seed", "3", "--out", str(out), *QUICK]) == 0
    return out


class Broken(Target):
    """Returns NaN from its `at`-th episode on, and cannot be drawn."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, at, render_mode=None):
        super().__init__()
        self.at, self.episodes, self.render_mode = at, 0, render_mode

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        observation, info = super().reset(seed=seed, options=options)
        return (observation if self.episodes < self.at else observation * np.nan), info

    def render(self):
        raise RuntimeError("no paint")


class Blank(Target):
    """Draws nothing."""

    def render(self):
        return None


def count_evaluations(out):
    table = out / "evaluation.csv"
    return len(table.read_text().splitlines()) - 1 if table.exists() else 0


@pytest.fixture
def broken():
    def register(at):
        gym.register(
            "Broken-v0",
            lambda **options: Broken(at, **options),
            max_episode_steps=3,
            disable_env_checker=True,
        )
        return "Broken-v0"

    yield register
    gym.registry.pop("Broken-v0")


class TestHelp:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["--help"],
            *([command.__name__.lower(), "--help"] for command in COMMANDS),
        ],
    )
    def test_help_answers_without_importing_jax_and_at_once(self, arguments):
        code = f"""
import sys
from ddopg.cli.main import main
try:
    main({arguments!r})
finally:
    heavy = {{"jax", "optax", "mujoco", "Box2D", "matplotlib", "torch", "ray"}} & set(sys.modules)
    assert not heavy, heavy
"""
        best = float("inf")
        for _ in range(3):
            used = processor_seconds()
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            best = min(best, processor_seconds() - used)
            assert done.returncode == 0, done.stderr
            assert "usage: ddopg" in done.stdout
            if best < 1.0:
                return
        assert best < 1.0

    def test_no_arguments_show_the_help(self):
        done = ddopg()
        assert "train" in done.stdout
        assert done.returncode == 0

    def test_the_version(self, capsys):
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.startswith("ddopg 0.")


@pytest.mark.long
class TestLoading:
    """A command loads what it needs, and nothing of what the others need."""

    def test_every_command_has_a_function(self):
        assert set(COMMANDS) == set(typing.get_args(Command))
        for command, home in COMMANDS.items():
            module, _, name = home.partition(":")
            function = getattr(importlib.import_module(f"ddopg.cli.{module}"), name)
            (given,) = typing.get_type_hints(function).keys() - {"return"}
            assert typing.get_type_hints(function)[given] is command

    def test_a_training_run_loads_no_experiments_and_draws_only_at_its_end(self, tmp_path):
        code = f"""
import sys
from ddopg.agent import DDOPG
from ddopg.cli.main import main

def loaded():
    names = {{name.removeprefix("ddopg.").split(".")[0] for name in sys.modules}}
    return names & {{"baselines", "experiments", "matplotlib", "minari", "optuna", "ray", "report"}}

def learn(agent, *arguments, **options):
    print("begin", *loaded())
    return learn_really(agent, *arguments, **options)

learn_really, DDOPG.learn = DDOPG.learn, learn
assert main(["train", "cartpole", "--episodes", "6", "--out", {str(tmp_path / "run")!r}, *{QUICK}]) == 0
print("end", *loaded())
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert lines[0] == "begin"
        assert lines[-1] == "end matplotlib"


class TestRenamedSettings:
    @pytest.mark.parametrize(("old", "new"), RENAMED.items())
    @pytest.mark.parametrize("command", [["train", "cartpole"], ["begin", "somewhere"]])
    def test_an_old_name_is_answered_with_the_new_one(self, command, old, new, capsys):
        now = new.replace("_", "-")
        for option in (f"--{old}", f"--{old.replace('_', '-')}"):
            for words in ([option, "1"], [f"{option}=1"]):
                assert main([*command, *words]) == 2
                assert capsys.readouterr().err == f"ddopg: {option} is now called --{now}\n"

    @pytest.mark.parametrize(
        ("option", "now"),
        [
            ("--search.no-carry", "--search.no-keep-opt-state"),
            ("--surrogate.no-baseline", "--surrogate.estimator"),  # no switch any more
        ],
    )
    def test_a_switch_that_is_turned_off_stays_one_if_it_is_still_a_switch(self, option, now, capsys):
        assert main(["train", "cartpole", option]) == 2
        assert capsys.readouterr().err == f"ddopg: {option} is now called {now}\n"

    def test_a_value_that_looks_like_an_old_name_is_only_a_value(self):
        assert str(parse(["train", "cartpole", "--out", "search.jump"]).out) == "search.jump"


class TestParse:
    def test_a_renamed_setting_exists_by_its_new_name_alone(self):
        config = preset("trajectory")
        for old, new in RENAMED.items():
            operator.attrgetter(new)(config)
            with pytest.raises(AttributeError):
                operator.attrgetter(old)(config)

    def test_the_preset_gives_the_defaults_and_options_change_them(self):
        command = parse(["train", "cartpole", "--preset", "paper", "--surrogate.delta", "0.3"])
        assert command.config.surrogate.delta == 0.3
        assert command.config.search == preset("paper").search
        assert parse(["train", "swimmer", "--preset=released"]).config == preset("released")
        assert parse(["train", "swimmer"]).config == preset("default")

    def test_tuples_are_lists_of_values(self):
        command = parse(
            ["train", "swimmer", "--policy.hidden", "8", "4", "--surrogate.length-scale", "0.1", "0.2"]
        )
        assert command.config.policy.hidden == (8, 4)
        assert command.config.surrogate.length_scale == (0.1, 0.2)


class TestTrain:
    @pytest.mark.parametrize(
        ("word", "steps"), [("1e4", 10_000), ("2_500", 2500), ("7", 7), (str(2**53 + 1), 2**53 + 1)]
    )
    def test_a_number_of_steps_may_be_written_as_people_write_it(self, word, steps):
        assert parse(["train", "cartpole", "--steps", word]).steps == steps
        assert parse(["train", "cartpole", "--episodes", word]).episodes == steps

    @pytest.mark.parametrize("word", ["1.5", "inf", "nan", "many"])
    def test_a_number_of_steps_is_whole(self, word, capsys):
        with pytest.raises(SystemExit):
            parse(["train", "cartpole", "--steps", word])
        said = capsys.readouterr().err
        assert f"Error parsing --steps: {word} is no whole number" in said
        assert "Constructor" not in said

    def test_what_was_reached_is_said_in_whole_lines(self, tmp_path, capsys):
        options = ["--episodes", "1", "--eval-episodes", "1", "--preset", "trajectory", "--quiet"]
        assert main(["train", "cartpole", "--out", str(tmp_path / "run"), *options]) == 0
        _, reached, learnt, *_ = capsys.readouterr().out.splitlines()
        assert reached.startswith("incumbent: mean return")
        assert reached.endswith("over 100 fresh episodes")
        assert re.fullmatch(r"learnt from 1 rollout, \d+ environment steps", learnt)

    def test_returns_that_are_all_alike_have_no_deviation(self):
        assert measure_spread(np.full(20, -21.4442)) == 0.0
        assert measure_spread(np.array([-1.0, -3.0])) == 1.0

    def test_two_runs_of_the_same_second_have_a_directory_each(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(train.time, "strftime", lambda form: "20260101-000000")
        for _ in range(3):
            assert main(["train", "cartpole", "--episodes", "1", "--eval-episodes", "1", "--quiet"]) == 0
        names = ["cartpole-20260101-000000-seed0" + end for end in ("", "-2", "-3")]
        assert sorted(os.listdir("runs")) == names

    def test_it_leaves_everything_in_its_directory(self, run):
        derived = {"evaluation.csv", "learning_curve.png", "policy.safetensors", "progress.csv"}
        events = {path.name for path in run.glob("events.out.tfevents.*")}
        assert len(events) == 1
        assert set(os.listdir(run)) == derived | events | {"run.sqlite", "run.lock"}
        progress, evaluation = read_table(run / "progress.csv"), read_table(run / "evaluation.csv")
        assert progress["rollout"] == list(range(1, 9))
        assert np.sum(progress["length"]) == progress["steps"][-1]
        assert evaluation["rollout"] == [1, 4, 8]
        assert evaluation["episodes"] == [2, 2, 2]
        described = {
            name: json.loads(text)
            for name, text in rows(run, "SELECT name, value FROM run WHERE name != 'checksum'")
        }
        assert described["command"]["seed"] == 3
        assert described["config"]["search"]["steps"] == 5
        assert described["environment"] == "cartpole"
        note = load(run / "policy.safetensors").note
        assert note["evaluation"]["mean"] == evaluation["mean"][-1]
        assert note["evaluation"]["rollout"] == 8
        picture = matplotlib.image.imread(run / "learning_curve.png")
        assert picture.shape[0] > 400
        assert picture.std() > 0.01

    def test_the_end_says_what_was_reached_and_where_it_is(self, tmp_path, capsys):
        out = tmp_path / "run"
        assert main(["train", "cartpole", "--steps", "60", "--out", str(out), *QUICK]) == 0
        shown = capsys.readouterr().out
        assert "mean return" in shown
        assert "environment steps" in shown
        assert f"{out}/policy.safetensors" in shown
        assert f"{out}/learning_curve.png" in shown

    def test_the_same_seed_gives_the_same_files(self, run, tmp_path):
        again = tmp_path / "again"
        main(["train", "cartpole", "--episodes", "8", "--seed", "3", "--out", str(again), *QUICK])
        for name in ("progress.csv", "evaluation.csv", "policy.safetensors"):
            assert (again / name).read_bytes() == (run / name).read_bytes()

    @pytest.mark.parametrize("name", mark_box2d(["mountaincar", "swimmer", "Pendulum-v1"]))
    def test_it_learns_on_the_other_tasks_and_on_any_gymnasium_id(self, name, tmp_path):
        options = [*QUICK, "--horizon", "40"]
        assert main(["train", name, "--episodes", "6", "--out", str(tmp_path / "r"), *options]) == 0
        assert len(read_table(tmp_path / "r" / "progress.csv")["return"]) == 6


class TestEvaluate:
    def test_a_directory_and_its_file_give_the_same_json(self, run, capsys):
        shown = []
        for source in (run, run / "policy.safetensors"):
            assert main(["evaluate", str(source), "--episodes", "5", "--json"]) == 0
            shown.append(json.loads(capsys.readouterr().out))
        assert shown[0] == shown[1]
        assert shown[0]["environment"] == "ddopg/Cartpole-v0"
        assert len(shown[0]["returns"]) == 5
        assert shown[0]["mean"] == pytest.approx(np.mean(shown[0]["returns"]))

    def test_another_seed_takes_other_episodes(self, run, capsys):
        means = []
        for seed in ("0", "1"):
            main(["evaluate", str(run), "--episodes", "5", "--seed", seed, "--json"])
            means.append(json.loads(capsys.readouterr().out)["mean"])
        assert means[0] != means[1]

    def test_for_people_it_is_a_sentence(self, run, capsys):
        for episodes, said in (("5", "over 5 fresh episodes\n"), ("1", "over 1 fresh episode\n")):
            assert main(["evaluate", str(run), "--episodes", episodes]) == 0
            assert said in capsys.readouterr().out


class TestElsewhere:
    """A policy on another environment of the same shape."""

    @pytest.fixture
    def twin(self):
        gym.register("Twin-v0", gym.spec("ddopg/Cartpole-v0").entry_point, max_episode_steps=100)
        yield "Twin-v0"
        gym.registry.pop("Twin-v0")

    def test_an_evaluation_says_that_the_policy_was_learnt_elsewhere(self, run, twin, capsys):
        assert main(["evaluate", str(run), "--env", twin, "--episodes", "2", "--json"]) == 0
        shown = capsys.readouterr()
        assert "learnt on ddopg/Cartpole-v0, and runs on Twin-v0 now" in shown.err
        assert json.loads(shown.out)["environment"] == "Twin-v0"

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
    def test_a_video_says_so_too(self, run, twin, capsys, tmp_path):
        assert main(["play", str(run), "--env", twin, "--video", str(tmp_path / "film.gif")]) == 0
        assert "learnt on ddopg/Cartpole-v0, and runs on Twin-v0 now" in capsys.readouterr().err

    def test_another_action_range_is_said(self, run, capsys, tmp_path):
        trained = load(run / "policy.safetensors")
        narrow = trained._replace(
            environment=None, problem=trained.problem._replace(low=(-1.0,), high=(1.0,))
        )
        path = str(narrow.save(tmp_path / "p.safetensors"))
        assert main(["evaluate", path, "--env", "cartpole", "--episodes", "2"]) == 0
        assert (
            "learnt with actions from (-1.0,) to (1.0,), and runs with (-10.0,) to (10.0,) now"
            in capsys.readouterr().err
        )

    @pytest.mark.parametrize(
        "name",
        [[], ["--env", "cartpole"], ["--env", "ddopg/Cartpole-v0"], ["--env", "ddopg:ddopg/Cartpole-v0"]],
    )
    def test_its_own_environment_by_any_name_needs_no_word(self, run, name, capsys):
        assert main(["evaluate", str(run), *name, "--episodes", "2"]) == 0
        assert capsys.readouterr().err == ""


class TestPlay:
    # imageio starts ffmpeg by a fork and leaves its pipes to the collector; neither is ours to close.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
    @pytest.mark.parametrize("suffix", ["mp4", "gif"])
    def test_a_video_shows_the_episode(self, run, tmp_path, suffix):
        import imageio.v3 as imageio

        path = tmp_path / f"episode.{suffix}"
        assert main(["play", str(run), "--video", str(path)]) == 0
        pictures = imageio.imread(path, index=None if suffix == "mp4" else ...)
        assert len(pictures) >= 3
        assert pictures.shape[1:3] == (400, 600)
        assert np.abs(pictures[0].astype(int) - pictures[-1]).max() > 50

    def test_without_a_display_it_says_what_to_do(self, run, monkeypatch, capsys):
        monkeypatch.setenv("MPLBACKEND", "agg")
        assert main(["play", str(run)]) == 2
        assert "--video" in capsys.readouterr().err

    def test_a_display_that_is_missing_and_a_picture_that_is_none_are_errors_of_the_display(
        self, monkeypatch
    ):
        monkeypatch.setenv("MPLBACKEND", "agg")
        with pytest.raises(DisplayError, match="write a video instead"):
            video.show([], 30)
        blank = Blank()
        policy = DDOPG(blank, horizon=3, preset="trajectory").policy
        with pytest.raises(DisplayError, match="must return an image array, got NoneType"):
            next(video.draw_episode(blank, policy, np.zeros(policy.size), 0, 3))

    def test_an_mp4_without_imageio_says_what_to_install_and_that_a_gif_needs_nothing(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setitem(sys.modules, "imageio", None)
        message = r"a \.gif needs no other package.*imageio.*pip install \"ddopg\[video\]\""
        with pytest.raises(MissingPackageError, match=message):
            video.write(tmp_path / "film.mp4", [], 30)


class TestWrongInput:
    """Each gets a sentence on stderr and exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["train", "nowhere:Plant-v0"], "its module cannot be imported"),
            (["train", "cartpol"], "no environment called 'cartpol'; did you mean 'cartpole'"),
            (["train", "CartPole-v1"], "action space must be a Box"),
            (
                ["train", "cartpole", "--steps", "5", "--episodes", "5"],
                "either in steps (total_timesteps; --steps) or in episodes",
            ),
            (["train", "cartpole", "--steps", "0"], "budget must be at least 1, got 0"),
            (["train", "cartpole", "--seed", "-4"], "seed must be an integer and not negative, got -4"),
            (["train", "cartpole", "--surrogate.delta", "3"], "delta must lie in (0, 1), got 3.0"),
            (["train", "cartpole", "--horizon", "0"], "at least one step, got 0"),
            (["evaluate", "nowhere.safetensors"], "cannot read nowhere.safetensors"),
            (["play", "nowhere.safetensors", "--video", "x.mp4"], "cannot read"),
        ],
    )
    def test_it_is_explained(self, arguments, message, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == 2
        shown = capsys.readouterr().err
        assert message in shown
        assert "Traceback" not in shown
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["train", "cartpole", "--stepz", "5"], "--steps"),
            (["train", "cartpole", "--preset", "relased"], "released"),
            (["trian", "cartpole"], "train"),
            (["train"], "ENV"),
            (["resume", "somewhere", "--episode", "5"], "--episodes"),
            (["bench", "--method", "random"], "--methods"),
            (["ask", "somewhere", "--numbers", "2"], "--number"),
        ],
    )
    def test_an_unknown_option_is_answered_with_the_nearest(self, arguments, message):
        done = ddopg(*arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_directory_that_cannot_be_written(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert main(["train", "cartpole", "--steps", "50", "--out", str(tmp_path / "file" / "run")]) == 2
        assert "choose a writable directory with run_directory=... (--out)" in capsys.readouterr().err

    def test_a_directory_that_holds_a_run_is_not_overwritten(self, run, capsys):
        before = everything(run)
        assert main(["train", "cartpole", "--steps", "50", "--out", str(run), *QUICK]) == 2
        assert f"(on the command line: ddopg resume {run})" in capsys.readouterr().err
        assert everything(run) == before

    def test_a_policy_for_another_environment(self, run, capsys):
        assert main(["evaluate", str(run), "--env", "swimmer"]) == 2
        assert "maps 4 observations to 1 actions, swimmer has 13 and 2" in capsys.readouterr().err

    def test_a_video_of_another_kind(self, run, capsys):
        assert main(["play", str(run), "--video", "film.avi"]) == 2
        assert "something.mp4 or something.gif, got 'film.avi'" in capsys.readouterr().err

    def test_an_environment_that_breaks_in_the_middle_costs_nothing_that_was_learnt(
        self, tmp_path, capsys, broken
    ):
        out = tmp_path / "run"
        assert main(["train", broken(at=11), "--episodes", "20", "--out", str(out), *QUICK]) == 2
        assert "expected finite numbers; repair the environment" in capsys.readouterr().err
        assert (
            len(read_table(out / "progress.csv")["return"]) == 8
        )  # two of ten episodes are the first evaluation
        assert (out / "policy.safetensors").exists()
        assert (out / "learning_curve.png").exists()

    def test_an_environment_that_cannot_draw_itself(self, tmp_path, capsys, broken):
        out = tmp_path / "run"
        assert main(["train", broken(at=99), "--episodes", "6", "--out", str(out), *QUICK]) == 0
        assert main(["play", str(out), "--video", str(tmp_path / "film.gif")]) == 2
        assert "cannot draw itself here: no paint; install what it asks for" in capsys.readouterr().err


class TestResume:
    def test_a_run_in_pieces_is_the_run_in_one_piece(self, run, tmp_path):
        pieces = tmp_path / "pieces"
        options = ["--seed", "3", "--out", str(pieces), *QUICK]
        assert main(["train", "cartpole", "--episodes", "8", *options]) == 0
        assert main(["resume", str(pieces), "--episodes", "11", "--quiet"]) == 0
        assert main(["resume", str(pieces), "--episodes", "16", "--quiet"]) == 0
        assert (
            main(
                [
                    "train",
                    "cartpole",
                    "--episodes",
                    "16",
                    "--eval-points",
                    "4",
                    *options[:2],
                    "--out",
                    str(tmp_path / "whole"),
                    *QUICK[:-3],
                    "--quiet",
                ]
            )
            == 0
        )
        assert everything(pieces) == everything(tmp_path / "whole")
        for name in ("progress.csv", "evaluation.csv", "policy.safetensors"):
            assert (pieces / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    def test_the_display_counts_from_the_beginning_and_knows_the_last_evaluation(self, run, tmp_path, capsys):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        known = read_table(copy / "evaluation.csv")
        assert main(["resume", str(copy), "--episodes", "9"]) == 0
        shown = capsys.readouterr().err
        assert shown.startswith("9/9 episodes · rollout 9 · ")
        assert f" at {known['steps'][-1]:,.0f} steps · estimate " in shown

    def test_an_evaluation_that_a_kill_prevented_is_made_up_for(self, run, tmp_path):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        with closing(sqlite3.connect(copy / "run.sqlite")) as connection, connection:
            connection.execute("DELETE FROM evaluation WHERE rollout = 8")
        assert main(["resume", str(copy), "--quiet"]) == 0
        assert everything(copy) == everything(run)

    def test_half_written_files_of_a_killed_process_are_removed(self, run, tmp_path):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        (copy / ".policy.safetensors.123.draft").write_bytes(b"half")
        assert main(["resume", str(copy), "--quiet"]) == 0
        assert not list(copy.glob(".*"))

    def test_a_finished_run_stays_as_it_is(self, run, capsys):
        before = everything(run)
        assert main(["resume", str(run), "--quiet"]) == 0
        assert "learnt from 8 rollouts" in capsys.readouterr().out
        assert everything(run) == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere"], "nowhere holds no run.sqlite; give the directory of a run"),
            (["{run}", "--steps", "5", "--episodes", "5"], "either in steps"),
            (["{run}", "--steps", "0"], "budget must be at least 1, got 0"),
            (["{run}", "--env", "swimmer"], "give the environment that it was begun with"),
        ],
    )
    def test_wrong_input_is_explained(self, run, arguments, message, capsys):
        assert main(["resume", *(a.format(run=run) for a in arguments)]) == 2
        assert message in capsys.readouterr().err
        assert main(["resume", str(run), "--quiet"]) == 0

    def test_a_run_begun_in_python_goes_on_with_a_budget(self, tmp_path, capsys):
        agent = DDOPG("cartpole", config=quick(), seed=3, run_directory=tmp_path / "run")
        agent.learn(total_episodes=3)
        agent.close()
        assert main(["resume", str(tmp_path / "run"), "--episodes", "9", "--quiet"]) == 0
        assert "learnt from 9 rollouts" in capsys.readouterr().out

    def test_a_run_without_an_environment_is_not_one_to_train_on(self, tmp_path, capsys):
        box = gym.spaces.Box(-1, 1, (1,))
        robot = DDOPG(
            observation_space=box,
            action_space=box,
            horizon=3,
            run_directory=tmp_path / "run",
            preset="trajectory",
        )
        robot.close()
        assert main(["resume", str(tmp_path / "run"), "--episodes", "9", "--quiet"]) == 2
        assert "needs an environment; without one, use ask() and tell()" in capsys.readouterr().err


@pytest.mark.long
class TestInterruptions:
    """A real process gets a real signal while it trains."""

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_it_saves_says_how_to_go_on_and_exits_with_the_customary_code(self, number, code, tmp_path):
        out = tmp_path / "run"
        # A suite that runs in the background may ignore SIGINT, and its children with it.
        script = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        script += "runpy.run_module('ddopg', run_name='__main__')"
        command = [sys.executable, "-c", script, "train", "tests.worlds:Slow-v0", "--episodes", "60", *QUICK]
        command += ["--out", out]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        # One evaluation is after the first rollout, one half-way.
        while count_evaluations(out) < 2 and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
        assert child.returncode == code, errors
        assert f"continue with\n       ddopg resume {out} --env tests.worlds:Slow-v0\n" in errors
        assert "Traceback" not in errors
        told = len(everything(out)["rollouts"])
        assert 30 <= told < 60
        assert f"ddopg: {told} rollouts are stored in {out}" in errors
        assert len(read_table(out / "progress.csv")["return"]) == told
        assert main(["evaluate", str(out), "--env", "tests.worlds:Slow-v0", "--episodes", "2"]) == 0
        assert main(["resume", str(out), "--env", "tests.worlds:Slow-v0", "--quiet"]) == 0
        assert len(everything(out)["rollouts"]) == 60


def test_a_policy_of_an_environment_in_a_module_says_which_option_to_add(tmp_path, capsys):
    out, name = str(tmp_path / "run"), "tests.worlds:Follow-v0"
    options = ["--episodes", "3", "--out", out, "--no-check", "--eval-points", "0", "--quiet"]
    assert main(["train", name, *options]) == 0
    capsys.readouterr()
    assert main(["evaluate", out]) == 2
    assert f"trained on {name}; a file may not say which module" in (shown := capsys.readouterr().err)
    assert shown.endswith(f"add --env {name}\n")
    assert main(["evaluate", out, "--env", name, "--episodes", "2"]) == 0
