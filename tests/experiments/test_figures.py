"""The figures: what is planned, the numbers that are drawn, and the command from data to picture."""

import dataclasses
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
import scipy.stats

from ddopg import baselines
from ddopg.cli.main import main
from ddopg.cli.options import Figure
from ddopg.config import preset
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.core.types import make_trajectory
from ddopg.envs.adapter import make
from ddopg.errors import ArtefactError, UnknownNameError
from ddopg.experiments import figures
from ddopg.experiments.bench import benchmark as bench
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import make_job, place_marks, plan_jobs
from ddopg.experiments.figures import (
    ablation,
    benchmark,
    bias,
    bias_worlds,
    curves,
    history,
    lengthscale,
    surrogate,
    temperature,
)
from ddopg.experiments.figures.ablation import Ablation, Size, Variant
from ddopg.experiments.figures.curves import Look
from ddopg.policies import linear, squashed
from ddopg.rollouts.playing import rollout
from ddopg.support.records import change, flatten, to_dict
from tests import reference
from tests.box2d import needs_box2d
from tests.experiments.test_bench import in_process, keys
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAPER_SEEDS = [404, 931, 159, 380, 858, 708, 16, 448, 136, 989]
TASKS = ("cartpole", "mountaincar", "swimmer")
RUNS = [
    {"curve": [[10, 1.0], [20, 5.0]]},
    {"curve": [[10, 3.0], [20, 5.0]]},
    {"curve": [[10, 8.0], [20, 5.0]]},
    {"curve": [[10, 100.0], [20, 5.0]]},
]


def never(jobs):
    raise AssertionError("nothing is missing")


def picture_of(path):
    """The pixels; a picture that shows nothing has one colour."""
    image = matplotlib.image.imread(path)
    assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 100
    return image


class TestCurves:
    def test_mean_and_sample_deviation_by_hand(self):
        band = curves.mean_and_deviation(RUNS)
        assert band.steps.tolist() == [10, 20]
        assert band.middle.tolist() == [28, 5]
        s = statistics.stdev([1, 3, 8, 100])
        assert band.high == pytest.approx([28 + s, 5])
        assert band.low == pytest.approx([28 - s, 5])

    def test_a_single_run_has_no_width(self):
        band = curves.mean_and_deviation(RUNS[:1])
        assert band.low.tolist() == band.middle.tolist() == band.high.tolist() == [1, 5]

    def test_the_iqm_is_scipys_and_lies_in_its_interval(self):
        rng = np.random.default_rng(0)
        rows = [
            {"curve": [[m, v] for m, v in zip((5, 9, 12), rng.normal(size=3), strict=True)]}
            for _ in range(10)
        ]
        band = curves.iqm_and_interval(rows)
        values = np.array([[v for _, v in row["curve"]] for row in rows])
        assert band.middle == pytest.approx(scipy.stats.trim_mean(values, 0.25, axis=0))
        assert np.all((values.min(0) <= band.low) & (band.low < band.middle))
        assert np.all((band.middle < band.high) & (band.high <= values.max(0)))

    def test_the_interval_of_the_mean_is_nearly_the_normal_one(self):
        values = np.random.default_rng(0).normal(3, 2, size=200)
        band = curves.mean_and_interval([{"curve": [[1, v]]} for v in values])
        half = 1.96 * values.std() / math.sqrt(200)
        assert (band.low[0], band.high[0]) == pytest.approx(
            (values.mean() - half, values.mean() + half), abs=0.05
        )

    def test_runs_that_agree_are_certain(self):
        band = curves.iqm_and_interval(RUNS)
        assert (band.low[1], band.middle[1], band.high[1]) == (5, 5, 5)
        assert band.low[0] < band.middle[0] == 5.5 < band.high[0]

    @pytest.mark.parametrize(
        ("steps", "text"), [(0, "0"), (500, "500"), (1500, "1.5k"), (20_000, "20k"), (1e6, "1M")]
    )
    def test_tick_labels(self, steps, text):
        assert curves.format_thousands(steps) == text


