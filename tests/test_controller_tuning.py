"""Tuning in one call, failures with a stated return, the price of changes, and what the command line prints."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.controllers import Parameter, controller
from ddopg.envs.failures import EndOnFailure
from ddopg.envs.smoothness import PenaliseChanges
from ddopg.errors import ConfigError
from tests.probes import Follow, Target
from tests.recorded import SIZES, quick

GAIN = Parameter("gain", 0.5, bounds=(-2.0, 1.0), unit="1/s")
POLICY = controller([GAIN], lambda p, o: [p["gain"] * o[0]], 1, 1)


class TestTuning:
    def test_a_function_is_played_with_parameters_in_real_units_the_start_first(self):
        played = []

        def play(p):
            played.append(p)
            return -((p["gain"] + 1.0) ** 2)

        result = ddopg.tune_controller(play, [GAIN, Parameter("dt", 0.1, fixed=True)], rollouts=25)
        assert played[0] == {"gain": 0.5, "dt": 0.1}
        assert [p for p, _ in result.history] == played
        assert abs(result.parameters["gain"] + 1.0) < 0.4
        assert "random" not in result.agent.state.memory.purposes

    def test_an_environment_is_played_by_the_controller(self, tmp_path):
        result = ddopg.tune_controller(Follow(), POLICY, rollouts=9, run_directory=tmp_path / "run")
        assert len(result.history) == 9
        assert result.trained.parameters == result.parameters
        result.agent.close()

    def test_what_does_not_go_together_is_refused(self):
        with pytest.raises(ConfigError, match="with an environment, give a controller"):
            ddopg.tune_controller(Follow(), [GAIN], rollouts=3)
        with pytest.raises(ConfigError, match="without an environment, give a function"):
            ddopg.tune_controller(lambda p: 0.0, POLICY, rollouts=3)
        with pytest.raises(ConfigError, match="at least one rollout"):
            ddopg.tune_controller(Follow(), POLICY, rollouts=0)
        with pytest.raises(ConfigError, match="number of rollouts must be a whole number, got '10'"):
            ddopg.tune_controller(Follow(), POLICY, rollouts="10")

    @pytest.mark.parametrize("earned", [None, "high", [1.0, 2.0], np.nan, -np.inf])
    def test_a_function_that_returns_no_number_is_told_so(self, earned):
        with pytest.raises(ConfigError, match="must return what the rollout earned, one finite number, got"):
            ddopg.tune_controller(lambda p: earned, [GAIN], rollouts=3)

    def test_the_result_is_one_line_with_units_and_a_table_in_a_notebook(self):
        result = ddopg.tune_controller(lambda p: 2.0, [GAIN], rollouts=1)
        assert repr(result) == "Tuned(parameters='gain = 0.5 1/s', value=2, rollouts=1)"
        assert "<td>gain = 0.5 1/s</td>" in result._repr_html_()


def test_a_failure_counts_as_the_stated_return():
    agent = ddopg.DDOPG(Follow(), policy=POLICY, preset="trajectory")
    proposal = agent.ask(1)[0]
    info = agent.tell(
        proposal, proposal.failure([[0.1], [0.2]], [[0.05], [0.1]], [-1.0, -2.0], return_=-50.0)
    )
    told = agent.state.memory.trajectories[0]
    assert info.return_ == -50.0
    assert told.rewards[:2].tolist() == [-1.0, -49.0]
    assert told.terminated


class Ledge(gym.Env):
    """The nearer to 1, the lower the cost of each step; beyond the ledge at 0.6 the machine breaks."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (1,))
    action_space = gym.spaces.Box(-2.0, 2.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.place = 0, 0.0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place, self.steps = float(action[0]), self.steps + 1
        return np.array([self.place], np.float32), -abs(self.place - 1), False, self.steps == 5, {}


def beyond(observation, action):
    return observation[0] > 0.6


class Cut(gym.Wrapper):
    """The same check without a stated return."""

    def step(self, action):
        observation, reward, _, truncated, info = self.env.step(action)
        return observation, reward, bool(beyond(observation, action)), truncated, info


PLACE = controller([Parameter("place", 0.0, bounds=(-1.0, 1.5))], lambda p, o: [p["place"]], 1, 1)


class TestACheckOfTheUsers:
    def test_it_ends_the_episode_and_the_rewards_add_up_to_the_stated_return(self):
        env = EndOnFailure(Ledge(), beyond, return_=-20.0)
        for _ in range(2):  # what an episode earned is forgotten with the next
            env.reset(seed=0)
            steps = [env.step(np.array([a])) for a in (0.25, 0.5, 0.7)]
            assert [step[1] for step in steps] == [-0.75, -0.5, -18.75]
            assert [step[2] for step in steps] == [False, False, True]
            assert not steps[2][3]
            assert steps[2][4] == {"failed": True}

    def test_it_sees_the_action_and_what_it_led_to(self):
        seen = []
        env = EndOnFailure(Ledge(), lambda o, a: seen.append((o.tolist(), a.tolist())), return_=0.0)
        env.reset(seed=0)
        env.step(np.array([0.5]))
        assert seen == [([0.5], [0.5])]

    @pytest.mark.long
    def test_the_search_keeps_away_from_failures_that_would_look_good_as_short_rollouts(self):
        def learn(env):
            agent = ddopg.DDOPG(env, policy=PLACE, config=quick(), horizon=5, seed=1)
            return agent.learn(total_episodes=40)

        checked = learn(EndOnFailure(Ledge(), beyond, return_=-20.0))
        cut = learn(Cut(Ledge()))
        failed, ended = ([t.terminated for t in a.state.memory.trajectories] for a in (checked, cut))
        assert (checked.state.memory.returns[failed] == -20.0).all()
        assert 0 < sum(failed) < 0.7 * sum(ended)
        assert 0.2 < checked.incumbent.parameters["place"] < 0.6 < cut.incumbent.parameters["place"]
        assert checked.failures == []  # those are rollouts that cannot be used at all

    def test_what_cannot_be_is_refused(self):
        with pytest.raises(ConfigError, match="finite return, got -inf"):
            EndOnFailure(Ledge(), beyond, return_=-np.inf)
        with pytest.raises(ConfigError, match="check must be a function"):
            EndOnFailure(Ledge(), 3.0, return_=0.0)


class TestThePriceOfChanges:
    def test_it_is_the_weighted_square_of_the_change(self):
        env = PenaliseChanges(Target(), weight=0.5)
        env.reset(seed=0)
        rewards = [env.step(np.array([a]))[1] for a in (0.5, 0.5, 1.5)]
        assert rewards == [0.0, 0.0, -1.0 - 0.5]
        env.reset(seed=0)
        assert env.step(np.array([0.5]))[1] == 0.0  # a new episode has no action before

    def test_a_negative_weight_is_refused(self):
        with pytest.raises(ConfigError, match="must not be negative"):
            PenaliseChanges(Target(), weight=-1.0)


@pytest.mark.long
def test_the_command_line_trains_a_named_controller_and_prints_its_parameters(tmp_path, capsys):
    run, small = tmp_path / "run", ["--horizon", "12", "--eval-points", "1", "--quiet", *SIZES]
    main(["train", "Swimmer-v5", "--policy", "oscillator", "--episodes", "2", "--out", str(run), *small])
    assert "  period       = " in capsys.readouterr().out
    main(["evaluate", str(run), "--episodes", "1"])
    shown = capsys.readouterr().out
    assert " steps\n" in shown
    assert "  phase[0]     = 0 rad (fixed)" in shown
    trained = ddopg.load(run / "policy.safetensors")
    assert list(trained.parameters)[:2] == ["period", "stiffness"]
    again = ddopg.DDOPG.resume(run, env=gym.make("Swimmer-v5"))
    assert again.policy.parameters == trained.policy.parameters
    again.close()
