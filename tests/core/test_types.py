"""Trajectories: padding, and refusing what cannot be used."""

import numpy as np
import pytest

from ddopg.core.types import compute_return, make_trajectory
from ddopg.errors import TrajectoryError


def make(steps=3, **changes):
    arrays = {
        "observations": np.arange(2.0 * steps).reshape(steps, 2),
        "actions": np.ones((steps, 1)),
        "rewards": np.ones(steps),
    } | changes
    return make_trajectory(np.zeros(4), **arrays, horizon=5)


def test_a_short_episode_is_padded_with_dead_steps():
    trajectory = make(3)
    assert trajectory.observations.shape == (5, 2)
    assert trajectory.alive.tolist() == [True, True, True, False, False]
    assert trajectory.rewards.tolist() == [1, 1, 1, 0, 0]
    assert (trajectory.length, trajectory.horizon) == (3, 5)


def test_an_episode_that_did_not_terminate_was_truncated():
    arrays = {"observations": np.ones((5, 2)), "actions": np.ones((5, 1)), "rewards": np.ones(5)}
    ended = make_trajectory(np.zeros(4), **arrays, horizon=5, terminated=True)
    cut = make_trajectory(np.zeros(4), **arrays, horizon=5)
    assert (ended.terminated, ended.truncated) == (True, False)
    assert (cut.terminated, cut.truncated) == (False, True)


def test_the_return_is_the_discounted_sum_of_rewards():
    rewards = np.array([1.0, -2.0, 4.0, 0.0])
    assert compute_return(rewards) == 3
    assert compute_return(rewards, 0.5) == 1 - 1 + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": [1.0, np.nan, 1.0]}, r"rewards must be finite, got nan at step 1"),
        ({"observations": [[0, 0], [0, np.inf], [0, 0]]}, r"observations must be finite, got inf at step 1"),
        ({"actions": [[0], [0], [-np.inf]]}, r"actions must be finite, got -inf at step 2"),
        ({"actions": np.ones(3)}, r"actions must have 2 axes \(steps, size\), got shape \(3,\)"),
        ({"rewards": np.ones((3, 1))}, r"rewards must have 1 axes \(steps,\), got shape \(3, 1\)"),
        (
            {"observations": np.ones((4, 2))},
            r"one row per step, got 4, 3 and 3; leave out the observation after",
        ),
        ({"rewards": ["a", "b", "c"]}, r"rewards must be an array of numbers"),
        (
            {"rewards": [], "actions": np.ones((0, 1)), "observations": np.ones((0, 2))},
            r"between 1 and 5 steps",
        ),
        (
            {"rewards": np.ones(6), "actions": np.ones((6, 1)), "observations": np.ones((6, 2))},
            r"between 1 and 5 steps \(the horizon\), got 6",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(changes, message):
    with pytest.raises(TrajectoryError, match=message):
        make(3, **changes)
