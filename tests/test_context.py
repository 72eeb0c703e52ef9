"""What the world fixes per rollout is part of the situation: told, stored, and no merit of the policy."""

import json

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.controllers import Parameter, returns_only
from ddopg.core.algorithm import build_surrogate_data
from ddopg.errors import ArtefactError, TrajectoryError
from ddopg.storage.reading import _build_memory, read_rollouts, read_run
from tests.recorded import contents, quick

PARAMETERS = [Parameter("x", 0.0, bounds=(-2.0, 2.0)), Parameter("y", 0.0, bounds=(-2.0, 2.0))]


def make_agent(preset="trajectory", seed=0, **options):
    return ddopg.DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (1,)),
        action_space=gym.spaces.Box(-np.inf, np.inf, (2,)),
        horizon=1,
        policy=returns_only(PARAMETERS),
        config=quick(preset),
        seed=seed,
        **options,
    )


def merit(parameters):
    return -((parameters["x"] - 1) ** 2) - (parameters["y"] + 1) ** 2


def play(agent, rollouts, told):
    """A friction that nobody controls changes what a rollout earns, more than the parameters do."""
    rng = np.random.default_rng(agent.state.seed)
    for _ in range(rollouts):
        (proposal,) = agent.ask(1)
        friction = rng.uniform(-1, 1)
        earned = merit(proposal.parameters) + 4 * friction
        agent.tell(proposal, earned, context=[friction] if told else None)
    return agent


@pytest.mark.parametrize(
    "preset", ["trajectory", "paper"]
)  # with the correction for the start and without it
def test_its_effect_is_taken_from_the_rewards(preset):
    agent = play(make_agent(preset), 14, told=True)
    surrogate = build_surrogate_data(agent.state, agent.policy, agent.config)
    chosen = surrogate.sample.selection.indices
    rewards = np.asarray(surrogate.data.rewards)[: len(chosen), 0] * surrogate.sample.reward_scale
    friction = np.array([agent.state.memory.trajectories[i].context[0] for i in chosen])
    returns = agent.state.memory.returns[chosen]
    assert np.corrcoef(returns, friction)[0, 1] > 0.6
    slopes = [np.polyfit(friction, values, 1)[0] for values in (returns, rewards)]
    assert abs(slopes[1]) < 0.6 * abs(slopes[0])


def test_a_search_that_is_told_it_finds_better_parameters():
    told, not_told = (
        [merit(play(make_agent(seed=seed), 24, told).incumbent.parameters) for seed in (0, 3)]
        for told in (True, False)
    )
    assert np.mean(told) > np.mean(not_told) + 0.1


class TestTelling:
    def test_it_is_kept_with_the_trajectory(self):
        agent = play(make_agent(), 1, told=True)
        assert agent.state.memory.trajectories[0].context.dtype == np.float32
        assert agent.state.memory.trajectories[0].context.shape == (1,)

    def test_a_trajectory_may_have_it_itself(self):
        agent = make_agent()
        proposal = agent.ask(1)[0]
        log = proposal.trajectory([[0.0]], [proposal.theta], [1.0], context=[0.25, 2.0])
        agent.tell(proposal, log)
        assert agent.state.memory.trajectories[0].context.tolist() == [0.25, 2.0]

    @pytest.mark.parametrize("context", [None, [0.1, 0.2]])
    def test_another_size_is_refused_and_nothing_changes(self, context):
        agent = play(make_agent(), 1, told=True)
        proposal, before = agent.ask(1)[0], agent.state
        with pytest.raises(
            TrajectoryError, match="numbers, that of the rollouts before has 1; tell the same"
        ):
            agent.tell(proposal, 1.0, context=context)
        assert agent.state is before

    @pytest.mark.parametrize("context", [[np.nan], "rough", [[1.0]], [np.inf]])
    def test_what_is_no_row_of_numbers_is_refused(self, context):
        agent = make_agent()
        with pytest.raises(TrajectoryError, match="context must be"):
            agent.tell(agent.ask(1)[0], 1.0, context=context)


class TestStoring:
    def test_it_is_stored_bit_for_bit_and_the_run_goes_on_as_if_never_stopped(self, tmp_path):
        play(make_agent(run_directory=tmp_path / "run"), 10, told=True).close()
        resumed = ddopg.DDOPG.resume(tmp_path / "run", policy=returns_only(PARAMETERS))
        whole = play(make_agent(), 10, told=True)
        assert contents(resumed.state) == contents(whole.state)
        assert resumed.state.memory.trajectories[3].context.size == 1
        for agent in (resumed, whole):
            (proposal,) = agent.ask(1)
            agent.tell(proposal, -1.0, context=[0.3])
        assert contents(resumed.state) == contents(whole.state)
        resumed.close()

    def test_the_log_has_no_column_of_it(self, tmp_path):
        play(make_agent(run_directory=tmp_path / "run"), 1, told=True).close()
        assert "context" not in read_run(tmp_path / "run").log[0]

    def test_a_run_without_it_is_written_as_before(self, tmp_path):
        agent = play(make_agent(run_directory=tmp_path / "run"), 1, told=False)
        (text,) = agent.store._connection.execute("SELECT info FROM rollout").fetchone()
        agent.close()
        assert "context" not in json.loads(text)

    def test_rollouts_of_different_sizes_are_no_run(self, tmp_path):
        play(make_agent(run_directory=tmp_path / "run"), 2, told=True).close()
        _, (first, second) = read_rollouts(tmp_path / "run")
        bare = second._replace(trajectory=second.trajectory._replace(context=np.zeros(0, np.float32)))
        with pytest.raises(ArtefactError, match="different sizes"):
            _build_memory([first, bare])


def test_the_command_line_tells_it(tmp_path, capsys):
    run, log = tmp_path / "run", tmp_path / "rollout.json"
    assert (
        main(["begin", str(run), "--observations", "1", "--low", "-1", "--high", "1", "--horizon", "1"]) == 0
    )
    assert main(["ask", str(run), "-n", "1"]) == 0
    log.write_text(json.dumps({"observations": [[0.0]], "actions": [[0.0]], "rewards": [1.0]}))
    tell = ["tell", str(run), str(log), "--proposal", "0", "--context"]
    assert main([*tell, "0.5", "2"]) == 0
    assert read_run(run).state.memory.trajectories[0].context.tolist() == [0.5, 2.0]
    capsys.readouterr()
    assert main([*tell, "0.5", "2"]) == 0  # the same log again
    assert "was taken in before" in capsys.readouterr().out
