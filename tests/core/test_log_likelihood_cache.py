"""The memo of pairs: what it hands out is what would be computed anew, to the bit, whatever happened to it before."""

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
from ddopg.core.surrogate_data import prepare
from ddopg.core.time_grid import View
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


def kind(policy, decisions=0, rows=ROWS):
    return P.Kind(policy, SurrogateConfig(decisions=decisions), View(HORIZON, decisions, 1, 1.0), rows)


def table(memo, trajectories, now=0):
    """The log-likelihoods of all pairs of them, (n, n, K)."""
    seats = memo.seat(trajectories, now)
    memo.complete(seats, memo.stacked(seats))
    return np.asarray(memo.values)[np.ix_(seats, seats)]


@pytest.fixture
def few_seats(monkeypatch):
    monkeypatch.setattr(P, "MOST_NUMBERS", 0)  # no more than are in use at a time


@pytest.fixture
def computed(monkeypatch):
    """The pairs of seats computed since, without those that fill up a program."""
    found, original = [], P._with_pairs

    def noting(values, policy, config, i, j, seats_i, seats_j, *rest):
        found.extend(zip(seats_i.tolist(), seats_j.tolist(), strict=True))
        return original(values, policy, config, i, j, seats_i, seats_j, *rest)

    monkeypatch.setattr(P, "_with_pairs", noting)
    monkeypatch.setattr(P, "_fill", lambda indices, number: indices)
    return found


@pytest.mark.usefixtures("few_seats")
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
        memo = P.Pairs(kind(policy, decisions))
        for now, visit in enumerate(visits):
            chosen = [paths[k] for k in visit]
            again = table(P.Pairs(kind(policy, decisions)), chosen[::-1])[::-1, ::-1]
            np.testing.assert_array_equal(table(memo, chosen, now), again)

    check()


def test_one_more_trajectory_costs_one_row_and_one_column(computed):
    memo, paths = P.Pairs(kind(POLICIES["linear"])), []
    for number in range(1, ROWS + 1):
        paths.append(path(POLICIES["linear"], number))
        table(memo, paths, number)
        assert len(computed) == len(set(computed)) == number**2
    table(memo, [paths[3], paths[0]], 9)
    assert len(computed) == ROWS**2


@pytest.mark.usefixtures("few_seats")
def test_those_used_longest_ago_are_forgotten_first(computed):
    memo, policy = P.Pairs(kind(POLICIES["linear"], rows=3)), POLICIES["linear"]
    a, b, c, d = (path(policy, seed) for seed in range(4))
    for now, visit in enumerate(([a], [b], [c], [a], [d])):  # d takes the place of b
        table(memo, visit, now)
    computed.clear()
    table(memo, [c, a, d], 5)
    assert len(computed) == 6  # each knows itself
    computed.clear()
    table(memo, [b], 6)
    assert len(computed) == 1


def test_states_that_share_a_memo_do_not_mislead_each_other():
    """The same number in the memory, but another trajectory: as after a `tell` that could not be stored."""
    policy, everything = POLICIES["linear"], Selection(np.arange(3), np.ones(3, int))
    config = Config(selection=SelectionConfig(size=ROWS))
    first = add(add(Memory(), path(policy, 1)), path(policy, 2))
    held = (np.zeros(policy.size, np.float32), np.ones(policy.size, np.float32), policy, config)
    first, _ = prepare(first, Selection(np.arange(2), np.ones(2, int)), *held)
    for seed in (3, 4, 3):
        forked = add(first, path(policy, seed))
        _, shared = prepare(forked, everything, *held)
        _, alone = prepare(forked._replace(pairs=None), everything, *held)
        np.testing.assert_array_equal(shared.table, alone.table)


def test_a_copy_of_a_state_goes_on_like_the_state():
    agent, other = (ddopg.DDOPG("ddopg/Cartpole-v0", seed=2) for _ in range(2))
    agent.learn(total_episodes=12)
    other.state = copy.deepcopy(agent.state)
    for one in (agent, other):
        one.learn(total_episodes=60)
    assert agent.incumbent.theta.tobytes() == other.incumbent.theta.tobytes()
    assert copy.copy(agent.state.memory.pairs) is None


def test_another_stride_policy_or_length_scale_begins_anew():
    policy = POLICIES["linear"]
    memory = add(add(Memory(), path(policy, 1, 3)), path(policy, 2, 4))

    def table_of(memory, number, length_scale=1.0, decisions=4):
        surrogate = SurrogateConfig(length_scale=(length_scale,), decisions=decisions)
        config = Config(surrogate=surrogate, selection=SelectionConfig(size=ROWS))
        selection = Selection(np.arange(number), np.ones(number, int))
        arguments = (selection, np.zeros(policy.size), np.ones(policy.size), policy, config)
        kept, evidence = prepare(memory, *arguments)
        _, anew = prepare(memory._replace(pairs=None), *arguments)
        np.testing.assert_array_equal(evidence.table, anew.table)
        return kept

    memory = add(table_of(memory, 2), path(policy, 3, 12))
    assert memory.pairs.kind.view.stride == 1
    memory = table_of(memory, 3)
    assert memory.pairs.kind.view.stride == 5
    table_of(memory, 3, length_scale=0.5)
    table_of(memory, 3, decisions=0)


def test_a_failure_while_computing_leaves_a_memo_that_works(monkeypatch):
    policy = POLICIES["linear"]
    memo, paths = P.Pairs(kind(policy)), [path(policy, seed) for seed in range(3)]
    expected = table(memo, paths)

    def failing(values, *rest):
        values.delete()  # as a program does with what is donated to it
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(P, "_with_pairs", failing)
        with pytest.raises(MemoryError):
            table(memo, [*paths, path(policy, 9)])
    np.testing.assert_array_equal(table(memo, paths), expected)


def test_rewards_come_in_the_unit_asked_for():
    memo, one = P.Pairs(kind(POLICIES["linear"])), path(POLICIES["linear"], 1)
    seats = memo.seat([one], 0)
    for worth in (1.0, 4.0, 1.0):
        rewards = memo.stacked(seats, worth).rewards
        assert rewards[0].tolist() == pytest.approx([one.rewards.sum() / worth])


def test_the_table_does_not_outgrow_its_bound():
    for decisions in (0, 8):
        values = P.Pairs(kind(POLICIES["linear"], decisions)).values
        assert 2**19 < values.size <= P.MOST_NUMBERS
    assert len(P.Pairs(kind(POLICIES["linear"], rows=1500)).values) == 1500
