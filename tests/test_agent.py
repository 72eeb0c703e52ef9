"""The shell DDOPG: learning, ask and tell by hand, budgets, wrong input."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.callbacks import EvalCallback
from ddopg.errors import ConfigError, RolloutError, SpaceError, TrajectoryError
from ddopg.rollouts.budget import check_budget
from ddopg.rollouts.playing import rollout
from tests.probes import Follow, Scripted, Target

BOX = gym.spaces.Box(-2, 2, (1,), np.float32)


def config():
    quick = ddopg.preset("released")
    policy = dataclasses.replace(quick.policy, hidden=())
    return dataclasses.replace(
        quick,
        policy=policy,
        search=dataclasses.replace(quick.search, steps=40),
        selection=dataclasses.replace(quick.selection, size=8),
        surrogate=dataclasses.replace(quick.surrogate, length_scale=(0.5,)),
    )


def agent(env=None, seed=0, **options):
    return ddopg.DDOPG(env or Follow(), config=config(), seed=seed, **options)


def by_hand(learner, env, rollouts):
    done = 0
    while done < rollouts:
        for proposal in learner.ask():
            observations, actions, rewards, over = [], [], [], False
            observation, _ = env.reset(seed=proposal.seed)
            while not over:
                action = proposal.act(observation)
                observations.append(observation)
                actions.append(action)
                observation, reward, over, _, _ = env.step(np.clip(action, -2, 2))
                rewards.append(reward)
            learner.tell(proposal, proposal.trajectory(observations, actions, rewards, terminated=over))
            done += 1


def test_learning_improves_the_incumbent():
    learner = agent().learn(total_episodes=40)
    assert learner.state.incumbent.value > -0.2
    gain = learner.predict([1.0])[0] - learner.predict([0.0])[0]
    assert gain == pytest.approx(-1, abs=0.5)


def test_ask_and_tell_by_hand_are_learn():
    learnt = agent().learn(total_episodes=12)
    manual = ddopg.DDOPG(observation_space=BOX, action_space=BOX, horizon=3, config=config(), seed=0)
    by_hand(manual, Follow(), 12)
    np.testing.assert_array_equal(manual.state.incumbent.theta, learnt.state.incumbent.theta)
    np.testing.assert_array_equal(manual.state.centre, learnt.state.centre)


def test_two_calls_of_learn_are_one_long_call():
    split = agent().learn(total_episodes=3).learn(total_episodes=4).learn(total_episodes=5)
    whole = agent().learn(total_episodes=12)
    np.testing.assert_array_equal(split.state.memory.returns, whole.state.memory.returns)
    np.testing.assert_array_equal(split.state.centre, whole.state.centre)


def test_budgets_count_steps_or_episodes_from_now_on():
    learner = agent(Target(length=3)).learn(total_timesteps=10)
    assert (learner.state.steps, learner.state.memory.size) == (12, 4)
    learner.learn(total_timesteps=3)
    assert learner.state.steps == 15
    learner.learn(total_episodes=2)
    assert learner.state.memory.size == 7


def test_a_callback_sees_every_rollout_and_can_stop():
    seen = []

    def stop_at_six(learner, info):
        seen.append((learner.state.memory.size, info.rollout))
        return len(seen) < 6

    learner = agent().learn(total_episodes=100, callback=stop_at_six)
    assert seen == [(k, k) for k in range(1, 7)]
    assert learner.state.memory.size == 6


def test_the_progress_display_shows_return_evaluation_and_the_whole_run_also_when_it_goes_on(capsys):
    evaluation = EvalCallback(Target(), eval_freq=6, n_eval_episodes=2)
    learner = agent().learn(total_episodes=6, callback=[evaluation], progress_bar=True)
    shown = capsys.readouterr().err
    assert "6/6 episodes" in shown
    assert "return -" in shown
    assert "estimate -" in shown
    assert f"evaluation {evaluation.latest.mean:.4g} at 18 steps" in shown
    assert learner.learn(total_episodes=2, progress_bar=True) is learner
    assert "8/8 episodes" in capsys.readouterr().err


def test_an_environment_may_be_given_by_its_name():
    learner = ddopg.DDOPG("cartpole", config=config())
    assert learner.problem.observation_size == 4
    assert learner.incumbent.environment == "ddopg/Cartpole-v0"


def test_a_saved_incumbent_acts_like_the_agent(tmp_path):
    learner = agent().learn(total_episodes=7)
    loaded = ddopg.load(learner.save(tmp_path / "p.safetensors"))
    assert ddopg.DDOPG.load(tmp_path / "p.safetensors").note == loaded.note
    np.testing.assert_array_equal(loaded.predict([0.3])[0], learner.predict([0.3])[0])
    assert loaded.note == {
        "return": learner.state.incumbent.value,
        "steps": learner.state.steps,
        "seed": 0,
    }


def test_a_rollout_that_fails_loses_nothing_that_was_learnt():
    learner = agent(Target()).learn(total_episodes=7)
    learner.env = Scripted(reward=np.nan)
    with pytest.raises(RolloutError):
        learner.learn(total_episodes=5)
    assert learner.state.memory.size == 7
    learner.env = Target()
    assert learner.learn(total_episodes=5).state.memory.size == 12


class TestWrongInput:
    @pytest.mark.parametrize("budget", [{}, {"total_timesteps": 5, "total_episodes": 5}])
    def test_one_budget_is_needed(self, budget):
        with pytest.raises(ConfigError, match=r"either in steps .* or in episodes"):
            agent().learn(**budget)

    def test_a_budget_is_positive(self):
        with pytest.raises(ConfigError, match="budget must be at least 1, got 0"):
            agent().learn(0)

    @pytest.mark.parametrize("seed", [-1, 1.5, "a"])
    def test_a_seed_is_a_natural_number(self, seed):
        with pytest.raises(ConfigError, match="seed must be an integer"):
            agent(seed=seed)

    def test_something_to_learn_on_is_needed(self):
        with pytest.raises(ConfigError, match="an environment, or observation_space"):
            ddopg.DDOPG()
        robot = ddopg.DDOPG(observation_space=BOX, action_space=BOX, horizon=3, preset="trajectory")
        with pytest.raises(ConfigError, match=r"without one, use ask\(\) and tell\(\)"):
            robot.learn(5)

    def test_discrete_actions_are_refused(self):
        with pytest.raises(SpaceError, match=r"action space must be a Box .* Discrete\(2\)"):
            ddopg.DDOPG("CartPole-v1", preset="trajectory")

    def test_squashing_onto_an_unbounded_action_space_is_refused(self):
        squashing = dataclasses.replace(config(), policy=dataclasses.replace(config().policy, squash=True))
        free = gym.spaces.Box(-np.inf, np.inf, (1,))
        with pytest.raises(SpaceError, match="finite action bounds"):
            ddopg.DDOPG(observation_space=BOX, action_space=free, horizon=3, config=squashing)

    def test_tell_wants_a_trajectory_of_the_right_shape(self):
        learner = agent()
        proposal = learner.ask()[0]
        with pytest.raises(TrajectoryError, match="expected a Trajectory, got dict"):
            learner.tell(proposal, {})
        foreign = rollout(Target(horizon=4, length=4), learner.policy, proposal.theta, 0)
        with pytest.raises(TrajectoryError, match=r"observations must have shape \(3, 1\) .* got \(4, 1\)"):
            learner.tell(proposal, foreign)
        good = rollout(Follow(), learner.policy, proposal.theta, 0)
        for spoilt in (
            good._replace(rewards=np.array([1, np.nan, 1])),
            good._replace(observations=np.full((3, 1), np.inf, np.float32)),
            good._replace(actions=good.actions.astype(np.float64)),
            good._replace(alive=np.array([True, False, True])),
            good._replace(alive=np.zeros(3, bool)),
        ):
            with pytest.raises(TrajectoryError, match=r"build it with|no steps"):
                learner.tell(proposal, spoilt)
        with pytest.raises(TrajectoryError, match="between 1 and 3 steps"):
            proposal.trajectory(np.ones((4, 1)), np.ones((4, 1)), np.ones(4))
        assert learner.state.memory.size == 0

    def test_asking_for_none_is_refused(self):
        with pytest.raises(ConfigError, match="at least one proposal, got n = 0"):
            agent().ask(0)


class TestShown:
    """What a console and a notebook show of the things that users hold in their hands."""

    def test_every_one_is_a_line_with_what_matters(self):
        learner = agent().learn(total_episodes=6)
        shown = [repr(one) for one in (learner, learner.ask()[0], learner.incumbent)]
        shown.append(repr(learner.state.memory.trajectories[0]))
        assert [line.partition("(")[0] for line in shown] == [
            "DDOPG",
            "Proposal",
            "TrainedPolicy",
            "Trajectory",
        ]
        assert not any("\n" in line or len(line) > 160 for line in shown)
        assert shown[0].startswith(
            "DDOPG(environment='Target-v0', parameters=2, rollouts=6, steps=18, incumbent="
        )
        assert shown[1].startswith("Proposal(number=6, purpose='explore', parameters=2, seed=")
        assert "steps=3, horizon=3, reward=" in shown[3]

    def test_before_the_first_rollout_there_is_no_incumbent_to_speak_of(self, tmp_path):
        learner = agent(run_directory=tmp_path)
        about = "environment='Target-v0', parameters=2, rollouts=0, steps=0"
        assert repr(learner) == f"DDOPG({about}, run_directory={str(tmp_path)!r})"
        learner.close()

    def test_a_notebook_gets_the_same_as_a_table_and_no_markup_of_others(self):
        learner = agent()
        learner.environment = "<b>mine</b>"
        table = learner._repr_html_()
        first = "<tr><th>environment</th><td>&lt;b&gt;mine&lt;/b&gt;</td></tr>"
        assert table.startswith(f"<table><caption>DDOPG</caption>{first}")
        for one in (learner.ask()[0], learner.incumbent):
            assert one._repr_html_().startswith("<table>")


class TestOtherThings:
    """What somebody else's library takes: a sentence says what this one does."""

    @pytest.mark.parametrize("budget", ["100", 10.5, float("nan"), float("inf"), True, [1]])
    def test_a_budget_that_is_no_whole_number(self, budget):
        with pytest.raises(ConfigError, match="the budget must be a whole number, got"):
            agent().learn(budget)

    @pytest.mark.parametrize("budget", [2**53 + 1, 10**400])
    def test_a_budget_of_any_size_is_what_was_given(self, budget):
        assert check_budget(budget, None) == budget

    def test_a_budget_may_be_written_as_1e1(self):
        assert agent().learn(1e1).state.steps == 12

    def test_a_configuration_that_is_a_dictionary(self):
        with pytest.raises(
            ConfigError, match=r"config must be a ddopg\.Config, got dict; ddopg\.preset gives one"
        ):
            ddopg.DDOPG(Follow(), config={"search": {"steps": 3}})

    def test_a_vector_of_environments(self):
        with pytest.raises(SpaceError, match=r"takes one environment, got a vector.*learn\(parallel=n\)"):
            ddopg.DDOPG(gym.make_vec("Pendulum-v1", 2), preset="trajectory")

    def test_a_time_limit_among_the_wrappers_of_an_environment_without_a_name(self):
        limited = gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(Target(), 30), 20)
        limited.unwrapped.spec = None
        wrapped = gym.wrappers.TransformReward(limited, lambda reward: reward)
        assert ddopg.DDOPG(wrapped, config=config()).problem.horizon == 20
        assert ddopg.DDOPG(wrapped, config=config(), horizon=7).problem.horizon == 7
