"""Environments that misbehave: the rollout is noted as failed, not learnt from, tried again, and then the run stops,
to be resumed as if nothing had happened."""

import os
import signal
import subprocess
import sys
import threading

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.envs.adapter import make
from ddopg.envs.checks import check_contract, explain
from ddopg.envs.isolation import Isolated
from ddopg.errors import ConfigError, RolloutError, SpaceError, UnknownNameError
from ddopg.rollouts.playing import evaluate, rollout
from tests.box2d import mark_box2d
from tests.probes import Follow, Scripted, Target
from tests.recorded import contents, everything, quick, rows
from tests.traps import ROOT

FAULTS = {
    "TurnsRaising": r"raised ValueError: lost the marker in step\(\) at step 1 \(seed \d+\)",
    "TurnsExiting": r"raised SystemExit: 3",
    "TurnsNan": r"returned the observation \[nan\] at step 2",
    "TurnsInfinite": r"rewards must be finite, got inf at step 1",
    "TurnsHuge": r"returned the observation \[inf\] at step 2",
    "TurnsLong": r"observation of float32 \(2,\) at step 2 .* expected numbers of shape \(1,\)",
    "TurnsRagged": r"expected numbers of shape \(1,\)",
    "TurnsText": r"expected numbers of shape \(1,\)",
    "TurnsUnrewarding": r"returned the reward None \(NoneType\) at step 1 .* expected a number",
    "TurnsOverflowing": r"the return of the episode with seed \d+ is inf, expected a finite number",
    "TurnsEndless": r"returned the reward 1000000000.*… \(int\) at step 1 .* expected a number",
    "TurnsUnprintable": r"returned the reward of type int at step 1 .* expected a number",
    "TurnsWordy": r"returned the reward '1.5' \(str\) at step 1 .* expected a number",
    "TurnsUndecided": r"said None for terminated or truncated at step 1",
    "TurnsShort": r"raised ValueError: not enough values to unpack",  # in a wrapper of Gymnasium
    "TurnsDifferent": r"changed its spaces",
    "TurnsDiscrete": r"changed its spaces: the action space must be a Box",
}
SLOW_FAULTS = {
    "TurnsSleeping": r"took longer than the time limit of 0.3 s",
    "TurnsStubborn": r"took longer than the time limit of 0.3 s",
}
FAULTS_ELSEWHERE = {
    "TurnsRaising": r"raised ValueError: lost the marker",
    "TurnsText": r"expected numbers of shape \(1,\)",
    "TurnsShort": r"raised ValueError: not enough values to unpack",
    "TurnsOverflowing": r"the return of the episode with seed \d+ is inf",
    "TurnsEndless": r"returned the reward .*int.* at step 1 .* expected a number",
    "TurnsUnprintable": r"returned the reward .*int.* at step 1 .* expected a number",
    "TurnsWordy": r"returned the reward .*str '1.5'.* at step 1 .* expected a number",
}
DEADLY = {
    "TurnsDeaf": "took longer than the time limit of 0.5 s; its process was ended",
    "TurnsDeadly": "process died (exit code 7)",
}


def good(directory, episodes):
    """The same run in an environment that does nothing wrong."""
    agent = ddopg.DDOPG("tests.worlds:Follow-v0", config=quick(), seed=3, run_directory=directory)
    agent.learn(total_episodes=episodes)
    agent.close()
    return agent


def fails(world, directory, message, retries=2, **options):
    isolate = options.pop("isolate", False)
    agent = ddopg.DDOPG(
        f"tests.worlds:{world}-v0", config=quick(), seed=3, isolate=isolate, run_directory=directory
    )
    with pytest.raises(RolloutError, match=message):
        agent.learn(total_episodes=12, retries=retries, **options)
    agent.close()
    return agent


