"""Every step of every trajectory as rows: successors, ends, padding, what is forgotten."""

import math

import numpy as np
import pytest

from ddopg.core import transitions as T
from ddopg.core.memory import Memory, add
from ddopg.core.transitions import ROOMS, VALUES_SPAN, TransitionCache, observation_moments, returns_to_come
from ddopg.core.transitions import collect_transitions as collect
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


def collect_transitions(memory, discount=0.9, **options):
    return collect(memory, discount, **options)


def known(transitions):
    return np.asarray(transitions.known)[: int(transitions.number)].tolist()


def test_steps_follow_each_other_without_their_padding():
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    assert int(found.steps) == 5
    assert np.asarray(found.observations)[:6, 0].tolist() == [1, 2, 3, 7, 8, 0]
    assert np.asarray(found.actions)[:5, 0].tolist() == [-1, -2, -3, -7, -8]
    scale = math.exp(found.log_scale)
    np.testing.assert_allclose(scale * np.asarray(found.rewards)[:5], [10, 20, 30, 70, 80], rtol=1e-5)


def test_the_scale_and_the_zero_of_values_come_from_the_returns_to_come():
    """10 + 0.9 (20 + 0.9 · 30), …: as far as each episode was seen."""
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    to_come = np.array([10 + 0.9 * (20 + 0.9 * 30), 20 + 0.9 * 30, 30, 70 + 0.9 * 80, 80])
    np.testing.assert_allclose(returns_to_come(np.array([10.0, 20, 30]), 0.9), to_come[:3])
    scale = math.exp(found.log_scale)
    assert scale == pytest.approx(np.sqrt(np.mean(to_come**2)) / VALUES_SPAN, rel=1e-5)
    assert scale * float(found.zero) == pytest.approx(to_come.mean(), rel=1e-5)
    nothing = path(3, 1)._replace(rewards=np.zeros(5))
    assert float(collect_transitions(memory_of(nothing)).log_scale) == 0, (
        "a scale even where nothing is earned"
    )


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_rewards_of_any_size_are_the_same_in_scales(size):
    plain, odd = (
        collect_transitions(memory_of(path(3, 1)._replace(rewards=unit * path(3, 1).rewards)))
        for unit in (1.0, size)
    )
    np.testing.assert_allclose(odd.rewards[:3], plain.rewards[:3], rtol=1e-6)
    assert float(odd.zero) == pytest.approx(float(plain.zero), rel=1e-6)
    assert float(odd.log_scale - plain.log_scale) == pytest.approx(math.log(size), rel=1e-5)


def test_mean_and_deviation_are_of_the_steps_that_happened():
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    assert float(found.mean[0]) == pytest.approx(np.mean([1, 2, 3, 7, 8]))
    assert float(found.deviation[0]) == pytest.approx(np.std([1, 2, 3, 7, 8]))
    still = path(3, 1)._replace(observations=np.full((5, 1), 2.0, np.float32))
    assert float(collect_transitions(memory_of(still)).deviation[0]) == 1, "what never changes says nothing"


