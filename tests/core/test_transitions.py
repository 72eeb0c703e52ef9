"""Every step of every trajectory as rows: successors, ends, padding, what is forgotten."""

import numpy as np
import pytest

from ddopg.core.memory import Memory, add
from ddopg.core.transitions import FEWEST, LARGEST, collect_transitions, deviation_of, standardise
from ddopg.core.types import make_trajectory


def path(steps, first, terminated=False):
    """Observations and rewards that count upwards, so that rows can be recognised."""
    numbers = np.arange(first, first + steps, dtype=float)
    return make_trajectory(
        np.zeros(1), numbers[:, None], -numbers[:, None], 10 * numbers, horizon=5, terminated=terminated
    )


def memory_of(*paths):
    memory = Memory()
    for one in paths:
        memory = add(memory, one)
    return memory


def known(transitions):
    return np.asarray(transitions.known)[: int(transitions.number)].tolist()


def test_steps_follow_each_other_without_their_padding():
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    assert int(found.steps) == 5
    assert np.asarray(found.observations)[:6, 0].tolist() == [1, 2, 3, 7, 8, 0]
    assert np.asarray(found.actions)[:5, 0].tolist() == [-1, -2, -3, -7, -8]
    spread = np.std([10, 20, 30, 70, 80])
    np.testing.assert_allclose(found.rewards[:5], np.array([10, 20, 30, 70, 80]) / spread, rtol=1e-6)


def test_observations_are_standardised_whatever_their_size_and_outliers_are_cut():
    rng = np.random.default_rng(0)
    for size in (1e-30, 1.0, 1e30):
        found = standardise((size * (3 + rng.standard_normal((500, 2)))).astype(np.float32))
        np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(found.std(axis=0), 1, rtol=1e-5)
    alone = np.zeros((500, 1), np.float32)
    assert not standardise(alone).any(), "what never changes says nothing"
    alone[3] = 1.0
    assert standardise(alone).max() == LARGEST


def test_a_deviation_is_found_for_numbers_of_any_size():
    for size in (1e-300, 1.0, 1e300):
        assert deviation_of(size * np.array([1.0, 3.0])) == pytest.approx(size)
    assert deviation_of(np.array([2.0, 2.0])) == 1


def test_the_last_step_before_a_time_limit_has_no_known_successor():
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    assert known(found) == [0, 1, 3]
    assert not np.asarray(found.ends).any()


def test_the_last_step_of_a_task_that_ended_is_learnt_from_and_nothing_follows():
    found = collect_transitions(memory_of(path(3, 1, terminated=True), path(2, 7)))
    assert known(found) == [0, 1, 2, 3]
    assert np.flatnonzero(found.ends).tolist() == [2]


def test_arrays_have_room_for_a_power_of_two():
    assert len(collect_transitions(memory_of(path(3, 1))).rewards) == FEWEST
    many = memory_of(*(path(5, 5 * k) for k in range(FEWEST // 5 + 1)))
    assert len(collect_transitions(many).rewards) == 2 * FEWEST


def test_beyond_the_capacity_the_oldest_trajectories_are_forgotten_whole():
    found = collect_transitions(memory_of(path(3, 1), path(3, 11), path(3, 21)), capacity=7)
    assert np.asarray(found.observations)[: int(found.steps), 0].tolist() == [11, 12, 13, 21, 22, 23]
    assert int(collect_transitions(memory_of(path(3, 1)), capacity=1).steps) == 3, "the newest always stays"