class TestAblations:
    """What differs from the preset is what the figure is about, and nothing else."""

    @staticmethod
    def differences(job, start):
        ours, theirs = flatten(job.settings), flatten(to_dict(start))
        return {name: value for name, value in ours.items() if value != theirs[name]}

    def found(self, module):
        paper = preset("paper")
        return [
            self.differences(j, paper) for j in module.plan_jobs(False) if j.seed == 404 and j.kind == "ddopg"
        ]

    def test_history(self):
        assert self.found(history) == [
            {},
            {"selection.size": 20, "selection.keep_last": 4},
            {"selection.size": 5, "selection.keep_last": 1},
            {"search.steps": 1},
            {"selection.size": 20, "selection.keep_last": 4, "search.steps": 1},
            {"selection.size": 5, "selection.keep_last": 1, "search.steps": 1},
        ]
        chosen = preset("paper").selection
        assert (chosen.size, chosen.keep_last) == (50, 10)
        rivals = [j for j in history.plan_jobs(False) if j.seed == 404 and j.kind == "reinforce"]
        assert [job.settings["batch"] for job in rivals] == [500, 5000]
        assert rivals[1] == make_job("cartpole", "reinforce-paper", 404, 20_000, 100)
        assert {**rivals[0].settings, "batch": 5000} == rivals[1].settings

    def test_lengthscale(self):
        assert self.found(lengthscale) == [
            {"surrogate.length_scale": [pytest.approx(7.389, abs=1e-3)]},
            {},
            {"surrogate.length_scale": [pytest.approx(2.718, abs=1e-3)]},
            {"surrogate.length_scale": [pytest.approx(1.649, abs=1e-3)]},
        ]
        assert preset("paper").surrogate.length_scale == (pytest.approx(4.4817, abs=1e-3),)

    def test_temperature(self):
        assert self.found(temperature) == [
            {"selection.temperature": 0.01},
            {"selection.temperature": 0.03},
            {},
            {"selection.temperature": 0.5},
            {"selection.temperature": 2.0},
        ]
        assert preset("paper").selection.temperature == 0.1

    @pytest.mark.parametrize("module", [history, lengthscale, temperature])
    def test_the_papers_seeds_on_cartpole_each_run_once(self, module):
        jobs = module.plan_jobs(False)
        assert list(dict.fromkeys(job.seed for job in jobs)) == PAPER_SEEDS
        assert {(job.env, job.budget, job.episodes) for job in jobs} == {("cartpole", 20_000, 100)}
        assert len({job.key for job in jobs}) == len(jobs) == 10 * len(module.SETTINGS.variants)
        assert len({ablation.name_method(v) for v in module.SETTINGS.variants}) == len(
            module.SETTINGS.variants
        )

    @pytest.mark.parametrize("module", [history, lengthscale, temperature])
    def test_the_unchanged_variant_is_the_benchmarks_own_job(self, module):
        assert make_job("cartpole", "ddopg-paper", 404, 20_000, 100) in module.plan_jobs(False)

    def test_the_small_version_is_another_job_with_the_same_variants(self):
        full, quick = history.plan_jobs(False), history.plan_jobs(True)
        assert {job.method for job in quick} == {job.method for job in full}
        assert not {job.key for job in quick} & {job.key for job in full}
        assert sum(job.budget for job in quick) < sum(job.budget for job in full) / 30

    def test_changed_replaces_fields_and_fields_of_parts(self):
        config = change(
            preset("paper"), {"discount": 0.5, "search.steps": 7, "search.sghmc_temperature": 2.0}
        )
        assert (config.discount, config.search.steps, config.search.sghmc_temperature) == (0.5, 7, 2.0)
        paper = preset("paper")
        back = dataclasses.replace(config, discount=1.0, search=paper.search)
        assert back == paper


@pytest.fixture
def small(monkeypatch):
    """An ablation of random search: fast, and whatever is run runs for real."""
    monkeypatch.setattr(ablation, "FULL", Size(150, 2, (1, 2, 3)))
    looks = [Look(f"spread {s}", colour) for s, colour in ((0.5, curves.BLUE), (2.0, curves.RED))]
    variants = tuple(
        Variant(look, {"spread": s}, "random") for look, s in zip(looks, (0.5, 2.0), strict=True)
    )
    return Ablation("ablation-small", "small", variants)