class TestInTheSameProcess:
    @pytest.mark.parametrize("world", FAULTS)
    def test_the_fault_is_named_noted_and_nothing_is_learnt_from_it(self, world, tmp_path):
        agent = fails(world, tmp_path / "run", FAULTS[world])
        assert agent.state.memory.size == 2
        assert contents(agent.state) == contents(good(tmp_path / "good", 2).state)
        found = rows(tmp_path / "run", "SELECT proposal, attempt, seed, reason FROM failure")
        seed = agent.pending[0].seed
        if world not in (
            "TurnsDifferent",
            "TurnsDiscrete",
        ):  # these stay different, so that no step is made any more
            assert [row[:3] for row in found] == [(2, attempt, seed) for attempt in (1, 2, 3)]
        assert [failure.reason for failure in agent.failures] == [row[3] for row in found]

    @pytest.mark.parametrize("world", SLOW_FAULTS)
    def test_a_rollout_that_hangs_is_ended_by_the_time_limit(self, world, tmp_path):
        agent = fails(world, tmp_path / "run", SLOW_FAULTS[world], retries=1, time_limit=0.3)
        assert [failure.steps for failure in agent.failures] == [1, 1]

    def test_a_stopped_run_goes_on_as_if_nothing_had_happened(self, tmp_path):
        fails("TurnsRaising", tmp_path / "run", "lost the marker")
        agent = ddopg.DDOPG.resume(tmp_path / "run", env="tests.worlds:Follow-v0")
        agent.learn(total_episodes=10)
        agent.close()
        good(tmp_path / "good", 12)
        assert everything(tmp_path / "run") == everything(tmp_path / "good")
        assert len(ddopg.DDOPG.resume(tmp_path / "run", env=Follow()).failures) == 3

    def test_a_fault_that_passes_is_noted_and_costs_nothing_else(self, tmp_path):
        agent = ddopg.DDOPG("tests.worlds:Flaky-v0", config=quick(), seed=3, run_directory=tmp_path / "run")
        agent.learn(total_episodes=9)
        (failure,) = agent.failures
        assert (failure.attempt, failure.steps) == (1, 1)
        assert "OSError: the cable is loose" in failure.reason
        assert contents(agent.state) == contents(good(tmp_path / "good", 9).state)

    def test_how_often_it_is_tried_can_be_said(self, tmp_path):
        assert len(fails("TurnsRaising", tmp_path / "run", "lost the marker", retries=0).failures) == 1
        with pytest.raises(ConfigError, match="retries must be at least 0, got -1"):
            ddopg.DDOPG(Follow(), config=quick()).learn(total_episodes=1, retries=-1)
        with pytest.raises(ConfigError, match="time_limit must be finite and greater than 0, got 0"):
            ddopg.DDOPG(Follow(), config=quick()).learn(total_episodes=1, time_limit=0)

    def test_an_episode_that_never_ends_is_cut_at_the_horizon(self):
        agent = ddopg.DDOPG("tests.worlds:Endless-v0", config=quick())
        agent.learn(total_episodes=2)
        assert [t.length for t in agent.state.memory.trajectories] == [3, 3]
        assert all(t.truncated for t in agent.state.memory.trajectories)

    def test_a_time_limit_outside_the_main_thread_is_refused(self):
        raised = []

        def work():
            try:
                ddopg.DDOPG(Follow(), config=quick()).learn(total_episodes=1, time_limit=5)
            except ConfigError as error:
                raised.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert "use isolate=True" in raised[0]

    def test_a_step_that_returns_four_things_is_named(self):
        class Short(Target):
            def step(self, action):
                return np.ones(1, np.float32), 0.0, False, {}

        with pytest.raises(RolloutError, match=r"step\(\) .* returned 4 at step 0 .* expected the 5 things"):
            rollout(Short(), ddopg.DDOPG(Target(), config=quick()).policy, np.zeros(2, np.float32), 0)

    def test_a_reset_that_returns_one_thing_is_named(self):
        class Bare(Target):
            def reset(self, *, seed=None, options=None):
                return np.ones(1, np.float32)

        with pytest.raises(RolloutError, match=r"reset\(\) of the environment returned ndarray at step 0"):
            rollout(Bare(), ddopg.DDOPG(Target(), config=quick()).policy, np.zeros(2, np.float32), 0)

    @pytest.mark.parametrize("together", [False, True])
    def test_an_evaluation_whose_rewards_sum_to_infinity_is_refused(self, together):
        def make_one():
            return Scripted(reward=1.5e308)

        env = gym.vector.SyncVectorEnv([make_one, make_one]) if together else make_one()
        policy = ddopg.DDOPG(Target(), config=quick()).policy
        with pytest.raises(RolloutError, match="the return of the episode with seed 4 is inf"):
            evaluate(env, policy, np.zeros(2, np.float32), [4, 5], horizon=3)


