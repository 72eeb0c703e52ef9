"""Statistics against values by hand, slow loops, and scipy where it has the same thing."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ddopg.experiments.bench import stats

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=23)

CURVES = [
    [[10, 1.0], [20, 5.0], [30, 4.0], [40, 6.0]],
    [[10, 0.0], [20, 1.0], [30, 2.0], [40, 3.0]],
    [[10, 5.0], [20, 6.0], [30, 7.0], [40, 8.0]],
]


class TestInterquartileMean:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([3.0], 3.0),
            ([1.0, 9.0, 2.0], 4.0),
            ([100.0, 1.0, 2.0, -50.0], 1.5),
            (range(8), 3.5),
            ([0, 0, 1, 2, 3, 4, 5, 6, 7, 1000], 3.5),
        ],
    )
    def test_by_hand(self, values, expected):
        assert stats.iqm(np.array(values, float)) == pytest.approx(expected)

    @given(NUMBERS)
    def test_it_is_scipys_mean_trimmed_by_a_quarter(self, values):
        assert stats.iqm(np.array(values)) == pytest.approx(scipy.stats.trim_mean(values, 0.25), abs=1e-9)

    def test_it_works_along_the_last_axis(self):
        table = np.random.default_rng(0).normal(size=(5, 9))
        assert stats.iqm(table) == pytest.approx([stats.iqm(row) for row in table])


class TestBootstrap:
    def test_it_is_the_slow_one(self):
        """The same draws, one by one."""
        strata = [np.array([1.0, 5.0, 2.0]), np.array([10.0, 30.0, 20.0, 25.0])]
        found = stats.stratified_bootstrap(strata, stats.iqm, np.random.default_rng(3), level=0.8, draws=200)
        rng = np.random.default_rng(3)
        drawn = [rng.integers(len(values), size=(200, len(values))) for values in strata]
        slow = []
        for k in range(200):
            everyone = [strata[s][i] for s in range(2) for i in drawn[s][k]]
            slow.append(scipy.stats.trim_mean(everyone, 0.25))
        slow.sort()
        assert found == pytest.approx((np.quantile(slow, 0.1), np.quantile(slow, 0.9)))

    def test_of_a_mean_it_is_nearly_the_normal_interval(self):
        values = np.random.default_rng(0).normal(3, 2, size=200)
        low, high = stats.stratified_bootstrap(
            [values], lambda x: x.mean(axis=-1), np.random.default_rng(1), draws=20_000
        )
        half = 1.96 * values.std() / math.sqrt(200)
        assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)

    def test_runs_are_redrawn_within_their_task_only(self):
        """Two tasks whose runs agree: nothing is uncertain. Redrawing over all runs would say otherwise."""
        strata = [np.zeros(5), np.ones(5)]
        mean = stats.stratified_bootstrap(strata, lambda x: x.mean(axis=-1), np.random.default_rng(0))
        assert mean == (0.5, 0.5)

    def test_the_generator_decides(self):
        values = [np.arange(10.0)]
        first, again, other = (
            stats.stratified_bootstrap(values, stats.iqm, np.random.default_rng(seed), draws=50)
            for seed in (0, 0, 1)
        )
        assert first == again != other


class TestSolved:
    def test_the_first_mark_that_reaches_it(self):
        assert [stats.steps_to_solved(curve, 5.0) for curve in CURVES] == [20, math.inf, 10]
        assert stats.steps_to_solved(CURVES[0], None) == math.inf

    def test_how_much_of_the_rest_stays_solved(self):
        """After 20: 4 no, 6 yes; after 10: three times yes. The run that never solves says nothing."""
        assert stats.stays_solved(CURVES, 5.0) == pytest.approx(4 / 5)
        assert math.isnan(stats.stays_solved(CURVES[1:2], 5.0))
        assert math.isnan(stats.stays_solved(CURVES, None))

    def test_a_run_that_never_solves_counts_as_infinite_in_the_median(self):
        assert stats.median_with_infinity([20, math.inf, 10]) == 20
        assert stats.median_with_infinity([20, math.inf]) == math.inf
        assert stats.median_with_infinity([math.inf, 30, 20, 10]) == 25


class TestSummary:
    def test_by_hand(self):
        s = stats.summarise(CURVES, 5.0, np.random.default_rng(0))
        assert s.runs == 3
        assert s.mean == pytest.approx(17 / 3)
        assert s.sd == pytest.approx(
            math.sqrt(((6 - 17 / 3) ** 2 + (3 - 17 / 3) ** 2 + (8 - 17 / 3) ** 2) / 2)
        )
        assert (s.median, s.worst, s.solved, s.steps) == (6, 3, 2, 20)
        assert s.iqm == pytest.approx(17 / 3)
        assert 3 <= s.interval[0] < s.iqm < s.interval[1] <= 8
        assert s.area == pytest.approx((16 + 6 + 26) / 12)
        assert s.stays == pytest.approx(0.8)

    def test_one_run_has_no_spread_and_an_unknown_task_nothing_solved(self):
        s = stats.summarise(CURVES[:1], None, np.random.default_rng(0))
        assert math.isnan(s.sd)
        assert (s.solved, s.steps) == (None, math.inf)
        assert s.interval == (6, 6)


class TestOverall:
    def test_scores_are_0_for_nothing_and_1_for_the_best_known(self):
        for env, references in stats.REFERENCES.items():
            assert stats.normalise(np.array(references), env).tolist() == [0, 1]
            assert references[0] < stats.SOLVED[env] < references[1] or env == "cartpole"


class TestImprovement:
    OURS = (np.array([1.0, 3.0, 5.0]), np.array([0.2]))
    THEIRS = (np.array([2.0, 3.0]), np.array([0.1, 0.2, 0.3, 0.4]))

    def test_by_hand(self):
        """First task: 0 + 0, 1 + ½, 1 + 1 of 6; second: 1, ½, 0, 0 of 4."""
        found = stats.probability_of_improvement(self.OURS, self.THEIRS)
        assert found == pytest.approx((3.5 / 6 + 1.5 / 4) / 2)

    def test_of_one_task_it_is_mann_whitneys_u(self):
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 5, 12).astype(float), rng.integers(1, 6, 9).astype(float)
        u = scipy.stats.mannwhitneyu(x, y).statistic
        assert stats.probability_of_improvement([x], [y]) == pytest.approx(u / (12 * 9))

    def test_both_chances_add_up_to_one(self):
        there = stats.probability_of_improvement(self.OURS, self.THEIRS)
        assert there + stats.probability_of_improvement(self.THEIRS, self.OURS) == pytest.approx(1)

    def test_its_interval_is_the_slow_one(self):
        found = stats.bootstrap_improvement(
            self.OURS, self.THEIRS, np.random.default_rng(3), level=0.8, draws=50
        )
        rng, drawn = np.random.default_rng(3), []
        for x, y in zip(self.OURS, self.THEIRS, strict=True):
            left = x[rng.integers(len(x), size=(50, len(x)))]
            drawn.append((left, y[rng.integers(len(y), size=(50, len(y)))]))
        slow = [
            stats.probability_of_improvement(*zip(*[(x[k], y[k]) for x, y in drawn], strict=True))
            for k in range(50)
        ]
        assert found == pytest.approx(tuple(np.quantile(slow, [0.1, 0.9])))


class TestProfile:
    STRATA = (np.array([0.2, 0.9, 0.9]), np.array([0.6]))

    def test_by_hand_every_task_counts_the_same(self):
        found = stats.performance_profile(self.STRATA, np.array([0.1, 0.2, 0.7, 0.9]))
        assert found == pytest.approx([1, (2 / 3 + 1) / 2, (2 / 3 + 0) / 2, 0])

    def test_its_band_lies_around_it_and_has_no_width_where_all_runs_agree(self):
        thresholds = np.array([0.1, 0.5, 0.95])
        low, high = stats.bootstrap_profile(self.STRATA, thresholds, np.random.default_rng(0))
        middle = stats.performance_profile(self.STRATA, thresholds)
        assert (low <= middle).all()
        assert (middle <= high).all()
        assert low[1] < high[1]
        assert (low[[0, 2]] == high[[0, 2]]).all()


class TestResampling:
    CURVE = ((10, 1.0), (20, 2.0), (30, 3.0))

    def test_a_mark_has_what_was_known_by_then(self):
        found = stats.resample_curve(self.CURVE, [9, 10, 19, 20, 30], before=-7.0)
        assert found.tolist() == [-7, 1, 1, 2, 3]

    def test_nothing_is_said_beyond_the_end(self):
        with pytest.raises(AssertionError, match="nothing beyond its end"):
            stats.resample_curve(self.CURVE, [31], before=0.0)
