"""Python's `logging`: who configures it reads what happens; who does not is told only of failures."""

import logging
import math

import pytest

import ddopg
from ddopg.callbacks import EvalCallback
from ddopg.errors import RolloutError
from tests.probes import Follow, Scripted
from tests.recorded import quick


def test_every_rollout_and_every_evaluation_is_a_line_of_the_logger_ddopg(caplog):
    caplog.set_level(logging.INFO, "ddopg")
    agent = ddopg.DDOPG(Follow(), horizon=3, config=quick(), seed=0)
    agent.learn(total_episodes=2, callback=EvalCallback(Follow(), eval_freq=6, n_eval_episodes=2))
    said = [record.getMessage() for record in caplog.records]
    assert [record.name for record in caplog.records] == ["ddopg"] * 3
    assert said[0].startswith("rollout 1 (design): return ")
    assert "in 3 steps; 3 steps in all, estimate of the incumbent" in said[0]
    assert said[2].startswith("evaluation ")
    assert said[2].endswith(" at 6 steps, 2 episodes")


def test_a_robot_that_tells_is_logged_too(caplog):
    caplog.set_level(logging.INFO, "ddopg")
    agent = ddopg.DDOPG(Follow(), horizon=3, config=quick(), seed=0)
    proposal = agent.ask()[0]
    agent.tell(proposal, proposal.trajectory([[0.1]], [[proposal.act([0.1])[0]]], [1.0]))
    assert [record.getMessage()[:28] for record in caplog.records] == ["rollout 1 (design): return 1"]


def test_a_rollout_that_fails_is_a_warning(caplog):
    with pytest.raises(RolloutError):
        ddopg.DDOPG(Scripted(reward=math.nan), config=quick(), seed=0).learn(total_episodes=1, retries=1)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "the rollout of proposal 0 failed after" in caplog.records[0].getMessage()


def test_nothing_is_said_below_its_level(caplog):
    caplog.set_level(logging.WARNING, "ddopg")
    ddopg.DDOPG(Follow(), horizon=3, config=quick(), seed=0).learn(total_episodes=2)
    assert caplog.records == []
