"""Rollouts of one run played elsewhere: the same run, whoever is faster and whoever dies."""

import json
import os
import signal
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main, parse
from ddopg.errors import ConfigError, RolloutError, SpaceError
from ddopg.policies import custom
from ddopg.rollouts import Here, Locally, OnRay, rollout, scheduling, wire
from ddopg.rollouts.scheduling import InProcessRunner
from tests.probes import Follow
from tests.recorded import SMALL, contents, everything, quick, rows
from tests.traps import ROOT
from tests.waiting import gone, wait_until

FOLLOW, UNEVEN, TRAPPED = (f"tests.worlds:{name}-v0" for name in ("Follow", "Uneven", "Trapped"))


@pytest.fixture(params=["locally", pytest.param("ray", marks=pytest.mark.slow)])
def place(request):
    """n → where n rollouts are played at a time."""
    if request.param == "locally":
        return Locally
    address = request.getfixturevalue("cluster")
    return lambda n: OnRay(n, address)


def learnt(parallel, env=FOLLOW, episodes=25, directory=None, callback=None, **options):
    agent = ddopg.DDOPG(env, config=quick(), seed=3, run_directory=directory)
    agent.learn(total_episodes=episodes, parallel=parallel, callback=callback, **options)
    agent.close()
    return agent


def by_hand(n, episodes):
    """The same, spelt out: the stages of the design, then always n proposals ahead."""
    agent = ddopg.DDOPG(FOLLOW, config=quick(), seed=3)

    def play(proposal):
        agent.tell(proposal, rollout(agent.env, agent.policy, proposal.theta, proposal.seed))

    while agent.state.memory.size < agent.config.design.policies:
        for proposal in agent.ask():
            play(proposal)
    ahead = agent.ask(n)
    while True:
        play(ahead.pop(0))
        if agent.state.memory.size == episodes:
            return agent
        ahead += agent.ask(1)


class TestTheRun:
    @pytest.mark.parametrize("n", [1, 3, 8])
    def test_n_proposals_are_ahead_and_told_in_the_order_of_asking(self, n):
        agent = learnt(Here(n))
        assert len(agent.pending) == n - 1
        assert contents(agent.state) == contents(by_hand(n, 25).state)

    def test_the_initial_design_is_told_whole_before_more_is_asked(self):
        waiting = []
        agent = learnt(Here(8), callback=lambda agent, info: waiting.append(len(agent.pending)))
        design = agent.config.design
        assert waiting[: design.policies] == [3, 2, 1, 0, 3, 2, 1, 0]
        assert (design.constants, design.policies) == (4, 8)
        assert waiting[design.policies :] == [7] * 17

    @pytest.mark.long
    @pytest.mark.parametrize("n", [1, 4])
    def test_it_is_the_same_wherever_it_is_played_and_whoever_is_faster(self, n, place, tmp_path):
        learnt(Here(n), UNEVEN, directory=tmp_path / "here")
        learnt(place(n), UNEVEN, directory=tmp_path / "there")
        assert everything(tmp_path / "there") == everything(tmp_path / "here")
        told = rows(tmp_path / "there", "SELECT proposal FROM rollout ORDER BY number")
        assert [number for (number,) in told] == list(range(25))

    @pytest.mark.long
    def test_one_at_a_time_is_the_ordinary_run(self):
        assert contents(learnt(Locally(1)).state) == contents(learnt(1).state)

    @pytest.mark.long
    @pytest.mark.parametrize("isolate", [False, True])
    def test_a_real_task_with_isolated_environments_or_without(self, isolate):
        agent = ddopg.DDOPG("cartpole", seed=5, isolate=isolate, preset="trajectory")
        agent.learn(total_timesteps=300, parallel=Locally(2), time_limit=60)
        same = ddopg.DDOPG(
            "cartpole" if isolate else gym.make("ddopg/Cartpole-v0"),
            seed=5,
            isolate=isolate,
            preset="trajectory",
        )
        same.learn(total_timesteps=300, parallel=Here(2))
        agent.env.close()
        same.env.close()
        assert contents(agent.state) == contents(same.state)

    @pytest.mark.long
    def test_in_pieces_at_different_places_it_is_the_run_in_one_piece(self, tmp_path):
        learnt(Here(3), directory=tmp_path / "whole")
        learnt(Here(3), directory=tmp_path / "pieces", episodes=6)
        for episodes, place in ((7, Locally(3)), (12, Here(3))):
            agent = ddopg.DDOPG.resume(tmp_path / "pieces", env=FOLLOW)
            agent.learn(total_episodes=episodes, parallel=place)
            agent.close()
        assert everything(tmp_path / "pieces") == everything(tmp_path / "whole")

    @pytest.mark.parametrize("budget", [{"total_episodes": 2}, {"total_timesteps": 2}])
    def test_no_rollout_is_begun_that_the_budget_cannot_need(self, budget, monkeypatch):
        agent, begun = learnt(1, episodes=9), []
        original = InProcessRunner.submit
        monkeypatch.setattr(
            InProcessRunner, "submit", lambda self, one: begun.append(one.number) or original(self, one)
        )
        agent.learn(**budget, parallel=Here(8))
        assert begun == [9, 10]

    def test_what_came_back_and_was_not_told_is_not_played_again(self, monkeypatch):
        """Here the last rollout that was begun is played first."""
        played = []

        class Backwards(InProcessRunner):
            def wait(self):
                self._waiting.sort(key=lambda proposal: -proposal.number)
                played.append(self._waiting[0].number)
                return super().wait()

        monkeypatch.setattr(scheduling, "InProcessRunner", Backwards)
        agent = learnt(Here(4), callback=lambda agent, info: info.rollout < 14)
        assert [proposal.number for proposal in agent.pending] == [14, 15, 16]
        assert set(agent._in_hand) == {14, 15}
        agent.learn(total_episodes=11, parallel=Here(4))
        assert sorted(played) == list(range(25))
        monkeypatch.undo()
        assert contents(agent.state) == contents(learnt(Here(4)).state)


