"""What a page is made of: runs read without disturbing them, groups, the surrogate's distances, commands."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ddopg
from ddopg import report
from ddopg.cli import reproduce
from ddopg.cli.main import main, parse
from ddopg.cli.reproduce import make_recipe
from ddopg.core import estimators
from ddopg.core.algorithm import build_surrogate_data
from ddopg.core.policy_building import build_policy
from ddopg.core.surrogate import ESTIMATORS, weighted
from ddopg.errors import ArtefactError
from ddopg.experiments.bench.stats import iqm
from ddopg.policies import linear
from ddopg.report import controller, groups, history, numbers, section
from ddopg.report.page import build_page, embed_json
from ddopg.storage.reading import read_run
from ddopg.support.records import change
from tests.recorded import SIZES, everything, quick, rows
from tests.report.conftest import BALANCE, data_of, train, with_estimator

EVIL = "</script><img src=x onerror=alert(1)>"


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class TestReading:
    def test_nothing_changes_in_the_directory_of_a_finished_run(self, directories):
        before = files_of(directories.paper)
        read_run(directories.paper)
        assert files_of(directories.paper) == before

    def test_a_run_that_goes_on_is_read_as_it_stands_and_goes_on(self, tmp_path):
        agent = ddopg.DDOPG("cartpole", config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        assert read_run(tmp_path / "run").state.memory.size == 9
        agent.learn(total_episodes=1)
        agent.close()
        assert read_run(tmp_path / "run").state.memory.size == 10

    def test_the_log_that_a_killed_run_leaves_is_read_and_left_alone(self, tmp_path):
        agent = ddopg.DDOPG("cartpole", config=quick(), run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        killed = shutil.copytree(tmp_path / "run", tmp_path / "killed")
        agent.close()
        before = files_of(killed)
        assert len(before["run.sqlite-wal"]) > 0
        assert read_run(killed).state.memory.size == 9
        after = files_of(killed)
        assert all(after[name] == before[name] for name in ("run.sqlite", "run.sqlite-wal"))

    def test_what_is_read_is_what_resume_would_find(self, directories):
        reading, stored = read_run(directories.seeds[0]), everything(directories.seeds[0])
        assert reading.evaluations == stored["evaluations"]
        assert [repr(row["return"]) for row in reading.log] == [row["return"] for row in stored["log"]]
        assert reading.purposes == [row[2] for row in stored["rollouts"]]


class TestGroups:
    def test_seeds_of_one_configuration_are_one_group(self, readings):
        assert groups.group_runs(readings) == [[0, 1, 2], [3], [5], [4]]

    def test_groups_of_one_task_stand_side_by_side(self, readings):
        order = [readings[i] for i in (0, 4, 3)]  # cartpole, robot, cartpole of the paper
        assert groups.group_runs(order) == [[0], [2], [1]]

    def test_the_middle_of_three_seeds_is_their_interquartile_mean(self, readings):
        found = groups.summarise_group(readings, [0, 1, 2])
        together = found["together"]
        last = [
            [row.mean for row in readings[i].evaluations if row.steps <= together["at"]][-1] for i in range(3)
        ]
        assert together["iqm_last"] == pytest.approx(iqm(np.array(last)), rel=1e-6)
        assert together["worst_run"] == int(np.argmin(last))
        low, high = together["interval"]
        assert min(last) - 1e-3 <= low <= together["iqm_last"] <= high <= max(last) + 1e-3

    def test_at_a_mark_counts_what_was_known_by_then(self, readings):
        evaluations = readings[0].evaluations
        marks = np.array([evaluations[0].steps, evaluations[1].steps - 1, evaluations[1].steps])
        values = [value for _, value in groups.read_at_marks(evaluations, marks)]
        assert values == [evaluations[0].mean, evaluations[0].mean, evaluations[1].mean]

    def test_solved_is_a_seed_that_ever_reached_the_threshold(self, readings):
        together = groups.summarise_group(readings, [0, 1, 2])["together"]
        first = [
            next((e.steps for e in readings[i].evaluations if e.mean >= 950), math.inf) for i in range(3)
        ]
        assert together["solved_runs"] == sum(map(math.isfinite, first))
        assert together["median_steps"] == (None if math.isinf(sorted(first)[1]) else sorted(first)[1])

    def test_seeds_are_put_together_to_the_end_of_the_shortest_or_of_the_budget(self):
        assert groups.find_common_end([4015, 4047, 4001], horizon=100) == 4047
        assert groups.find_common_end([4015, 4047, 2000], horizon=100) == 2000

    def test_two_seeds_get_no_interval(self, readings):
        assert groups.summarise_group(readings, [0, 1])["together"] is None

    def test_a_seed_that_is_there_twice_is_named(self, readings):
        assert groups.summarise_group([readings[0], readings[0]], [0, 1])["twice"] == [1]

    def test_what_differs_from_the_nearest_preset_is_said(self, readings):
        preset, changes = groups.find_nearest_preset(readings[0].about.config)
        assert (preset, changes) == ("trajectory", {"selection.size": [50, 12], "search.steps": [15, 10]})
        assert groups.find_nearest_preset(readings[3].about.config)[0] == "paper"


@pytest.mark.parametrize("which", [0, 3, 4], ids=["trajectory", "paper", "robot"])
class TestSection:
    def sample(self, readings, which):
        reading = readings[which]
        policy = build_policy(reading.about.problem, reading.about.config)
        return reading, policy, section.choose_sample(reading, policy)

    def test_the_distances_are_the_runs_own_likelihoods(self, readings, which):
        _, policy, sample = self.sample(readings, which)
        n = len(sample.rows)
        found = section.compute_distances(policy, np.asarray(sample.data.thetas)[:n], sample)
        own = np.asarray(sample.data.log_p)[:n, :n, -1]
        assert np.allclose(-found / (2 * sample.sigma**2), own, rtol=1e-3, atol=1e-3 * np.abs(own).max())

    def test_the_runs_sigma_gives_the_ess_that_the_run_asks_for(self, readings, which):
        reading, policy, sample = self.sample(readings, which)
        share = reading.about.config.surrogate.ess_share
        if not share:
            assert sample.sigma == pytest.approx(math.exp(1.5))
            return
        at = -section.compute_distances(policy, reading.state.centre[None], sample)[0] / (2 * sample.sigma**2)
        between = section.compute_distances(
            policy, np.asarray(sample.data.thetas)[: len(sample.rows)], sample
        )
        log_q = estimators.log_mixture(-between / (2 * sample.sigma**2))
        ess = estimators.effective_sample_size(at - log_q)
        assert ess == pytest.approx(max(share * len(sample.rows), 1), rel=0.05)

    def test_every_line_goes_through_the_incumbent_and_its_marks(self, readings, which):
        reading, _, sample = self.sample(readings, which)
        here, found = reading.state.incumbent.theta, section.choose_lines(reading, sample)
        assert {"main", "random"} <= {line.name for line in found}
        for line in found:
            points = section.place_policies(line, here, sample.param_scale)
            assert np.allclose(points[section.POINTS // 2], here)
            assert np.linalg.norm(line.towards) == pytest.approx(1)
            if line.name == "centre":
                (t,) = line.marks.values()
                assert abs(t) <= line.extent
                assert np.allclose(
                    here + t * line.towards * sample.param_scale, reading.state.centre, atol=1e-4
                )


def test_too_many_trajectories_are_cut_to_those_that_carry_weight(readings, monkeypatch):
    whole = section.build_section(readings[3])
    assert whole["lines"][0]["own"] is None, "the paper's estimator is the page's"
    monkeypatch.setattr(section, "MOST_TRAJECTORIES", 4)
    reading = readings[0]
    policy = build_policy(reading.about.problem, reading.about.config)
    sample = section.choose_sample(reading, policy)
    surrogate = build_surrogate_data(reading.state, policy, reading.about.config)
    data, selection = surrogate.data, surrogate.sample.selection
    weights = section._believe(
        policy, reading.about.config.surrogate, reading.state.incumbent.theta, data
    ).weights
    assert set(sample.rows) == set(np.argsort(-np.asarray(weights)[: len(selection.indices)])[:4])
    monkeypatch.setattr(section, "MOST_TRAJECTORIES", 1)
    found = section.build_section(readings[3])
    assert found["selected"] > 1
    assert found["lines"][0]["own"] is not None, "of all trajectories, not of the one that is left"


def test_an_estimator_added_from_outside_is_computed_by_the_library(readings, monkeypatch):
    paper = readings[3]
    monkeypatch.setitem(ESTIMATORS, "doubled", lambda log_w, data, config: 2 * weighted(log_w, data, config))
    found = section.build_section(with_estimator(paper, "doubled"))
    policy = build_policy(paper.about.problem, paper.about.config)
    sample = section.choose_sample(paper, policy)
    for line, drawn in zip(section.choose_lines(paper, sample), found["lines"], strict=True):
        thetas = section.place_policies(line, paper.state.incumbent.theta, sample.param_scale)
        single = [
            section._believe(policy, paper.about.config.surrogate, theta, sample.data).mean
            for theta in thetas.astype(np.float32)
        ]
        expected = 2 * sample.reward_scale * np.array(single)
        assert np.allclose(drawn["own"], expected, rtol=1e-3, atol=1e-3 * paper.state.return_bound)


@pytest.mark.parametrize("name", ["importance_sampling", "baselined", "gradient_baselined"])
def test_every_other_estimator_of_the_library_has_its_own_curve(readings, name):
    lines = section.build_section(with_estimator(readings[3], name))["lines"]
    assert all(len(line["own"]) == section.POINTS for line in lines)


def test_a_critic_in_the_estimate_has_its_own_curve(tmp_path):
    changes = {"critic.updates": 1.0, "surrogate.estimator": "doubly_robust"}
    config = change(quick(), changes)
    ddopg.DDOPG("cartpole", config=config, seed=1, run_directory=tmp_path).learn(total_episodes=20).close()
    reading = read_run(tmp_path)
    policy = build_policy(reading.about.problem, config)
    sample = section.choose_sample(reading, policy)
    assert sample.data.control is not None
    lines = section.build_section(reading)["lines"]
    assert all(np.all(np.isfinite(line["own"])) and len(line["own"]) == section.POINTS for line in lines)


def test_capped_weights_have_their_own_curve(readings):
    lines = section.build_section(with_estimator(readings[3], "weighted", weight_cap=1.0))["lines"]
    assert all(len(line["own"]) == section.POINTS for line in lines)


def test_an_estimator_that_is_not_in_the_table_is_named(readings):
    found = section.build_section(with_estimator(readings[3], "mine"))
    assert found == {
        "missing": "The run has an estimator of its own, 'mine', which was not in its table when this page was made: "
        "no surrogate."
    }


def test_before_the_design_is_complete_there_is_no_surrogate(tmp_path):
    ddopg.DDOPG("cartpole", config=quick(), run_directory=tmp_path).learn(total_episodes=3).close()
    found = section.build_section(read_run(tmp_path))
    assert found == {
        "missing": "There is no surrogate yet: 3 of the 8 rollouts of the initial design are there."
    }


def test_a_policy_class_of_ones_own_is_read_and_shown_without_a_surrogate(tmp_path):
    network = linear(4, 1)
    agent = ddopg.DDOPG("cartpole", policy=network, config=quick(), run_directory=tmp_path)
    agent.learn(total_episodes=9).close()
    reading = read_run(tmp_path)
    assert np.array_equal(reading.state.centre, agent.state.centre)
    shown = report.collect_data([reading], "now", make_recipe)["runs"][0]
    assert "policy class of its own" in shown["section"]["missing"]
    assert "policy=..." in shown["recipe"]["text"]


class TestAController:
    def test_its_parameters_are_those_of_the_incumbent_and_of_every_rollout(self, directories, readings):
        agent = ddopg.DDOPG.resume(directories.tuned, policy=BALANCE)
        found = report.collect_data(readings[-1:], "now", make_recipe)["runs"][0]["controller"]
        agent.close()
        values = {each["name"]: each["value"] for each in found["parameters"]}
        assert values == pytest.approx(agent.incumbent.parameters, rel=1e-6)
        thetas = [trajectory.theta for trajectory in agent.state.memory.trajectories]
        for drawn, name in zip(found["drawn"], ("position", "angle"), strict=True):
            expected = [BALANCE.describe(theta)[name] for theta in thetas]
            assert drawn["values"] == pytest.approx(expected, rel=1e-6)
        assert found["parameters"][2]["bounds"] == [None, 0.0]

    def test_a_network_has_none(self, readings):
        assert controller.describe_controller(readings[0], [0]) == {}

    def test_only_its_run_says_that_a_gaussian_process_proposed_the_rollouts(self, readings):
        runs = report.collect_data([readings[0], readings[-1]], "now", make_recipe)["runs"]
        assert [run["by_process"] for run in runs] == [False, True]

    def test_a_parameter_at_its_bound_is_said(self, readings):
        high = BALANCE.limits[1]
        state = readings[-1].state
        at_the_end = state._replace(incumbent=state.incumbent._replace(theta=high))
        found = controller.describe_controller(readings[-1]._replace(state=at_the_end), [0])
        assert [each["at_bound"] for each in found["parameters"]] == ["upper", "", "upper"]

    def test_another_controller_on_the_same_task_is_another_group(self, readings):
        tuned = readings[-1]
        other = tuned._replace(about=tuned.about._replace(policy_home="mine:other"))
        assert groups.group_runs([tuned, other, tuned]) == [[0, 2], [1]]
        assert groups.summarise_group([other], [0])["policy"] == "mine:other"
        assert groups.summarise_group([tuned], [0])["policy"] == "own policy class"


def test_trajectories_from_outside_are_told_apart(directories, tmp_path):
    agent = ddopg.DDOPG("cartpole", config=quick(), run_directory=tmp_path)
    agent.add(read_run(directories.seeds[0]).state.memory.trajectories[-1])
    agent.learn(total_episodes=9).close()
    shown = report.collect_data([read_run(tmp_path)], "now", make_recipe)["runs"][0]
    assert shown["rollouts"]["purpose"][0] == "added"
    assert "learn(total_episodes=9)" in shown["recipe"]["text"]
    assert "adding 1 of the trajectories" in shown["recipe"]["remark"]


@pytest.mark.long
class TestHowToReproduce:
    def test_the_command_gives_the_same_run_bit_for_bit(self, directories, tmp_path):
        reading = read_run(directories.seeds[0])
        words = reproduce.build_train_arguments(reading, tmp_path / "again")
        assert main([*words, "--quiet"]) == 0
        assert everything(tmp_path / "again") == everything(directories.seeds[0])

    @pytest.mark.parametrize("preset", ["trajectory", "paper", "released"])
    def test_every_setting_can_be_said_on_the_command_line(self, readings, preset, tmp_path):
        config = ddopg.preset(preset)
        config = dataclasses.replace(
            config,
            policy=dataclasses.replace(config.policy, hidden=(7, 3), squash=not config.policy.squash),
            surrogate=dataclasses.replace(
                config.surrogate, length_scale=(0.5, 1e-7), initial_state_correction=True
            ),
            discount=0.97,
        )
        command = {"preset": preset, "steps": 77, "check": False, "time_limit": 3.5, "eval_episodes": 4}
        about = readings[0].about._replace(config=config, command=command)
        told = parse(reproduce.build_train_arguments(readings[0]._replace(about=about), tmp_path))
        assert told.config == config
        assert (told.steps, told.check, told.time_limit, told.eval_episodes) == (77, False, 3.5, 4)

    def test_a_policy_without_hidden_layers_can_be_said_too(self, readings, tmp_path):
        config = dataclasses.replace(ddopg.preset("paper"), policy=ddopg.preset("trajectory").policy)
        about = readings[0].about._replace(config=config, command={"preset": "paper", "steps": 9})
        told = parse(reproduce.build_train_arguments(readings[0]._replace(about=about), tmp_path))
        assert told.config == config

    def test_the_script_of_a_run_begun_in_python_gives_the_same_returns(self, tmp_path):
        agent = ddopg.DDOPG("cartpole", config=quick(), seed=5, run_directory=tmp_path / "run")
        agent.learn(total_episodes=9).close()
        script = (
            reproduce.make_recipe(read_run(tmp_path / "run"))["text"]
            + "\nprint(agent.state.memory.returns.tolist())"
        )
        environment = os.environ | {"JAX_NUMPY_RANK_PROMOTION": "raise"}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout.strip() == str(agent.state.memory.returns.tolist())

    def test_the_script_of_a_robot_makes_the_learner(self, readings):
        script = reproduce.make_recipe(readings[4])["text"] + "\nprint(agent.problem, agent.config)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        about = readings[4].about
        assert done.stdout.strip() == f"{about.problem} {about.config}"

    def test_an_unfinished_run_says_so_and_how_to_go_on(self, readings):
        command = readings[0].about.command | {"episodes": 50}
        unfinished = readings[0]._replace(about=readings[0].about._replace(command=command))
        found = reproduce.make_recipe(unfinished)
        assert found["remark"].startswith("The run is not at its end: 20 of 50 rollouts")
        assert f"ddopg resume {unfinished.directory}" in found["text"]

    def test_a_run_that_was_given_a_larger_budget_says_so(self, tmp_path):
        out = train(tmp_path / "run", "--episodes", 9, *SIZES)
        assert main(["resume", str(out), "--episodes", "11", "--quiet"]) == 0
        found = reproduce.make_recipe(read_run(out))
        assert "beyond its first budget of 9 rollouts" in found["remark"]
        assert f"ddopg resume {out}-again --episodes 11" in found["text"]


class TestVideo:
    def test_the_newest_video_is_taken_along(self, tmp_path):
        (tmp_path / "old.mp4").write_bytes(b"old")
        (tmp_path / "new.gif").write_bytes(b"new")
        os.utime(tmp_path / "old.mp4", (1, 1))
        found = history.find_video(tmp_path)
        assert (found["name"], found["content"]) == ("new.gif", "data:image/gif;base64,bmV3")

    def test_a_large_one_stays_outside_and_the_page_can_say_so(self, tmp_path, monkeypatch):
        monkeypatch.setattr(history, "LARGEST_VIDEO", 2)
        (tmp_path / "long.mp4").write_bytes(b"long")
        assert history.find_video(tmp_path) == {"name": "long.mp4", "size": 4, "limit": 2}


class TestPage:
    def test_data_cannot_become_markup(self, readings):
        about = readings[0].about._replace(environment=EVIL)
        found = report.collect_data([readings[0]._replace(about=about)], "now", make_recipe)
        text = build_page(found | {"command": EVIL})
        assert "<img" not in text
        assert text.count("</script>") == 2
        assert json.loads(embed_json(found))["groups"][0]["task"] == EVIL

    def test_data_that_look_like_the_template_stay_data(self, readings):
        about = readings[0].about._replace(environment="{{script}}")
        found = report.collect_data([readings[0]._replace(about=about)], "now", make_recipe) | {
            "command": "{{style}}"
        }
        assert build_page(found).count('"{{script}}"') >= 2

    def test_it_asks_for_nothing_from_elsewhere(self, report):
        text = report.read_text()
        assert "default-src 'none'" in text
        assert "unsafe" not in text
        assert not [word for word in ("http://", "https://", "@import", "url(") if word in text.replace(
            "http://www.w3.org/2000/svg", "").replace("url(#", "")]  # fmt: skip

    def test_it_is_small(self, report):
        assert report.stat().st_size < 1e6

    def test_long_runs_are_thinned_with_both_ends_kept(self):
        assert numbers.thin_indices(7, 3) == [0, 3, 6]
        assert numbers.thin_indices(2, 3) == [0, 1]
        assert numbers.thin_indices(0, 3) == []

    def test_many_runs_leave_the_surrogate_to_the_first_ones(self, readings, monkeypatch):
        monkeypatch.setattr(report, "MOST_SECTIONS", 1)
        found = report.collect_data(readings[:2], "now", make_recipe)["runs"]
        assert "missing" not in found[0]["section"]
        assert "Only the first 1 runs" in found[1]["section"]["missing"]

    def test_infinite_and_missing_numbers_are_null(self):
        assert numbers.round_numbers([math.nan, math.inf, 1 / 3]) == [None, None, 0.3333333]


class TestWrongInput:
    def refuse(self, capsys, *arguments):
        assert main(["report", *map(str, arguments)]) == 2
        return capsys.readouterr().err

    def test_a_directory_without_a_run(self, tmp_path, capsys):
        assert "holds no run.sqlite; give the directory of a run" in self.refuse(capsys, tmp_path)

    def test_a_file(self, directories, capsys):
        assert "is a file; give the directory" in self.refuse(capsys, directories.paper / "run.sqlite")

    def test_a_place_that_does_not_exist(self, tmp_path, capsys):
        assert "holds no run.sqlite" in self.refuse(capsys, tmp_path / "nowhere")

    def test_another_database(self, tmp_path, capsys):
        (tmp_path / "run.sqlite").write_text("no database")
        assert "is not a run of ddopg" in self.refuse(capsys, tmp_path)

    def test_a_run_given_twice(self, directories, capsys):
        assert "is given twice" in self.refuse(
            capsys, directories.paper, directories.paper.parent / "." / directories.paper.name
        )

    def test_a_page_of_another_kind(self, directories, capsys):
        assert "must be called something.html" in self.refuse(capsys, directories.paper, "-o", "page.pdf")

    def test_a_run_without_a_rollout(self, tmp_path, capsys):
        ddopg.DDOPG("cartpole", run_directory=tmp_path, preset="trajectory").close()
        assert "holds no rollout yet" in self.refuse(capsys, tmp_path)

    def test_a_place_that_cannot_be_written(self, directories, tmp_path, capsys):
        (tmp_path / "file").touch()
        assert "cannot write" in self.refuse(capsys, directories.paper, "-o", tmp_path / "file" / "page.html")

    def test_no_run_at_all(self, capsys):
        assert "give at least one run" in self.refuse(capsys)

    def test_a_damaged_run(self, directories, tmp_path):
        content = (directories.paper / "run.sqlite").read_bytes()
        (actions,) = rows(directories.paper, "SELECT actions FROM rollout WHERE number = 3")[0]
        assert content.count(actions[:16]) == 1
        (tmp_path / "run.sqlite").write_bytes(content.replace(actions[:16], bytes(16)))
        with pytest.raises(ArtefactError, match="damaged or changed"):
            read_run(tmp_path)


def test_the_page_carries_all_runs(report, directories):
    found = data_of(report)
    assert [run["directory"] for run in found["runs"]] == list(map(str, directories.all))
    assert found["command"].startswith("ddopg report ")
