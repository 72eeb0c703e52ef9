"""At which times trajectories are compared, and that nothing between them is forgotten or counted twice."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddopg.core.surrogate as S
from ddopg.config import SurrogateConfig
from ddopg.core.time_grid import TimeGrid, choose_stride, choose_times, find_real_steps, stack, subsample
from ddopg.core.types import make_trajectory
from ddopg.policies import linear


def test_actions_are_compared_densely_at_first_and_then_at_a_stride():
    assert choose_times(100, 6, 10).tolist() == [0, 1, 2, 3, 13, 23]
    assert choose_times(15, 6, 10).tolist() == [0, 1, 2, 3, 13, 15]
    assert choose_times(4, 6, 1).tolist() == [0, 1, 2, 3]
    assert choose_times(7, 0, 1).tolist() == list(range(7))


@pytest.mark.parametrize("longest", [1, 7, 50, 99, 100, 101, 500, 1000])
@pytest.mark.parametrize("decisions", [6, 7, 100])
def test_the_stride_is_the_smallest_that_reaches_the_end_of_the_longest_episode(longest, decisions):
    def end(stride):
        return choose_times(2000, decisions, stride)[-1] + stride

    stride = choose_stride(longest, decisions)
    assert end(stride) >= longest
    assert stride == 1 or end(stride - 1) < longest
    assert choose_stride(longest, 0) == 1


def test_every_lived_step_and_every_reward_is_counted_once():
    observations = np.arange(9.0)[:, None]
    trajectory = make_trajectory(np.zeros(2), observations, -observations, np.arange(9.0), horizon=12)
    thin = subsample(trajectory, TimeGrid(12, decisions=4, stride=3, discount=1.0))
    assert thin.observations[:, 0].tolist() == [0, 1, 2, 5]
    assert thin.actions[:, 0].tolist() == [0, -1, -2, -5]
    assert thin.step_counts.tolist() == [1, 1, 3, 4]
    assert thin.rewards.tolist() == [0, 1, 2 + 3 + 4, 5 + 6 + 7 + 8]
    whole = subsample(trajectory, TimeGrid(12, decisions=0, stride=1, discount=0.5))
    assert whole.step_counts.tolist() == [1] * 9 + [0] * 3
    assert whole.rewards.tolist() == pytest.approx([sum(0.5**t * t for t in range(9))])


def test_rewards_beyond_the_range_of_their_type_are_told_in_a_larger_unit():
    huge = make_trajectory(np.zeros(2), np.ones((2, 1)), np.ones((2, 1)), [1e300, 2e300], horizon=3)
    assert subsample(huge, TimeGrid(3, 3, 1, 1.0), reward_scale=1e300).rewards.tolist() == [1, 2, 0]


def test_stacked_rows_are_filled_up_with_dead_ones():
    paths = [make_trajectory([g, 0], np.ones((3, 1)), np.ones((3, 1)), [g] * 3, horizon=4) for g in (1, 2)]
    rows = stack([subsample(path, TimeGrid(4, 0, 1, 1.0)) for path in paths], number=3)
    assert rows.thetas[:, 0].tolist() == [1, 2, 0]
    assert rows.observations.shape == (3, 4, 1)
    assert rows.step_counts.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert rows.rewards.tolist() == [[3], [6], [0]]


@pytest.mark.parametrize(("longest", "room"), [(1, 5), (4, 5), (5, 9), (8, 9), (9, 18), (13, 18)])
def test_the_steps_that_count_are_found_and_padded_to_few_sizes(longest, room):
    grid = TimeGrid(12, 0, 1, 1.0)
    lengths = (1, min(longest, 12), max(longest - 12, 0))  # of three rows with 12 places each
    paths = [
        make_trajectory([1, 0], np.ones((n, 1)), np.ones((n, 1)), [1] * n, horizon=12) for n in lengths if n
    ]
    rows = stack([subsample(path, grid) for path in paths], number=3)
    expected = [0, *range(12, 12 + lengths[1]), *range(24, 24 + lengths[2])]
    places = find_real_steps(rows, grid)
    assert places.tolist() == expected + [36] * (room - len(expected))


def test_full_rows_and_paths_at_chosen_times_are_taken_as_they_are():
    path = make_trajectory([1, 0], np.ones((12, 1)), np.ones((12, 1)), [1] * 12, horizon=12)
    whole, chosen = TimeGrid(12, 0, 1, 1.0), TimeGrid(12, 4, 3, 1.0)
    assert find_real_steps(stack([subsample(path, whole)] * 3, number=3), whole) is None
    assert find_real_steps(stack([subsample(path, whole)], number=3), whole) is not None
    assert find_real_steps(stack([subsample(path, chosen)], number=3), chosen) is None


def test_a_compared_action_counts_for_all_the_steps_it_stands_for():
    """Constant mismatch: the thinned likelihood is the whole one."""
    policy, theta = linear(1, 1), jnp.zeros(2)
    trajectory = make_trajectory(
        np.zeros(2), np.ones((10, 1)), np.full((10, 1), 0.3), np.ones(10), horizon=12
    )
    log_p = []
    for grid, config in (
        (TimeGrid(12, 0, 1, 1.0), SurrogateConfig()),
        (TimeGrid(12, 4, 3, 1.0), SurrogateConfig(decisions=4)),
    ):
        row = subsample(trajectory, grid)
        log_p.append(S.log_likelihoods(policy, theta, row, config))
    assert log_p[1][-1] == pytest.approx(float(log_p[0][0]), rel=1e-6)
