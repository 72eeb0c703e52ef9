"""The memory and its selection rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddopg.config import SelectionConfig
from ddopg.core.memory import Memory, add, count_rows, find_rows, with_columns
from ddopg.core.selection import select, softmax_probabilities
from ddopg.core.types import Trajectory, make_trajectory
from ddopg.errors import TrajectoryError
from tests import reference

returns = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, allow_subnormal=False))


def trajectory(steps=3, sizes=(2, 1), horizon=5, reward=1.0):
    observations, actions = np.ones((steps, sizes[0])), np.zeros((steps, sizes[1]))
    return make_trajectory(np.zeros(3), observations, actions, np.full(steps, reward), horizon=horizon)


class TestAdd:
    def test_a_memory_grows_and_the_old_one_stays(self):
        empty = Memory()
        one = add(empty, trajectory())
        two = add(one, trajectory(reward=2.0))
        assert (empty.size, one.size, two.size) == (0, 1, 2)
        assert two.returns.tolist() == [3.0, 6.0]

    def test_the_longest_episode_is_remembered(self):
        memory = add(add(add(Memory(), trajectory(2)), trajectory(4)), trajectory(3))
        assert memory.longest == 4

    def test_returns_are_discounted_when_asked(self):
        assert add(Memory(), trajectory(), discount=0.5).returns.tolist() == [1 + 0.5 + 0.25]

    @pytest.mark.parametrize(
        ("other", "name"),
        [
            ({"horizon": 6}, "observations"),
            ({"sizes": (2, 2)}, "actions"),
            ({"sizes": (3, 1)}, "observations"),
        ],
    )
    def test_another_shape_is_refused_with_both_shapes(self, other, name):
        memory = add(Memory(), trajectory())
        with pytest.raises(TrajectoryError, match=rf"{name} have shape \(.*\), the memory holds \(.*\)"):
            add(memory, trajectory(**other))


class TestColumns:
    PURPOSES = ("design", "critic", "explore", "critic", "noisy", "explore", "explore")

    def memory(self):
        found = Memory()
        for steps, purpose in enumerate(self.PURPOSES, start=1):
            found = add(found, trajectory(min(steps, 5)), purpose=purpose)
        return found

    def test_the_columns_that_are_carried_along_are_those_of_a_memory_put_together(self):
        memory = self.memory()
        again = with_columns(memory._replace(columns=None))
        assert memory.lengths.tolist() == again.lengths.tolist() == [1, 2, 3, 4, 5, 5, 5]
        assert memory.lengths.dtype == again.lengths.dtype
        assert memory.columns.rows.keys() == again.columns.rows.keys()
        for purpose, rows in memory.columns.rows.items():
            np.testing.assert_array_equal(rows, again.columns.rows[purpose], strict=True)

    def test_rows_of_some_purposes_come_oldest_first(self):
        for memory in (self.memory(), self.memory()._replace(columns=None)):
            assert find_rows(memory, "explore", "critic").tolist() == [1, 2, 3, 5, 6]
            assert find_rows(memory, "noisy").tolist() == [4]
            assert find_rows(memory, "check").tolist() == []
            assert count_rows(memory, "explore", "critic", "check") == 5

    def test_a_fork_has_columns_of_its_own(self):
        memory = self.memory()
        one, other = add(memory, trajectory(1), purpose="check"), add(memory, trajectory(2), purpose="noisy")
        assert (one.lengths[-1], other.lengths[-1], len(memory.lengths)) == (1, 2, 7)
        assert find_rows(one, "noisy").tolist() == [4]
        assert find_rows(other, "noisy").tolist() == [4, 7]

    def test_a_rollout_is_counted_once_however_many_follow(self, monkeypatch):
        counted, original = [], Trajectory.length.fget
        monkeypatch.setattr(
            Trajectory, "length", property(lambda path: counted.append(path) or original(path))
        )
        self.memory()
        assert len(counted) == len(self.PURPOSES)


class TestSoftmax:
    def test_agrees_with_the_oracle(self):
        R = [3.0, -1.0, 4.0, 1.5]
        for temperature in (0.05, 0.1, 2.0):
            np.testing.assert_allclose(
                softmax_probabilities(np.array(R), temperature), reference.softmax(R, temperature), rtol=1e-12
            )

    @given(returns, st.floats(0.001, 100))
    def test_probabilities_sum_to_one_and_follow_the_returns(self, R, temperature):
        p = softmax_probabilities(R, temperature)
        assert p.sum() == pytest.approx(1)
        assert np.all(np.diff(p[np.argsort(R)]) >= -1e-12)

    @given(returns.filter(lambda r: np.ptp(r) > 1e-3), st.floats(0.1, 10), st.floats(-100, 100))
    def test_units_and_offset_of_the_reward_do_not_matter(self, R, factor, offset):
        p = softmax_probabilities(R, 0.3)
        np.testing.assert_allclose(softmax_probabilities(factor * R + offset, 0.3), p, atol=1e-4)

    def test_cold_takes_the_best_and_hot_takes_all_alike(self):
        R = np.array([0.0, 1.0, 5.0])
        np.testing.assert_allclose(softmax_probabilities(R, 1e-3), [0, 0, 1], atol=1e-12)
        np.testing.assert_allclose(softmax_probabilities(R, 1e6), [1 / 3] * 3, atol=1e-6)

    def test_equal_returns_have_equal_chances(self):
        np.testing.assert_allclose(softmax_probabilities(np.full(4, 7.0), 0.1), [0.25] * 4)


RULES = [
    SelectionConfig(size=8),
    SelectionConfig(size=8, replacement=False),
    SelectionConfig(size=8, keep_last=3),
    SelectionConfig(size=8, keep_last=3, replacement=False),
    SelectionConfig(size=8, keep_last=8, replacement=False),
    SelectionConfig(size=8, rule="latest"),
    SelectionConfig(size=8, rule="rank"),
    SelectionConfig(size=8, rule="rank", replacement=False, keep_last=2),
    SelectionConfig(size=8, rule="uniform", replacement=False),
    SelectionConfig(size=8, rule="best", replacement=False),
]


class TestSelect:
    @pytest.mark.parametrize("rule", RULES, ids=str)
    @given(returns, st.integers(0, 9))
    def test_every_rule_keeps_its_promises(self, rule, R, seed):
        indices, counts = select(np.random.default_rng(seed), R, rule)
        n = len(R)
        assert len(set(indices)) == len(indices) == len(counts) <= rule.size
        assert np.all((indices >= 0) & (indices < n))
        assert np.all(counts >= 1)
        assert set(range(n - min(rule.keep_last, n), n)) <= set(indices)
        if rule.replacement and rule.rule in ("softmax", "rank"):
            assert counts.sum() == rule.size
        else:
            assert counts.sum() == len(counts) == min(n, rule.size)

    def test_draws_follow_the_softmax(self):
        R = np.array([0.0, 0.5, 1.0])
        config = SelectionConfig(size=30_000, temperature=0.5)
        indices, counts = select(np.random.default_rng(0), R, config)
        np.testing.assert_allclose(counts / 30_000, softmax_probabilities(R, 0.5)[indices], atol=0.01)

    def test_without_replacement_fills_up_with_the_impossible_ones(self):
        R = np.array([0.0] * 20 + [1.0] * 2)
        config = SelectionConfig(size=6, temperature=1e-4, replacement=False)
        filled = [select(np.random.default_rng(seed), R, config).indices for seed in range(50)]
        assert all({20, 21} < set(indices) and len(indices) == 6 for indices in filled)
        assert len({tuple(indices) for indices in filled}) > 25

    def test_latest_takes_the_latest(self):
        indices, _ = select(np.random.default_rng(0), np.arange(20.0), SelectionConfig(size=4, rule="latest"))
        assert list(indices) == [16, 17, 18, 19]

    def test_best_takes_the_best(self):
        R = np.array([3.0, 9.0, 1.0, 7.0, 5.0])
        indices, _ = select(np.random.default_rng(0), R, SelectionConfig(size=3, rule="best"))
        assert list(indices) == [1, 3, 4]

    def test_an_outlier_stretches_the_softmax_but_not_the_ranks(self):
        R = np.array([0.0, 1.0, 2.0, 1e6])

        def shares(rule):
            config = SelectionConfig(size=20_000, temperature=0.5, rule=rule)
            indices, counts = select(np.random.default_rng(0), R, config)
            return dict(zip(indices.tolist(), counts / 20_000, strict=True))

        ranked, plain = shares("rank"), shares("softmax")
        expected = reference.softmax([0.0, 1.0, 2.0, 3.0], 0.5)
        assert [ranked[i] for i in range(4)] == pytest.approx(expected, abs=0.015)
        assert plain[2] == pytest.approx(plain[0], abs=0.015)

    def test_uniform_does_not_look_at_the_returns(self):
        config = SelectionConfig(size=2, rule="uniform", replacement=False)
        drawn = [select(np.random.default_rng(s), np.arange(4.0), config).indices for s in range(2000)]
        np.testing.assert_allclose(np.bincount(np.concatenate(drawn)) / 4000, [0.25] * 4, atol=0.02)

    def test_the_same_generator_selects_the_same(self):
        R = np.random.default_rng(1).standard_normal(100)
        draws = [select(np.random.default_rng(5), R, RULES[3]).indices.tolist() for _ in range(2)]
        assert draws[0] == draws[1]
