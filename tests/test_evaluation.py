"""`ddopg.evaluate`: an agent or a policy, on its own environment or on another, always on fresh episodes."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.errors import ConfigError, SpaceError
from ddopg.rollouts import evaluate as play
from tests.probes import Follow
from tests.recorded import quick


@pytest.fixture(scope="module")
def agent():
    return ddopg.DDOPG("cartpole", config=quick(), seed=0).learn(total_episodes=3)


def test_agent_policy_file_and_id_are_the_same_question(agent, tmp_path):
    trained = agent.incumbent
    expected = play(agent.env, agent.policy, trained.theta, range(2**31, 2**31 + 7)).tolist()
    saved = ddopg.load(agent.save(tmp_path / "policy.safetensors"))
    for asked in ((agent,), (trained, agent.env), (saved,), (saved, "cartpole")):
        assert ddopg.evaluate(*asked, episodes=7).tolist() == expected


def test_another_seed_takes_other_episodes_and_none_that_was_learnt_from(agent, monkeypatch):
    seen = []
    original = ddopg.evaluation.playing.evaluate

    def look(env, policy, theta, seeds, *rest):
        seen.append(set(seeds))
        return original(env, policy, theta, seeds, *rest)

    monkeypatch.setattr(ddopg.evaluation.playing, "evaluate", look)
    for seed in (0, 1):
        ddopg.evaluate(agent, episodes=5, seed=seed)
    learnt = {trajectory.seed for trajectory in agent.state.memory.trajectories}
    assert [len(seeds) for seeds in seen] == [5, 5]
    assert not seen[0] & seen[1]
    assert not (seen[0] | seen[1]) & learnt


def test_a_vector_of_environments_plays_side_by_side():
    agent = ddopg.DDOPG("Pendulum-v1", horizon=20, config=quick(), seed=0)
    together = ddopg.evaluate(agent, gym.make_vec("Pendulum-v1", 3), episodes=4)
    alone = ddopg.evaluate(agent, gym.make("Pendulum-v1"), episodes=4)
    np.testing.assert_allclose(together, alone, rtol=1e-4)


def test_a_task_of_the_same_sizes_is_played_and_said(agent):
    gym.register("Twin-v1", entry_point=agent.env.spec.entry_point, max_episode_steps=100)
    try:
        with pytest.warns(UserWarning, match=r"learnt on ddopg/Cartpole-v0, and runs on Twin-v1 now"):
            assert len(ddopg.evaluate(agent, "Twin-v1", episodes=2)) == 2
    finally:
        del gym.registry["Twin-v1"]


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            lambda agent: (agent, "Pendulum-v1"),
            SpaceError,
            "4 observations to 1 actions, Pendulum-v1 has 3 and 1",
        ),
        (lambda agent: (agent.env, agent), ConfigError, "takes an agent or a trained policy first, got"),
        (
            lambda agent: (agent, None, "10"),
            ConfigError,
            "number of episodes must be a whole number, got '10'",
        ),
        (lambda agent: (agent, None, 0), ConfigError, "number of episodes must be at least 1, got 0"),
        (
            lambda agent: (agent.incumbent._replace(environment=None),),
            ConfigError,
            "does not say which environment",
        ),
        (
            lambda agent: (agent.incumbent._replace(environment="os:Evil-v0"),),
            SpaceError,
            "may not say which module to import",
        ),
    ],
    ids=["sizes", "order", "text", "none", "no environment", "a module"],
)
def test_what_cannot_be_played_gets_a_sentence(asked, error, message, agent):
    with pytest.raises(error, match=message):
        ddopg.evaluate(*asked(agent))


def test_a_policy_remembers_the_module_of_its_environment_and_needs_it_only_where_it_is_not_imported():
    agent = ddopg.DDOPG("tests.worlds:Follow-v0", config=quick(), seed=0).learn(total_episodes=2)
    assert agent.incumbent.environment == "tests.worlds:Follow-v0"
    assert ddopg.evaluate(agent.incumbent, episodes=2).shape == (2,)
    elsewhere = agent.incumbent._replace(environment="tank:Tank-v0")
    with pytest.raises(SpaceError, match=r"trained on tank:Tank-v0; .* add env='tank:Tank-v0'"):
        ddopg.evaluate(elsewhere)
    with pytest.raises(SpaceError, match=r"trained on Tank-v0, .*: env='MODULE:Tank-v0'"):
        ddopg.evaluate(elsewhere._replace(environment="Tank-v0"))


def test_an_environment_without_a_name_is_enough():
    env = Follow()
    env.spec = None
    agent = ddopg.DDOPG(env, horizon=3, config=quick(), seed=0)
    assert ddopg.evaluate(agent, episodes=2).shape == (2,)
