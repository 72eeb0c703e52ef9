"""Selection rules and the seats of the pair table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddopg.config import SelectionConfig
from ddopg.data import make_trajectory
from ddopg.errors import ArtefactError, TrajectoryError
from ddopg.memory import Memory, Pairs, add, check_pairs, seat, select, softmax_probabilities
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
        assert two.returns == (3.0, 6.0)

    def test_the_longest_episode_is_remembered(self):
        memory = add(add(add(Memory(), trajectory(2)), trajectory(4)), trajectory(3))
        assert memory.longest == 4

    def test_returns_are_discounted_when_asked(self):
        assert add(Memory(), trajectory(), discount=0.5).returns == (1 + 0.5 + 0.25,)

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


class TestSeats:
    @given(
        st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True), min_size=1, max_size=12)
    )
    def test_a_kept_seat_keeps_its_pairs_and_a_new_owner_knows_nothing(self, visits):
        pairs, known = Memory().pairs, {}
        for now, visit in enumerate(visits):
            indices = np.array(visit)
            pairs, seats = seat(pairs, indices, now, most=100)
            assert list(pairs.owner[seats]) == visit
            assert len(pairs.owner) <= 12
            block = pairs.values[np.ix_(seats, seats)]
            held = {int(o) for o in pairs.owner if o >= 0}
            known = {pair: value for pair, value in known.items() if held.issuperset(pair)}
            for (a, i), (b, j) in ((x, y) for x in enumerate(visit) for y in enumerate(visit)):
                expected = known.get((i, j), np.nan)
                np.testing.assert_equal(block[a, b, 0], np.float32(expected))
                known[i, j] = 100 * i + j
                pairs.values[seats[a], seats[b]] = 100 * i + j

    def test_the_longest_unused_leaves_first(self):
        pairs = Memory().pairs
        for now, index in enumerate([0, 1, 2, 3]):
            pairs, _ = seat(pairs, np.array([index]), now, most=16)
        pairs, _ = seat(pairs, np.array([0]), 4, most=16)
        pairs, _ = seat(pairs, np.array([9]), 5, most=16)
        assert sorted(pairs.owner) == [0, 2, 3, 9]

    def test_the_old_table_is_not_changed(self):
        pairs, seats = seat(Memory().pairs, np.array([0, 1]), 0)
        pairs.values[np.ix_(seats, seats)] = 1.0
        before = Pairs(*(np.copy(a) for a in pairs))
        seat(pairs, np.array([5, 6, 7, 8]), 1, most=16)
        for a, b in zip(pairs, before, strict=True):
            np.testing.assert_array_equal(a, b)


class TestCheckOfPairs:
    """A table read from a file must fit the trajectories; K = 2 here."""

    def memory(self, **changes):
        whole = Memory()
        for k in range(3):
            whole = add(whole, trajectory(reward=float(k)))
        pairs = Pairs(np.array([0, 2, -1]), np.array([3, 3, -1]), np.zeros((3, 3, 2), np.float32), 1)
        return whole._replace(pairs=pairs._replace(**changes))

    def test_a_table_that_fits_is_taken(self):
        check_pairs(self.memory(), 2)
        check_pairs(Memory(), 2)

    @pytest.mark.parametrize(
        "changes",
        [
            {"owner": np.array([0, 0, -1])},
            {"owner": np.array([0, 3, -1])},
            {"owner": np.array([0, 2])},
            {"owner": np.array([0.0, 2.0, -1.0])},
            {"used": np.array([3, 3])},
            {"values": np.zeros((3, 3, 5), np.float32)},
            {"values": np.zeros((3, 3), np.float32)},
            {"values": np.zeros((3, 3, 2), np.float64)},
            {"stride": 0},
        ],
    )
    def test_one_that_does_not_is_refused(self, changes):
        with pytest.raises(ArtefactError, match="table of pairs does not fit"):
            check_pairs(self.memory(**changes), 2)

    def test_a_wrong_longest_episode_is_refused(self):
        with pytest.raises(ArtefactError, match="does not fit the trajectories"):
            check_pairs(self.memory()._replace(longest=9), 2)
