"""The search by a Gaussian process: what it proposes is a function of the memory, and within the bounds."""

import numpy as np
import pytest

import ddopg
from ddopg.controllers import Parameter, black_box, controller, movement_primitive, returns_only
from ddopg.core import process_search
from ddopg.support.records import change
from tests.probes import Follow

GAIN = Parameter("gain", 0.5, bounds=(-3.0, 3.0))
CONFIG = ddopg.preset("default")


def act(p, seen):
    return [p["gain"] * seen[0]]


def size_of(make, **options):
    return make([GAIN], act, 1, 1, **options)


def test_few_declared_parameters_are_searched_by_the_process_and_nothing_else_is():
    few = size_of(controller)
    assert process_search.is_process_search(few, CONFIG)
    assert process_search.is_process_search(few, ddopg.preset("default")), (
        "declared parameters have no critic"
    )
    assert not process_search.is_process_search(few, change(CONFIG, {"search.method": "gradient"}))
    assert not process_search.is_process_search(ddopg.policies.linear(1, 1), CONFIG)
    fixed = Parameter("stiffness", 1.0, fixed=True)
    many = movement_primitive(
        14, range(7), range(7, 14), duration=9, weight=GAIN, stiffness=fixed,
        damping=fixed._replace(name="damping"),
    )  # fmt: skip
    assert not process_search.is_process_search(many, CONFIG)


@pytest.mark.parametrize("make", [controller, black_box])
def test_it_finds_the_gain_that_follows(make):
    agent = ddopg.DDOPG(Follow(), policy=size_of(make), seed=3).learn(total_episodes=14)
    assert -1.4 < agent.incumbent.parameters["gain"] < -0.6


def test_the_incumbent_is_a_policy_that_was_rolled_out_with_what_it_earned():
    agent = ddopg.DDOPG(Follow(), policy=size_of(controller), seed=3).learn(total_episodes=12)
    rows = [np.array_equal(t.theta, agent.incumbent.theta) for t in agent.state.memory.trajectories]
    assert any(rows)
    earned = agent.state.memory.returns[rows.index(True)]
    spread = np.ptp(agent.state.memory.returns)
    assert abs(agent.state.incumbent.value - earned) < 0.2 * spread


def test_proposals_that_wait_are_not_proposed_again():
    agent = ddopg.DDOPG(Follow(), policy=size_of(controller), seed=3).learn(total_episodes=8)
    asked = np.array([proposal.theta[0] for proposal in agent.ask(3)])
    assert np.min(np.abs(np.subtract.outer(asked, asked)[np.triu_indices(3, 1)])) > 1e-3


def test_with_returns_alone_there_are_only_parameters_to_compare():
    agent = ddopg.tune_controller(lambda p: -((p["gain"] - 2) ** 2), [GAIN], rollouts=12).agent
    features = process_search.make_features(agent.state.memory, agent.policy)
    assert len(features(np.zeros((3, 1)))) == 1
    assert agent.incumbent.parameters["gain"] == pytest.approx(2, abs=0.3)


def test_of_many_rollouts_the_best_and_the_latest_are_kept():
    returns = -np.abs(np.arange(400.0) - 100)
    rows = process_search.choose_rows(returns)
    assert len(rows) == process_search.MOST_ROWS
    assert (np.diff(rows) > 0).all()
    assert {100, 399} <= set(rows.tolist())


def test_a_user_may_change_the_parameters_that_a_black_box_is_given():
    def careless(p, seen):
        p["gain"] *= 2
        return [p["gain"] * seen[0]]

    policy = black_box([GAIN], careless, 1, 1)
    answers = [policy.act(np.zeros(1), np.ones(1)).item() for _ in range(2)]
    assert answers == [1.0, 1.0]


def test_returns_only_policies_have_as_many_coordinates_as_parameters():
    assert process_search.is_process_search(returns_only([GAIN]), CONFIG)