class TestAblationRun:
    def test_what_is_missing_is_run_and_then_drawn(self, small, tmp_path, capsys):
        assert small.run(tmp_path / "data", False, in_process, quiet=True) == []
        assert keys(tmp_path / "data") == [job.key for job in small.plan_jobs(False)]
        (path,) = small.plot(tmp_path / "data", tmp_path / "out", False)
        assert path == tmp_path / "out" / "ablation-small.png"
        picture_of(path)
        small.run(tmp_path / "data", False, never, quiet=True)
        assert capsys.readouterr().err == ""

    def test_the_curves_drawn_are_the_means_of_the_runs(self, small, tmp_path, monkeypatch):
        drawn, draw = [], curves.draw

        def watched(axes, band, look, shade):
            drawn.append((look.label, band))
            return draw(axes, band, look, shade)

        monkeypatch.setattr(curves, "draw", watched)
        small.run(tmp_path, False, in_process, quiet=True)
        small.plot(tmp_path, tmp_path, False)
        rows = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
        assert [label for label, _ in drawn] == ["spread 0.5", "spread 2.0"]
        for (_, band), spread in zip(drawn, (0.5, 2.0), strict=True):
            chosen = [row["curve"] for row in rows if row["settings"]["spread"] == spread]
            assert band.steps.tolist() == place_marks(150)
            assert band.middle == pytest.approx(np.mean(chosen, axis=0)[:, 1])

    def test_runs_that_are_not_there_are_told_and_the_others_drawn(self, small, tmp_path, capsys):
        bench.complete(small.plan_jobs(False)[:3], tmp_path, in_process, quiet=True)
        small.plot(tmp_path, tmp_path, False)
        assert f"3 of 6 runs are not in {tmp_path}; the picture shows the others" in capsys.readouterr().err

    def test_records_of_other_jobs_are_not_drawn(self, small, tmp_path):
        bench.complete(plan_jobs(["cartpole"], ["random"], [1], 100, 2), tmp_path, in_process, quiet=True)
        with pytest.raises(ArtefactError, match="no data of the figure ablation-small in"):
            small.plot(tmp_path, tmp_path, False)


class TestBenchmarkPlan:
    def test_the_runs_are_those_of_ddopg_bench(self):
        gradients = [f"{name}-{how}" for name in ("reinforce", "trpo", "ppo") for how in ("paper", "tuned")]
        others = ["ddopg-trajectory", "cmaes", "ars", "random"]
        others += ["cmaes-mlp", "ars-mlp", "random-mlp"]
        expected = set()
        for env, slow, sac, fast in zip(
            TASKS,
            (100_000, 200_000, 500_000),
            (30_000, 50_000, 100_000),
            (20_000, 50_000, 200_000),
            strict=True,
        ):
            expected |= {job.key for job in plan_jobs([env], gradients, PAPER_SEEDS, slow, 100)}
            ours = ["ddopg-paper", "ddopg-released"]
            expected |= {job.key for job in plan_jobs([env], ours, PAPER_SEEDS, slow, 100)}
            expected |= {job.key for job in plan_jobs([env], ["sac", "sac-tuned"], PAPER_SEEDS[:5], sac, 100)}
            expected |= {job.key for job in plan_jobs([env], others, PAPER_SEEDS, fast, 100)}
        planned = [job.key for job in benchmark.plan_jobs(False)]
        assert len(planned) == len(set(planned)) == 480
        assert set(planned) == expected

    def test_every_curve_has_its_runs_and_every_run_its_curve(self):
        drawn = {*benchmark.PAPER, *benchmark.IN_PARAMETER_SPACE, *benchmark.IN_ACTION_SPACE}
        assert drawn == {job.method for job in benchmark.plan_jobs(False)} <= set(baselines.METHODS)

    @pytest.mark.parametrize(
        "looks", [benchmark.PAPER, benchmark.IN_PARAMETER_SPACE, benchmark.IN_ACTION_SPACE]
    )
    def test_curves_of_one_panel_can_be_told_apart(self, looks):
        assert len({(look.colour, look.line) for look in looks.values()}) == len(looks)

    def test_unfinished_methods_are_counted_on_their_task_only(self):
        wanted = plan_jobs(["cartpole", "swimmer"], ["random", "ars"], [1, 2, 3], 100, 2)
        groups = {
            ("cartpole", "random"): RUNS[:3],
            ("cartpole", "ars"): RUNS[:1],
            ("swimmer", "ars"): RUNS[:3],
        }
        assert benchmark.count_unfinished(wanted, groups, "cartpole") == {"ars": "1/3"}
        assert benchmark.count_unfinished(wanted, groups, "swimmer") == {"random": "0/3"}


