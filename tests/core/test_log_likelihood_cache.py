"""The cache of pairs: what it hands out is what would be computed anew, to the bit, whatever came before."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddopg
from ddopg.config import Config, SelectionConfig, SurrogateConfig
from ddopg.core import log_likelihood_cache as P
from ddopg.core.memory import Memory, add
from ddopg.core.selection import Selection
from ddopg.core.surrogate_data import Sample, prepare
from ddopg.core.time_grid import TimeGrid
from ddopg.core.types import make_trajectory
from ddopg.policies import linear, mlp, squashed

ROWS, HORIZON = 12, 12  # 144 pairs: six calls of the program
POLICIES = {
    "linear": linear(2, 1),
    "squashed": squashed(linear(2, 2), (-1.0, -2.0), (1.0, 2.0)),
    "network": squashed(mlp(2, 1, (16, 16)), (-1.0,), (1.0,)),
}


def path(policy, seed, steps=HORIZON):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(policy.size).astype(np.float32)
    observations = rng.standard_normal((steps, 2)).astype(np.float32)
    actions = policy.act(theta, observations)
    return make_trajectory(theta, observations, actions, rng.standard_normal(steps), horizon=HORIZON)


def key(policy, decisions=0, rows=ROWS):
    return P.CacheKey(
        policy, SurrogateConfig(decisions=decisions), TimeGrid(HORIZON, decisions, 1, 1.0), rows
    )


def table(cache, trajectories, now=0):
    """The log-likelihoods of all pairs of them, (n, n, K)."""
    slots = cache.assign_slots(trajectories, now)
    cache.complete(slots, cache.stack(slots))
    return np.asarray(cache.values)[np.ix_(slots, slots)]


@pytest.fixture
def few_slots(monkeypatch):
    monkeypatch.setattr(P, "MAX_NUMBERS", 0)  # no more than are in use at a time


@pytest.fixture
def computed(monkeypatch):
    """The pairs of slots computed since, without those that fill up a program."""
    found, original = [], P._with_pairs

    def noting(values, pairs, *rest):
        found.extend(zip(pairs.policy_slots.tolist(), pairs.trajectory_slots.tolist(), strict=True))
        return original(values, pairs, *rest)

    monkeypatch.setattr(P, "_with_pairs", noting)
    monkeypatch.setattr(P, "_fill", lambda indices, number: indices)
    return found


@pytest.mark.usefixtures("few_slots")
@pytest.mark.parametrize("decisions", [0, 8])
@pytest.mark.parametrize("name", POLICIES)
def test_whoever_came_and_went_the_numbers_are_those_of_a_new_memo(name, decisions):
    policy = POLICIES[name]
    paths = [path(policy, seed, steps=3 + seed % 10) for seed in range(16)]

    @settings(max_examples=15)
    @given(
        st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=ROWS, unique=True), min_size=1, max_size=8)
    )
    def check(visits):
        cache = P.LogLikelihoodCache(key(policy, decisions))
        for now, visit in enumerate(visits):
            chosen = [paths[k] for k in visit]
            again = table(P.LogLikelihoodCache(key(policy, decisions)), chosen[::-1])[::-1, ::-1]
            np.testing.assert_array_equal(table(cache, chosen, now), again)

    check()


def test_one_more_trajectory_costs_one_row_and_one_column(computed):
    cache, paths = P.LogLikelihoodCache(key(POLICIES["linear"])), []
    for number in range(1, ROWS + 1):
        paths.append(path(POLICIES["linear"], number))
        table(cache, paths, number)
        assert len(computed) == len(set(computed)) == number**2
    table(cache, [paths[3], paths[0]], 9)
    assert len(computed) == ROWS**2


@pytest.mark.usefixtures("few_slots")
def test_those_used_longest_ago_are_forgotten_first(computed):
    cache, policy = P.LogLikelihoodCache(key(POLICIES["linear"], rows=3)), POLICIES["linear"]
    a, b, c, d = (path(policy, seed) for seed in range(4))
    for now, visit in enumerate(([a], [b], [c], [a], [d])):  # d takes the place of b
        table(cache, visit, now)
    computed.clear()
    table(cache, [c, a, d], 5)
    assert len(computed) == 6  # each knows itself
    computed.clear()
    table(cache, [b], 6)
    assert len(computed) == 1


def test_states_that_share_a_memo_do_not_mislead_each_other():
    """The same number in the memory, but another trajectory: as after a `tell` that could not be stored."""
    policy, everything = POLICIES["linear"], Selection(np.arange(3), np.ones(3, int))
    config = Config(selection=SelectionConfig(size=ROWS))
    first = add(add(Memory(), path(policy, 1)), path(policy, 2))
    held = (np.zeros(policy.size, np.float32), policy, config)
    both = Selection(np.arange(2), np.ones(2, int))
    _, cache = prepare(first, Sample(both, np.ones(policy.size, np.float32), 1.0), *held)
    for seed in (3, 4, 3):
        forked = add(first, path(policy, seed))
        sample = Sample(everything, np.ones(policy.size, np.float32), 1.0)
        shared, cache = prepare(forked, sample, *held, cache)
        alone, _ = prepare(forked, sample, *held)
        np.testing.assert_array_equal(shared.log_p, alone.log_p)


def test_a_copy_of_a_state_goes_on_like_the_state():
    agent, other = (ddopg.DDOPG("ddopg/Cartpole-v0", seed=2, preset="trajectory") for _ in range(2))
    agent.learn(total_episodes=12)
    other.state = copy.deepcopy(agent.state)
    for one in (agent, other):
        one.learn(total_episodes=20)
    assert agent.incumbent.theta.tobytes() == other.incumbent.theta.tobytes()


def test_another_stride_policy_or_length_scale_begins_anew():
    policy = POLICIES["linear"]
    memory = add(add(Memory(), path(policy, 1, 3)), path(policy, 2, 4))

    def told(memory, cache, length_scale=1.0, decisions=4):
        surrogate = SurrogateConfig(length_scale=(length_scale,), decisions=decisions)
        config = Config(surrogate=surrogate, selection=SelectionConfig(size=ROWS))
        everything = Selection(np.arange(memory.size), np.ones(memory.size, int))
        arguments = (Sample(everything, np.ones(policy.size), 1.0), np.zeros(policy.size), policy, config)
        data, cache = prepare(memory, *arguments, cache)
        anew, _ = prepare(memory, *arguments)
        np.testing.assert_array_equal(data.log_p, anew.log_p)
        return cache

    cache = told(memory, None)
    assert cache.key.grid.stride == 1
    assert told(memory, cache) is cache
    memory = add(memory, path(policy, 3, 12))
    cache = told(memory, cache)
    assert cache.key.grid.stride == 5
    told(memory, cache, length_scale=0.5)
    told(memory, cache, decisions=0)


def test_a_failure_while_computing_leaves_a_memo_that_works(monkeypatch):
    policy = POLICIES["linear"]
    cache, paths = P.LogLikelihoodCache(key(policy)), [path(policy, seed) for seed in range(3)]
    expected = table(cache, paths)

    def failing(values, *rest):
        values.delete()  # as a program does with what is donated to it
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(P, "_with_pairs", failing)
        with pytest.raises(MemoryError):
            table(cache, [*paths, path(policy, 9)])
    np.testing.assert_array_equal(table(cache, paths), expected)


def test_rewards_come_in_the_unit_asked_for():
    cache, one = P.LogLikelihoodCache(key(POLICIES["linear"])), path(POLICIES["linear"], 1)
    slots = cache.assign_slots([one], 0)
    for worth in (1.0, 4.0, 1.0):
        rewards = cache.stack(slots, worth).rewards
        assert rewards[0].tolist() == pytest.approx([one.rewards.sum() / worth])


def test_the_table_does_not_outgrow_its_bound():
    for decisions in (0, 8):
        values = P.LogLikelihoodCache(key(POLICIES["linear"], decisions)).values
        assert 2**19 < values.size <= P.MAX_NUMBERS
    assert len(P.LogLikelihoodCache(key(POLICIES["linear"], rows=1500)).values) == 1500
