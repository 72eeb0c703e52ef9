import math

import gymnasium as gym
import numpy as np
import pytest

from ddopg.envs.tasks.mountaincar import physics as mountaincar
from tests.box2d import needs_box2d
from tests.envs.recordings import each

pytestmark = needs_box2d


@pytest.fixture
def env():
    env = gym.make("ddopg/MountainCar-v0")
    yield env
    env.close()


@pytest.mark.parametrize(**each("mountaincar", fresh_only=True))
def test_every_bit_is_box2ds(env, episode):
    start, _ = env.reset(options={"observation": episode.start})
    np.testing.assert_array_equal(start, episode.start)
    for t, action in enumerate(episode.actions):
        observation, reward, terminated, _, _ = env.step(action)
        assert (*observation, reward, terminated) == (
            *episode.observations[t],
            episode.rewards[t],
            episode.done[t],
        )


def test_an_episode_leaves_nothing_behind(env):
    def play():
        env.reset(options={"observation": [0.0, -0.5]})
        return [env.step(np.array([-1.0]))[0] for _ in range(20)]

    np.testing.assert_array_equal(play(), play())


def test_pumping_along_the_velocity_returns_minus_59(env):
    scores = [episode_return(env, seed) for seed in range(60)]
    assert np.mean(scores) == pytest.approx(-59.3, abs=3)
    assert min(scores) > -100


def episode_return(env, seed):
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(np.sign(observation[1:]))
        total, over = total + reward, terminated or truncated
    assert terminated
    assert not truncated
    return total


def test_a_resting_car_is_cut_off_at_500_steps(env):
    env.reset(seed=0)
    outcomes = [env.step(np.zeros(1)) for _ in range(500)]
    assert not any(terminated for _, _, terminated, _, _ in outcomes)
    assert [truncated for *_, truncated, _ in outcomes] == [False] * 499 + [True]
    assert sum(reward for _, reward, *_ in outcomes) == pytest.approx(-416.8, abs=1)


def test_a_start_away_from_the_valley_is_refused(env):
    with pytest.raises(ValueError, match=r"always starts at x = 0, got x = 0\.1"):
        env.reset(options={"observation": [0.1, 0.5]})


def test_the_hill_is_a_cosine():
    for x in np.linspace(-2, 2, 9):
        assert mountaincar.hill(x) == pytest.approx(1 - math.cos(math.pi * x / 2))
