"""Signals and blocks that must not be torn."""

import os
import signal
import threading
import time

import pytest

import ddopg
from ddopg.rollouts.playing import rollout
from ddopg.support.signals import Terminated, shielded, termination_raises
from tests.probes import Follow
from tests.recorded import everything, quick


def test_a_signal_during_a_shielded_block_comes_at_its_end():
    done = []

    def work():
        with shielded():
            with shielded():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_is_not_held_back(second):
    done = []

    def work():
        with shielded(), shielded():
            signal.raise_signal(signal.SIGINT)
            done.append("held back")
            signal.raise_signal(second)
            done.append("never")

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["held back"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_is_held_back_for_a_bounded_time_only():
    def work():
        with termination_raises(), shielded(longest=0.2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    started = time.monotonic()
    with pytest.raises(Terminated):
        work()
    assert 0.2 <= time.monotonic() - started < 20


def test_a_block_that_ends_in_time_gets_its_signal_once():
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        for _ in range(50):
            with shielded(longest=0.001):
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.001)  # the alarm rings about now
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT] * 50


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with termination_raises(), shielded():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_termination_raises_like_an_interruption():
    with pytest.raises(Terminated), termination_raises():
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Terminated), termination_raises(), shielded():
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_is_left_alone():
    seen = []

    def work():
        with termination_raises(), shielded():
            seen.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1]


def test_an_interruption_while_a_rollout_is_taken_in_waits_until_it_is_stored(tmp_path):
    agent = ddopg.DDOPG(Follow(), config=quick(), run_directory=tmp_path / "run")
    agent.learn(total_episodes=8)
    (proposal,) = agent.ask()
    agent.store._connection.set_trace_callback(
        lambda sql: signal.raise_signal(signal.SIGINT) if sql == "BEGIN IMMEDIATE" else None
    )
    trajectory = rollout(Follow(), agent.policy, proposal.theta, proposal.seed)
    with pytest.raises(KeyboardInterrupt):
        agent.tell(proposal, trajectory)
    assert agent.state.memory.size == 9
    agent.close()
    assert len(everything(tmp_path / "run")["rollouts"]) == 9