@pytest.mark.long
class TestFaults:
    def test_a_killed_worker_loses_nothing_and_nothing_is_counted_twice(self, place, trap, tmp_path):
        def set_trap(agent, info):
            if info.rollout == 12:
                trap.set()

        with trap.killing():
            agent = learnt(place(3), TRAPPED, directory=tmp_path / "killed", callback=set_trap)
        learnt(Here(3), TRAPPED, directory=tmp_path / "whole")
        assert everything(tmp_path / "killed") == everything(tmp_path / "whole")
        assert agent.state.steps == 75
        (failure,) = agent.failures
        assert failure.attempt == 1
        assert "the rollout was lost" in failure.reason
        assert "died" in failure.reason
        assert rows(tmp_path / "killed", "SELECT proposal, reason FROM failure") == [
            (failure.proposal, failure.reason)
        ]

    def test_a_worker_that_always_dies_stops_the_run(self, place, tmp_path):
        agent = ddopg.DDOPG("tests.worlds:Dies-v0", config=quick(), run_directory=tmp_path / "run")
        with pytest.raises(RolloutError, match=r"the rollout was lost: .*died"):
            agent.learn(total_episodes=9, parallel=place(2), retries=1)
        assert agent.state.told == 0
        assert [f.attempt for f in agent.failures if f.proposal == 0] == [1, 2]

    def test_what_the_environment_does_wrong_is_said_here(self, place, tmp_path):
        agent = ddopg.DDOPG("tests.worlds:TurnsRaising-v0", config=quick(), seed=3, run_directory=tmp_path)
        with pytest.raises(RolloutError, match=r"raised ValueError: lost the marker in step\(\) at step 1"):
            agent.learn(total_episodes=25, parallel=place(2), retries=1)
        told = agent.state.told
        assert 2 <= told <= 8
        assert contents(agent.state.memory) == contents(learnt(Here(2), episodes=told).state.memory)
        assert {failure.steps for failure in agent.failures} == {1}
        last = [failure.attempt for failure in agent.failures if failure.proposal == told]
        assert last == [1, 2]

    def test_a_rollout_that_hangs_is_ended_by_the_time_limit(self, place):
        agent = ddopg.DDOPG("tests.worlds:TurnsSleeping-v0", config=quick())
        with pytest.raises(RolloutError, match=r"took longer than the time limit of 0.3 s"):
            agent.learn(total_episodes=25, parallel=place(1), retries=0, time_limit=0.3)
        assert agent.failures[0].steps == 1

    def test_an_isolated_environment_is_isolated_there_too(self):
        agent = ddopg.DDOPG("tests.worlds:Dies-v0", config=quick(), isolate=True)
        with pytest.raises(RolloutError, match=r"the environment's process died \(exit code 7\)"):
            agent.learn(total_episodes=9, parallel=Locally(1), retries=0)
        agent.env.close()

    def test_a_worker_that_died_while_it_had_nothing_to_do_is_replaced(self):
        from ddopg.rollouts.workers.processes import ProcessPool

        pool = ProcessPool(wire.handle_request, 1)
        spec = ddopg.DDOPG(FOLLOW, config=quick())._rollout_spec(None)
        proposal = ddopg.DDOPG(FOLLOW, config=quick()).ask()[0]
        request = wire.encode_request(wire.to_wire(spec), proposal)
        pool.submit(0, request)
        first = pool.wait()
        (worker,) = pool._idle
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not worker.alive)
        pool.submit(1, request)
        second = pool.wait()
        pool.close()
        assert (first.kind, second.kind, second.key) == ("done", "done", 1)
        assert first.content == second.content


