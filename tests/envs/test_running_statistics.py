"""Wrappers whose running statistics are not in the policy file: the learner warns, and says what to do."""

import warnings

import gymnasium as gym
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, RescaleAction, TransformReward

import ddopg
from tests.probes import Follow


@pytest.mark.parametrize("wrapper", [NormalizeObservation, NormalizeReward])
@pytest.mark.parametrize("outside", [lambda env: env, lambda env: RescaleAction(env, -1, 1)])
def test_a_learner_warns_of_statistics_that_no_file_will_hold(wrapper, outside):
    with pytest.warns(
        UserWarning, match=rf"has the wrapper {wrapper.__name__}, .* not in the policy file.* leave it out"
    ) as said:
        ddopg.DDOPG(outside(wrapper(Follow())), preset="trajectory")
    assert len(said) == 1
    assert said[0].filename == __file__, "the warning points at the line that made the learner"


def test_both_are_named():
    with pytest.warns(UserWarning, match="has the wrapper NormalizeObservation and NormalizeReward, "):
        ddopg.DDOPG(NormalizeObservation(NormalizeReward(Follow())), preset="trajectory")


def test_a_resumed_run_warns_too(tmp_path):
    env = NormalizeReward(Follow())
    with pytest.warns(UserWarning, match="NormalizeReward"):
        ddopg.DDOPG(env, run_directory=tmp_path, preset="trajectory").close()
    with pytest.warns(UserWarning, match="NormalizeReward"):
        ddopg.DDOPG.resume(tmp_path, env).close()


def test_an_isolated_environment_is_looked_at_where_it_is():
    with pytest.warns(UserWarning, match="NormalizeObservation"):
        agent = ddopg.DDOPG("tests.worlds:Normalised-v0", isolate=True, preset="trajectory")
    agent.env.close()


def test_wrappers_that_remember_nothing_need_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ddopg.DDOPG(
            TransformReward(RescaleAction(Follow(), -1, 1), lambda reward: 2 * reward), preset="trajectory"
        )
        ddopg.DDOPG(gym.make("ddopg/Cartpole-v0"), preset="trajectory")