class TestSurrogate:
    def test_the_curves_are_the_papers_equations(self, float64):
        """Against slow loops, for a squashed policy: σ is in the units of the action, not of its range."""
        rng = np.random.default_rng(0)
        policy = squashed(linear(2, 1), (-3.0,), (3.0,))
        slow = lambda theta: lambda o: [3 * math.tanh(o[0] * theta[0] + o[1] * theta[1] + theta[2])]
        thetas, seen = rng.normal(size=(5, 3)), rng.normal(size=(5, 4, 2)).astype(np.float32)
        lengths, rewards = (4, 2, 4, 1, 3), rng.normal(size=(5, 4))
        data = [
            make_trajectory(
                thetas[i],
                seen[i, :n],
                [slow(thetas[i])(o) for o in seen[i, :n].tolist()],
                rewards[i, :n],
                horizon=4,
            )
            for i, n in enumerate(lengths)
        ]
        line, sigma, delta = rng.normal(size=(3, 3)), 1.7, 0.2
        found = surrogate.estimate_along(policy, line, data, sigma, delta)
        paths = [
            [(o.tolist(), a.tolist()) for o, a in zip(t.observations[:n], t.actions[:n], strict=True)]
            for t, n in zip(data, lengths, strict=True)
        ]
        returns = [float(sum(rewards[i, :n])) for i, n in enumerate(lengths)]
        for k, theta in enumerate(line):
            weights = reference.surrogate_weights(paths, [slow(t) for t in thetas], slow(theta), [sigma])
            ess = reference.ess_self_normalised(weights)
            mean = reference.weighted(weights, returns)
            assert found.mean[k] == pytest.approx(mean, rel=1e-4)
            assert found.deviation[k] == pytest.approx(
                math.sqrt(reference.weighted_variance(weights, returns)), rel=1e-4
            )
            assert found.ess[k] == pytest.approx(ess, rel=1e-4)
            bound = max(map(abs, returns))
            assert found.lower_bound[k] == pytest.approx(
                reference.lower_bound(mean, ess, bound, delta), rel=1e-4
            )

    def test_the_truth_is_that_of_fresh_episodes(self):
        env, policy = make("cartpole"), linear(4, 1)
        line = np.array([[0, 0, 0, 0, 0], [0, 0, -60, -10, 0]], np.float32)
        mean, deviation = surrogate.measure_truth(env, policy, line, episodes=6)
        for k, theta in enumerate(line):
            returns = [rollout(env, policy, theta, FIRST_EVALUATION_SEED + i).rewards.sum() for i in range(6)]
            assert mean[k] == pytest.approx(np.mean(returns), rel=1e-3)
            assert deviation[k] == pytest.approx(np.std(returns), rel=1e-3)

    def test_the_direction_is_a_unit_vector_that_the_seed_decides(self):
        v = surrogate.draw_direction(3, 7)
        assert np.linalg.norm(v) == pytest.approx(1)
        assert np.array_equal(v, surrogate.draw_direction(3, 7))
        assert abs(v @ surrogate.draw_direction(4, 7)) < 0.99

    def test_the_committed_section_can_be_computed_again(self):
        """Its data come from the policies and seeds it names: the returns on the line are those of rollouts."""
        found = json.loads((ROOT / "benchmarks/figures/surrogate" / surrogate.FILE).read_text())
        settings = surrogate.Settings(**found["settings"])
        assert found["settings"] == json.loads(json.dumps(surrogate.SETTINGS._asdict()))
        env, policy = make("cartpole"), squashed(linear(4, 1), (-10.0,), (10.0,))
        best, towards = np.array(found["theta"]), np.array(found["direction"])
        middle = np.argmin(np.abs(found["x"]))
        mean, _ = surrogate.measure_truth(env, policy, best[None].astype(np.float32), settings.episodes)
        assert mean[0] > 990
        assert found["truth"]["mean"][middle] == pytest.approx(mean[0], rel=1e-3)
        assert towards == pytest.approx(surrogate.draw_direction(settings.seed, 5), abs=1e-6)
        assert len(found["surrogate"]) == 3
        for belief in found["surrogate"]:
            ess = np.array(belief["ess"])
            assert np.all((ess > 0.999) & (ess < settings.rollouts + 0.001))
            bound = max(map(abs, found["data"]["returns"]))
            assert belief["lower_bound"] == pytest.approx(
                np.array(belief["mean"]) - bound * np.sqrt(0.8 / (0.2 * ess)), abs=2
            )

    def test_a_shorter_lengthscale_shares_less(self):
        found = json.loads((ROOT / "benchmarks/figures/surrogate" / surrogate.FILE).read_text())
        logs = found["settings"]["log_covariances"]
        shared = [np.mean(belief["ess"]) for belief in found["surrogate"]]
        assert logs == sorted(logs, reverse=True)
        assert shared == sorted(shared, reverse=True)


