"""PGPE, TuRBO and Optuna's Gaussian process: their rules by hand, and learning on known problems."""

import jax
import numpy as np
import pytest

from ddopg.baselines import bayesian, evolution, optuna_gp
from ddopg.baselines.bayesian import Region, find_sides, resize
from ddopg.baselines.settings import OptunaSettings, PGPESettings, TurboSettings
from tests.baselines.test_search import after, worth
from tests.probes import Follow, Target


class TestRegion:
    def test_three_better_batches_in_a_row_double_it_up_to_its_longest(self):
        region, returns = Region(), np.array([1.0])
        lengths = []
        for _ in range(6):
            returns = np.append(returns, [returns[-1] + 1, 0.0])
            region = resize(region, returns, batch=2, patience=2)
            lengths.append(region.length)
            returns = np.sort(returns)
        assert lengths == [0.8, 0.8, 1.6, 1.6, 1.6, 1.6]
        assert region.successes == 0

    def test_as_many_worse_ones_as_its_patience_halve_it(self):
        region = Region(successes=2)
        for expected in (0.8, 0.4):
            region = resize(region, np.array([5.0, 1.0]), batch=1, patience=2)
            assert region.length == expected
        assert (region.successes, region.failures) == (0, 0)

    def test_what_is_hardly_better_is_no_success(self):
        assert resize(Region(), np.array([-100.0, -99.95]), batch=1, patience=9).successes == 0
        assert resize(Region(), np.array([-100.0, -99.8]), batch=1, patience=9).successes == 1

    def test_its_volume_is_its_length_to_the_dimension(self):
        low, high = find_sides(np.full(3, 0.5), np.array([0.5, 1.0, 2.0]), length=0.2)
        assert np.prod(high - low) == pytest.approx(0.2**3)
        assert (high - low) == pytest.approx([0.1, 0.2, 0.4])

    def test_it_stays_within_the_cube(self):
        low, high = find_sides(np.array([0.0, 0.9]), np.ones(2), length=0.8)
        assert low.tolist() == pytest.approx([0, 0.5])
        assert high.tolist() == pytest.approx([0.4, 1])


def test_the_population_of_pgpe_is_even():
    assert [evolution.choose_population(size) for size in (2, 5, 100)] == [6, 8, 18]


@pytest.mark.slow
class TestLearning:
    """Target: doing nothing is worth −0.75. Follow: a gain of −1; doing nothing about −1."""

    SETTINGS = (
        pytest.param(evolution.pgpe, PGPESettings(), 900, id="pgpe"),
        pytest.param(bayesian.turbo, TurboSettings(candidates=300), 240, id="turbo"),
        pytest.param(optuna_gp.optuna_gp, OptunaSettings(trials=30, kept=10), 150, id="optuna"),
    )

    @pytest.mark.parametrize(("learner", "settings", "steps"), SETTINGS)
    def test_it_finds_a_constant(self, learner, settings, steps):
        assert worth(after(learner, Target(), settings, steps), Target()) > -0.02

    @pytest.mark.parametrize(("learner", "settings", "steps"), SETTINGS)
    def test_it_finds_a_gain(self, learner, settings, steps):
        assert worth(after(learner, Follow(), settings, 2 * steps), Follow()) > -0.25

    def test_a_new_region_begins_where_the_last_has_become_too_small(self, monkeypatch):
        monkeypatch.setattr(bayesian, "SHORTEST", 0.5)
        drawn = []
        original = bayesian._draw_first
        monkeypatch.setattr(
            bayesian,
            "_draw_first",
            lambda libraries, size, number, seed: (
                drawn.append(number) or original(libraries, size, number, seed)
            ),
        )
        after(bayesian.turbo, Target(), TurboSettings(first=5, candidates=50), 150)
        assert drawn.count(5) >= 2

    def test_turbo_leaves_the_global_generators_alone(self):
        import torch

        torch.manual_seed(7)
        before = torch.get_rng_state().tolist()
        after(bayesian.turbo, Target(), TurboSettings(candidates=50), 60)
        assert torch.get_rng_state().tolist() == before

    def test_a_large_study_begins_anew_with_its_best_trials(self):
        import optuna

        low, high = np.full(2, -1.0), np.full(2, 1.0)
        study = optuna_gp.Study(optuna, low, high, OptunaSettings(trials=6, kept=2), seed=0)
        for value in (3.0, 1.0, 6.0, 2.0, 5.0, 4.0):
            study.ask()
            study.tell(value)
        study.ask()
        kept = [trial.value for trial in study._study.get_trials() if trial.value is not None]
        assert kept == [6.0, 5.0]

    def test_the_steps_of_pgpe_grow_to_a_share_of_its_first_radius_and_no_further(self):
        search = evolution.Search(np.zeros(4, np.float32), PGPESettings(std=0.5, speed=0.1, population=64))
        longest, steps = 0.1 * 0.5 * 2, []
        for key in jax.random.split(jax.random.key(0), 8):
            before, asked = search.mean, search.ask(key)
            search.tell(key, asked, list(asked[:, 0]))
            steps.append(np.linalg.norm(search.mean - before))
        assert steps[0] == pytest.approx(
            longest / 2, rel=1e-3
        )  # all steps but the limit would lead to ten of these
        assert steps[-3:] == pytest.approx([longest] * 3, rel=1e-3)
        assert search.mean[0] < -4 * longest  # lower costs are better