@pytest.mark.slow
def test_a_connection_to_ray_that_was_there_before_stays(cluster):
    import ray

    ray.init(address=cluster, log_to_driver=False)
    agent = learnt(OnRay(2, cluster))
    assert ray.is_initialized()
    ray.shutdown()
    assert contents(agent.state) == contents(learnt(Here(2)).state)


@pytest.mark.long
class TestOnTheCommandLine:
    @pytest.fixture(params=["locally", pytest.param("ray", marks=pytest.mark.slow)])
    def where(self, request):
        """Options."""
        return ["--ray", request.getfixturevalue("cluster")] if request.param == "ray" else []

    def command(self, out, *more):
        command = [sys.executable, "-m", "ddopg", "train", TRAPPED, "--episodes", "40", "--parallel", "3"]
        return [*command, *SMALL, "--eval-points", "1", "--quiet", "--out", str(out), *more]

    def test_a_learner_killed_in_the_middle_goes_on_and_leaves_no_process_behind(self, where, trap, tmp_path):
        config = parse(self.command(tmp_path)[3:]).config
        whole = ddopg.DDOPG(TRAPPED, config=config).learn(total_episodes=40, parallel=Here(3))
        with subprocess.Popen(self.command(tmp_path / "killed", *where), cwd=ROOT) as child:
            wait_until(
                (tmp_path / "killed" / "run.sqlite").exists
            )  # Gymnasium's checker has been there before
            trap.set()
            worker = trap.caught()
            assert worker != child.pid
            child.kill()
        wait_until(lambda: gone(worker), 20)
        told = len(everything(tmp_path / "killed")["rollouts"])
        assert told < 40
        assert main(["resume", str(tmp_path / "killed"), "--env", TRAPPED, "--quiet", *where]) == 0
        assert everything(tmp_path / "killed")["state"] == contents(whole.state)

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_an_interruption_ends_the_workers_and_says_how_to_go_on(
        self, number, code, where, trap, tmp_path
    ):
        script = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        script += "runpy.run_module('ddopg', run_name='__main__')"
        command = [sys.executable, "-c", script, *self.command(tmp_path / "run", *where)[3:]]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
            wait_until((tmp_path / "run" / "run.sqlite").exists)
            trap.set()
            worker = trap.caught()
            child.send_signal(number)
            _, errors = child.communicate(timeout=60)
        assert child.returncode == code, errors
        assert "continue with\n       ddopg resume" in errors
        assert "Traceback" not in errors
        wait_until(lambda: gone(worker), 20)

    def test_the_stored_command_knows_how_many_but_no_cluster(self, tmp_path):
        out = tmp_path / "run"
        assert (
            main(
                [
                    "train",
                    "cartpole",
                    "--episodes",
                    "9",
                    "--parallel",
                    "2",
                    *SMALL,
                    "--quiet",
                    "--out",
                    str(out),
                ]
            )
            == 0
        )
        stored = json.loads(rows(out, "SELECT value FROM run WHERE name = 'command'")[0][0])
        assert stored["parallel"] == 2
        assert "ray" not in stored

    def test_a_file_may_not_say_which_cluster_to_connect_to(self, tmp_path):
        agent = ddopg.DDOPG("cartpole", preset="trajectory")
        agent.record(tmp_path / "run", {"episodes": 2, "eval_episodes": 2, "ray": "127.0.0.1:1"})
        agent.close()
        assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--parallel", "1000"], "between 1 and 256 rollouts at a time, got 1000"),
            (["--parallel", "0"], "between 1 and 256 rollouts at a time, got 0"),
            pytest.param(
                ["--ray", "127.0.0.1:1"],
                "cannot reach a Ray cluster at '127.0.0.1:1'",
                marks=pytest.mark.slow,
            ),
        ],
    )
    def test_wrong_input_is_explained_before_anything_is_made(self, arguments, message, tmp_path, capsys):
        assert main(["train", "cartpole", "--out", str(tmp_path / "run"), *arguments]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    def test_without_ray_its_absence_is_explained(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        assert main(["train", "cartpole", "--out", str(tmp_path / "run"), "--ray", "auto"]) == 2
        assert 'pip install "ddopg[ray]"' in capsys.readouterr().err


class TestWhatCannotBe:
    def refused(self, error, message, env, **options):
        with pytest.raises(error, match=message):
            ddopg.DDOPG(env, **options).learn(total_episodes=9, parallel=2)

    def test_an_environment_without_a_name(self):
        self.refused(SpaceError, "can be made by its name alone", Follow(), config=quick())

    def test_an_environment_that_its_name_alone_does_not_make(self):
        self.refused(SpaceError, "can be made by its name alone", gym.make("Pendulum-v1", g=5.0))

    def test_an_environment_that_only_this_process_knows(self):
        gym.register("OnlyHere-v0", Follow, max_episode_steps=3)
        self.refused(
            SpaceError, "no environment called 'OnlyHere-v0'", gym.make("OnlyHere-v0"), config=quick()
        )
        gym.registry.pop("OnlyHere-v0")

    def test_a_policy_class_of_the_users_own(self):
        policy = custom(lambda key: np.zeros(1, np.float32), lambda theta, seen: theta * seen, 1, 1)
        self.refused(ConfigError, "is a function of this process", FOLLOW, policy=policy)

    def test_a_module_that_a_file_names(self, tmp_path):
        """The name in the file is not used, although the environment has another one here."""
        learnt(1, directory=tmp_path / "run", episodes=9)
        agent = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        assert agent.environment == FOLLOW
        with pytest.raises(SpaceError, match="can be made by its name alone"):
            agent.learn(total_episodes=9, parallel=2)

    def test_another_version_on_the_other_side(self):
        agent = ddopg.DDOPG(FOLLOW, config=quick())
        common = wire.to_wire(agent._rollout_spec(None)) | {"version": "0.0.0"}
        proposal = agent.ask()[0]
        response = wire.handle_request(wire.encode_request(common, proposal))
        with pytest.raises(SpaceError, match=r"here 0\.0\.0; install the same version everywhere"):
            wire.decode_response(response, proposal, agent.problem)

    def test_numbers_that_are_none(self):
        with pytest.raises(ConfigError, match="between 1 and 256 rollouts at a time, got 0"):
            ddopg.DDOPG(FOLLOW, preset="trajectory").learn(total_episodes=1, parallel=0)
        with pytest.raises(ConfigError, match="between 1 and 256"):
            ddopg.DDOPG(FOLLOW, preset="trajectory").learn(total_episodes=1, parallel=Here(0))


@pytest.mark.long
@pytest.mark.parametrize("isolate", [False, True])
def test_a_plain_script_with_a_module_beside_it_needs_no_guard(isolate, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gymnasium as gym\nfrom tests.probes import Follow\n"
        "gym.register('Mine-v0', Follow, max_episode_steps=3)\n"
    )
    (tmp_path / "script.py").write_text(
        f"import ddopg\nagent = ddopg.DDOPG('mine:Mine-v0', isolate={isolate})\n"
        "agent.learn(total_episodes=9, parallel=2)\nprint(agent.state.told, 'told')\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "9 told\n"