@pytest.mark.parametrize(("size", "shift"), [(1e-30, 0.0), (1.0, 1e4), (1e30, -1e30)])
def test_the_moments_of_trajectories_are_put_together_to_those_of_all_steps(size, shift):
    rng = np.random.default_rng(0)
    parts = [
        (shift + size * rng.standard_normal((n, 2)) * k).astype(np.float32) for k, n in enumerate((1, 5, 3))
    ]
    zeros = [np.zeros((len(part), 1)) for part in parts]
    memory = memory_of(
        *(make_trajectory(np.zeros(1), o, z, z[:, 0], horizon=5) for o, z in zip(parts, zeros, strict=True))
    )
    every = np.concatenate(parts).astype(np.float64) / size
    for mean, deviation in (
        observation_moments(memory),
        (collect_transitions(memory).mean, collect_transitions(memory).deviation),
    ):
        np.testing.assert_allclose(np.float64(mean) / size, every.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(np.float64(deviation) / size, every.std(axis=0), rtol=1e-6)


def test_the_last_step_before_a_time_limit_has_no_known_successor():
    found = collect_transitions(memory_of(path(3, 1), path(2, 7)))
    assert known(found) == [0, 1, 3]
    assert not np.asarray(found.ends).any()


def test_the_last_step_of_a_task_that_ended_is_learnt_from_and_nothing_follows():
    found = collect_transitions(memory_of(path(3, 1, terminated=True), path(2, 7)))
    assert known(found) == [0, 1, 2, 3]
    assert np.flatnonzero(found.ends).tolist() == [2]


def test_arrays_have_few_sizes():
    assert len(collect_transitions(memory_of(path(3, 1))).rewards) == ROOMS[0]
    many = memory_of(*[path(5, 5)] * (ROOMS[0] // 5 + 1))
    assert len(collect_transitions(many).rewards) == ROOMS[1]


def test_beyond_the_capacity_the_oldest_trajectories_are_forgotten_whole():
    found = collect_transitions(memory_of(path(3, 1), path(3, 11), path(3, 21)), capacity=7)
    assert np.asarray(found.observations)[: int(found.steps), 0].tolist() == [11, 12, 13, 21, 22, 23]
    assert int(collect_transitions(memory_of(path(3, 1)), capacity=1).steps) == 3, "the newest always stays"


def same(found, expected):
    for name, one, other in zip(found._fields, found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True, err_msg=name)


@pytest.mark.parametrize("capacity", [7, 40, 10_000])
def test_what_is_appended_is_to_the_bit_what_is_collected_anew(capacity):
    rng, memory, cache = np.random.default_rng(1), Memory(), TransitionCache(capacity)
    for _ in range(60):
        steps = int(rng.integers(1, 6))
        numbers = rng.standard_normal((steps, 2))
        ended = bool(rng.integers(2))
        memory = add(
            memory, make_trajectory([0.0], numbers, -numbers, 9 * numbers[:, 0], horizon=5, terminated=ended)
        )
        if rng.random() < 0.7:  # several at a time, now and then
            same(cache.collect(memory, 0.9), collect_transitions(memory, capacity=capacity))


def test_memories_that_share_a_cache_do_not_mislead_each_other():
    cache, start = TransitionCache(), memory_of(path(3, 1), path(2, 7))
    for memory in (
        start,
        add(start, path(2, 20)),
        add(start, path(2, 30)),
        start,
        memory_of(path(3, 1), path(2, 7)),
        add(add(start, path(2, 30)), path(1, 2)),
    ):
        same(cache.collect(memory, 0.9), collect_transitions(memory))
    same(cache.collect(start, 0.5), collect_transitions(start, 0.5))


def test_a_trajectory_is_taken_apart_once(monkeypatch):
    taken, original, cache, memory = [], T._rows_of, TransitionCache(), Memory()
    monkeypatch.setattr(T, "_rows_of", lambda path, discount: taken.append(path) or original(path, discount))
    for k in range(10):
        memory = add(memory, path(3, k))
        cache.collect(memory, 0.9)
    assert len(taken) == 10


def test_what_was_handed_out_stays_when_more_is_collected():
    cache, memory = TransitionCache(), memory_of(path(3, 1))
    first = cache.collect(memory, 0.9)
    before = [np.array(part) for part in first]
    for k in range(5):
        memory = add(memory, path(4, 10 * k))
        cache.collect(memory, 0.9)
    for part, held in zip(first, before, strict=True):
        np.testing.assert_array_equal(part, held)


def test_an_interruption_leaves_nothing_false(monkeypatch):
    cache, memory = TransitionCache(), memory_of(path(3, 1), path(2, 7))
    cache.collect(memory, 0.9)
    more = add(memory, path(4, 11))
    with monkeypatch.context() as patch:
        patch.setattr(T, "_moments_of", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache.collect(more, 0.9)
    same(cache.collect(more, 0.9), collect_transitions(more))