class TestBias:
    def test_the_return_in_the_corridor_is_that_of_walking_backwards_from_the_end(self):
        """By dynamic programming over places, instead of the sum over trajectories."""
        for theta in np.random.default_rng(0).normal(0, 2, (5, 2)):
            places = range(-2, 3)
            value = dict.fromkeys(places, 0.0)
            for _ in range(6):
                share = {x: 1 / (1 + math.exp(-(theta[0] * x / 2 + theta[1]))) for x in places}
                worth = {x: (x == 1) + value[x] for x in places}
                value = {
                    x: share[x] * worth[min(2, x + 1)] + (1 - share[x]) * worth[max(-2, x - 1)]
                    for x in places
                }
            assert bias_worlds.enumerate_return(theta) == pytest.approx(value[0])

    def test_walks_in_the_corridor_earn_that_return_on_average(self):
        theta = np.array([-1.0, 0.7])
        keys = jax.random.split(jax.random.key(0), 20_000)
        _, _, returns = jax.vmap(bias_worlds._walk, in_axes=(0, None))(keys, jnp.asarray(theta))
        error = float(returns.std()) / math.sqrt(20_000)
        assert float(returns.mean()) == pytest.approx(bias_worlds.enumerate_return(theta), abs=4 * error)

    @pytest.mark.parametrize("cap", [0.0, 0.5])
    def test_estimates_are_those_of_slow_loops(self, float64, cap):
        world = bias_worlds.make_corridor(seed=1, targets=3)
        data, sigma = world.draw(jax.random.key(3), 6), 1.7
        found = bias.estimate_returns(data, jnp.asarray(sigma), cap)
        densities, returns = np.exp(np.asarray(data.log_p) / sigma**2), np.asarray(data.returns).tolist()
        for k in range(3):
            w = np.exp(np.asarray(data.at)[k] / sigma**2) / densities.mean(axis=0)
            w = np.minimum(w, cap or np.inf).tolist()
            assert found.weighted[k] == pytest.approx(reference.weighted(w, returns))
            assert found.plain[k] == pytest.approx(reference.plain(w, returns))

    def test_the_table_is_the_squared_distance_of_the_actions(self):
        world = bias_worlds.make_corridor(seed=1, targets=2)
        data = world.draw(jax.random.key(0), 4)
        assert np.diag(data.log_p) == pytest.approx(np.zeros(4), abs=1e-6)  # the policy that acted
        assert np.all(np.asarray(data.at) < 0)
        assert data.lengths.tolist() == [6] * 4

    def test_bias_and_deviation_are_told_apart(self):
        rng = np.random.default_rng(0)
        truth = np.array([1.0, 2.0, 6.0])
        noise = rng.normal(0, 0.5, (4000, 1, 1, 3))
        found = bias.split_error(truth + np.array([1.0, -1.0, 1.0]) + noise, truth)
        unit = truth.std()
        assert found["bias"][0][0] == pytest.approx(1 / unit, rel=0.03)
        assert found["signed"][0][0] == pytest.approx(1 / 3 / unit, rel=0.1)
        assert found["deviation"][0][0] == pytest.approx(0.5 / unit, rel=0.03)
        assert found["error"][0][0] == pytest.approx(math.hypot(1, 0.5) / unit, rel=0.03)
        assert (
            bias.split_error(truth + noise[:40], truth)["bias"][0][0] < 0.05
        )  # not the chance of 40 data sets

    def test_a_huge_length_scale_is_the_mean_of_all_returns(self):
        settings = bias.QUICK._replace(data_sets=200, caps=(0.0,))
        world = bias_worlds.make_corridor(seed=0, targets=16)
        found = bias.measure_errors(world, 10, (1e4,), settings)
        assert found["ess"][0][0] == pytest.approx(10, rel=1e-3)
        for name in ("weighted", "plain"):
            assert found[name]["bias"][0][0] == pytest.approx(
                math.hypot(1, found[name]["signed"][0][0]), abs=0.05
            )

    def test_on_cartpole_data_sets_are_drawn_from_the_pool_without_repetition(self):
        world = bias_worlds.make_cartpole(seed=2, targets=2, spread=0.3, steps=60, pool=6, episodes=4)
        data = world.draw(jax.random.key(0), 6)
        assert len(set(np.asarray(data.at)[0].tolist())) == 6
        assert np.diag(data.log_p) == pytest.approx(np.zeros(6), abs=1e-2)
        assert data.returns == pytest.approx(10 * np.asarray(data.lengths), abs=15)  # about 10 per step
        assert world.truth.shape == (2,)

    def test_what_the_page_says_is_in_the_committed_data(self):
        """The findings of docs/bias.md."""
        found = json.loads((ROOT / "benchmarks/figures/bias" / bias.FILE).read_text())
        assert found["settings"] == json.loads(json.dumps(bias.SETTINGS._asdict()))
        corridor, near, wide = found["worlds"]
        for world in found["worlds"]:
            errors = [np.array(at["weighted"]["error"]) for at in world["errors"]]
            best = [values[:, 0].argmin() for values in errors]
            assert best == sorted(best, reverse=True), "more data, a shorter σ"
            for values, at in zip(errors, world["errors"], strict=True):
                assert values[:, 0].min() == values.min(), "beside the best σ a cap gains nothing"
                assert values.min() < np.min(at["plain"]["error"]), "Z = N is worse, with any σ and cap"
        for world in (corridor, near):
            middle, short = world["errors"][1]["weighted"], world["errors"][-1]["weighted"]["error"][2]
            assert middle["bias"][0][0] < 0.4 < 0.9 < middle["bias"][-1][0], "a long σ is all bias"
            assert min(short) < short[0] - 0.03, "a cap repairs some of a σ that is too short"
        at = wide["errors"][1]
        assert at["weighted"]["signed"][0][0] < -0.5, "far from data short, failed episodes speak loudest"
        assert at["length"][0][0] < 0.3