@pytest.mark.long
class TestIsolated:
    """The environment in a process of its own."""

    def test_it_is_the_same_environment_bit_for_bit(self, tmp_path):
        agent = ddopg.DDOPG(
            "tests.worlds:Follow-v0", config=quick(), seed=3, isolate=True, run_directory=tmp_path / "run"
        )
        agent.learn(total_episodes=9, time_limit=30)
        assert contents(agent.state) == contents(good(tmp_path / "good", 9).state)
        agent.env.close()
        agent.close()

    @pytest.mark.parametrize("world", FAULTS_ELSEWHERE)
    def test_faults_are_named_over_the_border(self, world, tmp_path):
        agent = fails(world, tmp_path / "run", FAULTS_ELSEWHERE[world], isolate=True)
        assert agent.state.memory.size == 2
        assert len(agent.failures) == 3
        agent.env.close()

    @pytest.mark.parametrize("world", DEADLY)
    def test_a_process_that_hangs_or_dies_is_replaced(self, world, tmp_path):
        """A new process begins with two good episodes, so that the second attempt succeeds."""
        name = f"tests.worlds:{world}-v0"
        agent = ddopg.DDOPG(name, config=quick(), seed=3, isolate=True, run_directory=tmp_path / "run")
        agent.learn(total_episodes=5, retries=1, time_limit=0.5)
        assert [(f.attempt, f.steps) for f in agent.failures] == [(1, 1), (1, 1)]
        assert all(DEADLY[world] in f.reason for f in agent.failures)
        assert contents(agent.state) == contents(good(tmp_path / "good", 5).state)
        agent.env.close()
        agent.close()

    def test_it_answers_like_the_environment_itself(self):
        here, there = make("Pendulum-v1"), Isolated("Pendulum-v1", time_limit=30)
        assert there.observation_space == here.observation_space
        assert there.action_space == here.action_space
        assert there.spec.max_episode_steps == 200
        for env in (here, there):
            env.start, _ = env.reset(seed=5)
            env.next = env.step(np.array([0.5], np.float32))
        assert here.start.tobytes() == there.start.tobytes()
        assert here.next[0].tobytes() == there.next[0].tobytes()
        assert here.next[1:4] == there.next[1:4]
        there.close()

    def test_an_interruption_leaves_no_late_answer_behind(self):
        env = Isolated("tests.worlds:TurnsSleeping-v0")
        for _ in range(3):
            start, _ = env.reset(seed=5)
            env.step(np.zeros(1, np.float32))
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(1, np.float32))  # the second step of the third episode sleeps
        assert env.reset(seed=5)[0].tobytes() == start.tobytes()
        env.close()

    def test_what_it_prints_goes_to_standard_error_and_it_reads_nothing(self, capfd):
        env = Isolated("tests.worlds:Talking-v0")
        env.reset(seed=0)
        env.close()
        shown = capfd.readouterr()
        assert "hello from the environment ''" in shown.err
        assert shown.out == ""

    def test_it_keeps_the_threads_that_the_user_has_set_or_not_set(self, monkeypatch):
        for variables, expected in (({}, 0), ({"OMP_NUM_THREADS": "3"}, 3)):
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            env = Isolated("tests.worlds:Threads-v0")
            assert env.reset(seed=0)[0].tolist() == [expected]
            env.close()

    def test_its_process_does_not_load_jax(self):
        code = "import sys, ddopg.envs.isolation_worker; assert 'jax' not in sys.modules"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_a_module_in_the_current_directory_is_found_there(self, tmp_path, monkeypatch):
        """As with `ddopg train mine:Mine-v0 --isolate`, where this process itself does not find it."""
        (tmp_path / "kept_here.py").write_text(
            "import gymnasium as gym\nfrom tests.probes import Follow\n"
            "gym.register('Kept-v0', Follow, max_episode_steps=3)\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [str(ROOT), *(entry for entry in sys.path if entry)])
        env = Isolated("kept_here:Kept-v0")
        assert env.spec.id == "Kept-v0"
        env.close()

    def test_what_cannot_be_made_there_is_refused_here(self):
        with pytest.raises(
            UnknownNameError, match="no environment called 'cartpol'; did you mean 'cartpole'"
        ):
            Isolated("cartpol")
        with pytest.raises(SpaceError, match=r"action space must be a Box, got Discrete\(2\)"):
            Isolated("CartPole-v1")
        with pytest.raises(ConfigError, match="give its id, got"):
            ddopg.DDOPG(Follow(), isolate=True, preset="trajectory")


class TestChecker:
    """`ddopg train` looks first, and says in plain words what it found."""

    def words(self, **methods):
        return check_contract(type("Odd", (Target,), methods)())

    @pytest.mark.parametrize(
        "name", mark_box2d(["cartpole", "mountaincar", "swimmer", "Pendulum-v1", "tests.worlds:Follow-v0"])
    )
    def test_good_environments_pass(self, name):
        assert check_contract(make(name)) is None

    def test_faults_are_said_in_plain_words(self):
        ones = np.ones(1, np.float32)
        assert "do not fit the space it declares" in self.words(reset=lambda self, **o: (np.ones(2), {}))
        assert "must return two things" in self.words(reset=lambda self, **o: ones)
        assert "must take seed=" in self.words(reset=lambda self: (ones, {}))
        assert "must return five things" in self.words(step=lambda self, action: (ones, 0.0, False, {}))
        assert "must give the same episode" in self.words(
            reset=lambda self, seed=None, options=None: (
                gym.Env.reset(self, seed=seed),
                (np.random.default_rng().random(1).astype(np.float32), {}),
            )[1]
        )
        assert explain(RuntimeError("no   battery")) == "Gymnasium's checker says: RuntimeError: no battery"

    def test_train_refuses_and_leaves_nothing(self, tmp_path, capsys):
        out = tmp_path / "run"
        assert main(["train", "tests.worlds:Raises-v0", "--episodes", "5", "--out", str(out)]) == 2
        shown = capsys.readouterr().err
        assert "does not keep Gymnasium's contract" in shown
        assert "the arm is stuck" in shown
        assert not out.exists()

    @pytest.mark.parametrize(
        ("world", "options", "message"),
        [
            ("Dies", ["--isolate"], "process died (exit code 7)"),
            ("Raises", ["--isolate"], "the arm is stuck"),
            ("Stuck", ["--isolate", "--time-limit", "0.5"], "does not come to an end"),
            ("Stuck", ["--time-limit", "0.5"], "does not come to an end"),
        ],
    )
    def test_what_hangs_or_dies_is_found_too(self, world, options, message, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("STUCK", str(tmp_path / "pid"))
        name = f"tests.worlds:{world}-v0"
        assert main(["train", name, "--episodes", "5", "--out", str(tmp_path / "run"), *options]) == 2
        assert message in capsys.readouterr().err

    def test_without_the_check_the_run_stops_cleanly_and_says_how_to_go_on(self, tmp_path, capsys):
        out = tmp_path / "run"
        name = "tests.worlds:TurnsRaising-v0"
        options = [
            "--episodes",
            "12",
            "--out",
            str(out),
            "--no-check",
            "--retries",
            "1",
            "--eval-points",
            "0",
            "--quiet",
        ]
        assert main(["train", name, *options]) == 2
        shown = capsys.readouterr().err
        assert (
            f"2 rollouts are stored in {out}; besides, 2 failed rollouts of 2 steps; continue with" in shown
        )
        assert f"ddopg resume {out} --env {name}" in shown
        assert "lost the marker" in shown
        good = ["--env", "tests.worlds:Follow-v0", "--quiet"]
        assert main(["resume", str(out), *good]) == 0
        assert "12 rollouts, 36 environment steps; besides, 2 failed rollouts of 2 steps" in " ".join(
            capsys.readouterr().out.split()
        )