@pytest.mark.long
class TestCommand:
    @pytest.fixture
    def tiny(self, monkeypatch, tmp_path):
        """Small sizes, in a directory that is no clone."""
        monkeypatch.chdir(tmp_path)
        part = benchmark.Part(("random", "ars"), {"cartpole": 200}, (1, 2), 2)
        monkeypatch.setattr(benchmark, "QUICK", (part,))
        monkeypatch.setattr(
            surrogate, "QUICK", surrogate.SETTINGS._replace(steps=60, rollouts=4, points=5, episodes=3)
        )
        sizes = {"targets": 2, "data_sets": 10, "spreads": (0.3,), "steps": 60, "pool": 12, "episodes": 2}
        small = {
            "numbers": (4, 6),
            "corridor_scales": (1.0, 3.0),
            "cartpole_scales": (5.0, 20.0),
            "caps": (0.0, 1.0),
        }
        monkeypatch.setattr(bias, "QUICK", bias.SETTINGS._replace(**sizes, **small))
        return tmp_path

    @pytest.mark.long
    def test_from_nothing_to_pictures_and_numbers(self, tiny, capsys):
        assert main(["figure", "benchmark", "--quick", "--quiet", "--workers", "2"]) == 0
        home = tiny / "runs" / "figures"
        assert len(set(keys(home / "benchmark-quick"))) == 4
        picture_of(home / "benchmark.png")
        picture_of(home / "benchmark-rivals.png")
        shown = capsys.readouterr()
        assert "cartpole after 200 steps" in shown.out
        assert shown.out.count("random") == 1
        assert "runs/figures/benchmark-rivals.png" in shown.out
        assert shown.err == ""

    def test_the_section_is_computed_once(self, tiny, monkeypatch):
        assert main(["figure", "surrogate", "--quick"]) == 0
        path = tiny / "runs/figures/surrogate-quick" / surrogate.FILE
        first = path.read_bytes()
        picture_of(tiny / "runs/figures/surrogate.png")
        monkeypatch.setattr(surrogate, "compute_section", never)
        assert main(["figure", "surrogate", "--quick", "--out", str(tiny / "again")]) == 0
        picture_of(tiny / "again/surrogate.png")
        assert path.read_bytes() == first

    def test_the_errors_of_the_surrogate_from_nothing_to_a_picture(self, tiny):
        assert main(["figure", "bias", "--quick"]) == 0
        picture_of(tiny / "runs/figures/bias.png")
        found = json.loads((tiny / "runs/figures/bias-quick" / bias.FILE).read_text())
        assert [world["title"].split(",")[0] for world in found["worlds"]] == ["corridor", "cartpole"]

    def test_a_place_that_cannot_be_written_is_refused_before_the_work(self, tiny, monkeypatch, capsys):
        monkeypatch.setattr(surrogate, "compute_section", never)
        (tiny / "file").write_text("")
        assert main(["figure", "surrogate", "--quick", "--data", str(tiny / "file" / "data")]) == 2
        assert "Not a directory; choose a writable directory with --data" in capsys.readouterr().err

    def test_other_settings_are_computed_anew(self, tiny, monkeypatch):
        assert main(["figure", "surrogate", "--quick"]) == 0
        monkeypatch.setattr(surrogate, "QUICK", surrogate.QUICK._replace(points=7))
        assert main(["figure", "surrogate", "--quick"]) == 0
        found = json.loads((tiny / "runs/figures/surrogate-quick" / surrogate.FILE).read_text())
        assert len(found["x"]) == len(found["truth"]["mean"]) == 7

    @pytest.mark.parametrize("name", figures.MODULES)
    def test_the_committed_data_are_drawn_without_computing(self, name, tmp_path, monkeypatch):
        monkeypatch.setattr(workers, "run_locally", never)
        monkeypatch.setattr(surrogate, "compute_section", never)
        monkeypatch.setattr(bias, "compute_errors", never)
        monkeypatch.chdir(ROOT)
        assert main(["figure", name, "--redraw", "--out", str(tmp_path)]) == 0
        image = picture_of(tmp_path / f"{name}.png")
        assert image.shape[1] > 1000

    @pytest.mark.parametrize(
        "name", ["benchmark", "ablation-history", "ablation-lengthscale", "ablation-temperature"]
    )
    def test_the_committed_runs_are_complete(self, name):
        planned = [job.key for job in figures.load_figure(name).plan_jobs(False)]
        assert sorted(bench.read_finished(ROOT / "benchmarks/figures" / name)) == sorted(planned)

    @pytest.mark.long
    def test_a_killed_figure_goes_on_and_counts_nothing_twice(self, tmp_path):
        code = """
import sys
from ddopg.cli.main import main
from ddopg.experiments.figures import benchmark
benchmark.QUICK = (benchmark.Part(("random",), {"cartpole": 10_000}, (1, 2, 3, 4), 2),)
sys.exit(main(["figure", "benchmark", "--quick", "--quiet"]))
"""
        options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        path = tmp_path / "runs/figures/benchmark-quick/records.jsonl"
        with subprocess.Popen([sys.executable, "-c", code], **options) as first:
            wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1)
            os.kill(first.pid, signal.SIGKILL)
        assert first.returncode == -signal.SIGKILL
        before = path.read_bytes()
        assert 1 <= before.count(b"\n") < 4
        with subprocess.Popen([sys.executable, "-c", code], **options) as second:
            _, errors = second.communicate(timeout=120)
        assert second.returncode == 0, errors
        assert path.read_bytes().startswith(before)
        assert len(keys(path.parent)) == len(set(keys(path.parent))) == 4
        picture_of(tmp_path / "runs/figures/benchmark.png")

    def test_a_failing_run_is_told_and_the_others_are_drawn(self, tiny, monkeypatch, capsys):
        def failing(jobs, workers):
            yield bench.Failed(jobs[0], "Traceback\nValueError: no\n")
            yield from in_process(jobs[1:])

        monkeypatch.setattr(workers, "run_locally", failing)
        assert main(["figure", "benchmark", "--quick", "--quiet"]) == 1
        assert "ValueError: no" in capsys.readouterr().err
        picture_of(tiny / "runs/figures/benchmark.png")

    def test_the_small_version_does_without_what_is_not_installed(self, tiny, monkeypatch, capsys):
        part = benchmark.Part(("random", "ppo-paper", "sac-tuned"), {"cartpole": 200}, (1,), 2)
        monkeypatch.setattr(benchmark, "QUICK", (part,))
        monkeypatch.setattr("ddopg.baselines.find_spec", lambda name: None)
        monkeypatch.setattr(workers, "run_locally", lambda jobs, workers: in_process(jobs))
        assert main(["figure", "benchmark", "--quick", "--quiet"]) == 0
        told = capsys.readouterr().err
        assert told.splitlines()[0] == (
            "ddopg: left out: ppo-paper, sac-tuned, which need stable_baselines3, sb3_contrib, torch; "
            'get them with pip install "ddopg[baselines]"'
        )
        assert "runs are not in" not in told
        assert len(keys(tiny / "runs/figures/benchmark-quick")) == 1

    @needs_box2d
    def test_the_full_one_asks_for_what_it_needs_before_anything_runs(self, tiny, monkeypatch, capsys):
        monkeypatch.setattr("ddopg.baselines.find_spec", lambda name: None)
        monkeypatch.setattr(workers, "run_locally", never)
        assert main(["figure", "benchmark", "--quiet"]) == 2
        assert 'pip install "ddopg[baselines]"' in capsys.readouterr().err
        assert not (tiny / "runs").exists()

    def test_packages_of_finished_runs_are_not_needed(self, tiny, monkeypatch):
        """Whoever has the data can draw: no PyTorch for a curve of PPO."""
        part = benchmark.Part(("ppo-paper",), {"cartpole": 200}, (1,), 2)
        monkeypatch.setattr(benchmark, "SETTINGS", (part,))
        (job,) = benchmark.plan_jobs(False)
        record = {"key": job.key, **job._asdict(), "curve": [[m, 1.0] for m in place_marks(200)]}
        (tiny / "data").mkdir()
        (tiny / "data" / "records.jsonl").write_text(json.dumps(record) + "\n")
        monkeypatch.setattr("ddopg.baselines.find_spec", lambda name: None)
        assert main(["figure", "benchmark", "--quiet", "--data", "data"]) == 0

    def test_data_come_from_the_clone_if_there_is_one(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert figures.choose_data_directory("surrogate", False) == Path("runs/figures/surrogate")
        (tmp_path / "benchmarks/figures/surrogate").mkdir(parents=True)
        assert figures.choose_data_directory("surrogate", False) == Path("benchmarks/figures/surrogate")
        assert figures.choose_data_directory("surrogate", True) == Path("runs/figures/surrogate-quick")
        assert figures.choose_data_directory("benchmark", False) == Path("runs/figures/benchmark")

    @pytest.mark.parametrize("name", figures.MODULES)
    def test_drawing_without_data_is_explained(self, name, tiny, capsys):
        assert main(["figure", name, "--redraw"]) == 2
        told = capsys.readouterr().err
        assert f"no data of the figure {name} in runs/figures/{name}; run ddopg figure {name} without" in told
        assert not (tiny / "runs").exists()

    def test_no_workers_are_too_few(self, tiny, capsys):
        assert main(["figure", "surrogate", "--quick", "--workers", "0"]) == 2
        assert "--workers must be at least 1, got 0" in capsys.readouterr().err

    def test_an_unknown_figure_is_refused_by_name(self, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["figure", "ablation-historie"])
        assert ended.value.code == 2
        assert "ablation-historie" in capsys.readouterr().err
        with pytest.raises(UnknownNameError, match="no figure called 'ablation-historie'; did you mean"):
            figures.load_figure("ablation-historie")

    def test_the_command_knows_every_figure(self):
        assert Figure.__annotations__["name"].count("FigureName") == 1
        from ddopg.cli.options import FigureName

        assert set(FigureName.__args__) == set(figures.MODULES)

    @pytest.mark.parametrize("content", ["", "[1]", '{"x": 1}'])
    def test_data_that_are_none_are_explained(self, content, tiny, capsys):
        (tiny / surrogate.FILE).write_text(content)
        assert main(["figure", "surrogate", "--quick", "--data", str(tiny)]) == 2
        assert f"{surrogate.FILE} does not hold the data of the figure surrogate; remove it" in (
            capsys.readouterr().err
        )

    @pytest.mark.parametrize("name", ["surrogate", "benchmark"])
    def test_a_directory_that_cannot_be_written(self, name, tiny, capsys):
        (tiny / "file").write_text("")
        assert main(["figure", name, "--quick", "--quiet", "--data", "file/data"]) == 2
        assert "choose a writable directory with --data" in capsys.readouterr().err

    def test_a_picture_that_cannot_be_written(self, tiny, capsys):
        (tiny / "file").write_text("")
        assert main(["figure", "surrogate", "--quick", "--out", "file/pictures"]) == 2
        assert "choose a writable directory with --out" in capsys.readouterr().err


def test_methods_of_different_budgets_do_not_share_a_table():
    short, long = (
        plan_jobs(["cartpole"], ["random"], [1, 2], 100, 2),
        plan_jobs(["cartpole"], ["ars"], [1], 200, 2),
    )
    both = plan_jobs(["cartpole"], ["cmaes"], [1], 100, 2)
    assert bench.group_by_budget([*short, *long, *both]) == [[*short, *both], long]


def test_waiting_for_a_figure_names_its_own_option(tmp_path):
    from ddopg.experiments.bench import records

    started = time.monotonic()
    with (
        records.lock_records(tmp_path),
        pytest.raises(ArtefactError, match="choose another --data"),
        records.lock_records(tmp_path, "--data"),
    ):
        pass
    assert time.monotonic() - started < 5
