"""Minari data sets with the real library: what a run leaves comes back bit for bit, and what others made is read."""

import json
import os
import sys
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest
from minari import DataCollector

import ddopg
from ddopg.cli.main import main
from ddopg.config import preset
from ddopg.errors import (
    ArtefactError,
    ConfigError,
    MissingPackageError,
    SpaceError,
    StoreError,
    TrajectoryError,
)
from ddopg.minari import episodes, export, trajectories
from ddopg.minari import writing as writing_module
from ddopg.minari.library import ANSWER
from ddopg.policies import mlp
from ddopg.rollouts.playing import rollout as play_once
from ddopg.storage.reading import read_rollouts
from ddopg.support.records import change
from tests.probes import Follow

CONFIG = change(preset("released"), {"design.spread": 20.0, "search.steps": 5, "selection.size": 8})
NAME = "mine/cartpole-v0"
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is set to None.*:UserWarning"),  # what Minari would like to know
    pytest.mark.filterwarnings("ignore:env_spec is None.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),  # its collector's own
]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Six rollouts on cartpole with raw outputs, some of them beyond the action range."""
    directory = tmp_path_factory.mktemp("run") / "run"
    agent = ddopg.DDOPG("cartpole", config=CONFIG, seed=3, run_directory=directory)
    agent.learn(total_episodes=6)
    agent.close()
    return directory


@pytest.fixture
def robot(tmp_path):
    """Rollouts that no simulator can play again."""
    box = gym.spaces.Box(-1, 1, (2,), np.float32)
    agent = ddopg.DDOPG(
        observation_space=box,
        action_space=box,
        horizon=4,
        run_directory=tmp_path / "robot",
        preset="trajectory",
    )
    for number, proposal in enumerate(agent.ask(3)):
        seen = np.random.default_rng(number).uniform(-1, 1, (number + 2, 2))
        acted = np.array([proposal.act(o) for o in seen])
        agent.tell(proposal, proposal.trajectory(seen, acted, acted[:, 0], terminated=number == 1))
    agent.close()
    return tmp_path / "robot"


def same(one, other):
    return all(
        a.tobytes() == b.tobytes() and a.dtype == b.dtype and a.shape == b.shape
        if isinstance(a, np.ndarray)
        else type(a) is type(b) and a == b
        for a, b in zip(one, other, strict=True)
    )


class TestExport:
    def test_the_rollouts_of_a_run_come_back_bit_for_bit(self, run):
        export(run, NAME)
        stored = [rollout.trajectory for rollout in read_rollouts(run)[1]]
        back = trajectories(NAME)
        assert len(back) == len(stored) == 6
        assert all(same(a, b) for a, b in zip(back, stored, strict=True))

    def test_minari_reads_it_as_its_own(self, run):
        export(run, NAME, author="me")
        dataset = minari.load_dataset(NAME)
        _, rollouts = read_rollouts(run)
        assert dataset.total_episodes == len(rollouts)
        assert dataset.total_steps == sum(r.trajectory.length for r in rollouts)
        for episode, rollout in zip(dataset.iterate_episodes(), rollouts, strict=True):
            steps = rollout.trajectory.length
            assert len(episode.observations) == steps + 1 == len(episode.infos[ANSWER])
            assert (episode.observations.dtype, episode.actions.dtype) == (np.float32, np.float32)
            assert (episode.rewards.dtype, episode.terminations.dtype) == (np.float64, np.bool_)
            assert episode.rewards.sum() == pytest.approx(rollout.value)
            assert episode.terminations[-1] == rollout.trajectory.terminated
            assert episode.truncations[-1] == rollout.trajectory.truncated
            assert not episode.terminations[:-1].any()
            assert not episode.truncations[:-1].any()
            assert all(dataset.observation_space.contains(o) for o in episode.observations)
        dataset.set_seed(0)
        assert len({episode.id for episode in dataset.sample_episodes(4)}) == 4

    def test_actions_lie_in_their_range_and_what_the_policy_asked_for_is_beside_them(self, run):
        dataset = export(run, NAME)
        asked = np.concatenate([episode.infos[ANSWER][1:] for episode in dataset])
        actions = np.concatenate([episode.actions for episode in dataset])
        bound = dataset.action_space.high
        assert (np.abs(asked) > bound).any()
        assert np.array_equal(actions, np.clip(asked, -bound, bound))
        assert all(np.isnan(episode.infos[ANSWER][0]).all() for episode in dataset)

    def test_the_last_observation_is_what_the_environment_would_show(self, run):
        dataset = export(run, NAME)
        env = ddopg.envs.adapter.make("cartpole")
        for episode, note in zip(dataset, dataset.storage.get_episode_metadata(range(6)), strict=True):
            observation, _ = env.reset(seed=note["seed"])
            for action in episode.infos[ANSWER][1:]:
                observation, *_ = env.step(action)
            assert np.array_equal(episode.observations[-1], observation.astype(np.float32))
            assert not np.array_equal(episode.observations[-1], episode.observations[-2])
            assert note["last_observation"] == "replayed"
        assert dataset.storage.metadata["ddopg"]["last_observations"] == {"replayed": 6, "repeated": 0}

    def test_a_compiled_rollout_counts_as_replayed_although_it_rounds_differently(self):
        env, policy = ddopg.envs.adapter.make("swimmer"), mlp(13, 2)
        theta = 3 * np.random.default_rng(0).standard_normal(policy.size).astype(np.float32)
        trajectory = play_once(env, policy, theta, seed=1)
        assert np.any(trajectory.rewards != play_once(gym.Wrapper(env), policy, theta, seed=1).rewards)
        assert writing_module._replay_last_observation(env, trajectory) is not None
        assert (
            writing_module._replay_last_observation(
                env, trajectory._replace(rewards=trajectory.rewards + 1e-3)
            )
            is None
        )

    def test_without_an_environment_the_last_observation_is_repeated_and_it_is_said(self, robot):
        dataset = export(robot, "robot/arm-v3")
        for episode, note in zip(dataset, dataset.storage.get_episode_metadata(range(3)), strict=True):
            assert np.array_equal(episode.observations[-1], episode.observations[-2])
            assert (note["last_observation"], note.get("seed")) == ("repeated", None)
        assert dataset.env_spec is None
        assert dataset.storage.metadata["ddopg"]["last_observations"] == {"replayed": 0, "repeated": 3}
        stored = [rollout.trajectory for rollout in read_rollouts(robot)[1]]
        assert all(same(a, b) for a, b in zip(trajectories("robot/arm-v3"), stored, strict=True))

    def test_an_environment_that_plays_something_else_is_not_believed(self, run):
        class Other(gym.ObservationWrapper):
            def observation(self, observation):
                return observation + 1e-3

        dataset = export(run, NAME, Other(ddopg.envs.adapter.make("cartpole")))
        assert dataset.storage.metadata["ddopg"]["last_observations"] == {"replayed": 0, "repeated": 6}

    def test_metadata_say_where_it_comes_from(self, run):
        dataset = export(run, NAME, author="me")
        about = dataset.storage.metadata
        assert (about["algorithm_name"], about["author"]) == ("DD-OPG", {"me"})
        assert "All 6 rollouts" in about["description"]
        assert about["ddopg"]["version"] == ddopg.__version__
        assert about["ddopg"]["config"]["selection"]["size"] == CONFIG.selection.size
        notes = list(dataset.storage.get_episode_metadata(range(6)))
        for note, rollout in zip(notes, read_rollouts(run)[1], strict=True):
            assert np.array_equal(note["theta"], rollout.trajectory.theta)
            assert (note["rollout"], note["purpose"]) == (rollout.number, rollout.purpose)
            assert note["return"] == rollout.value
            assert note["seed"] == rollout.trajectory.seed

    def test_the_environment_can_be_recovered(self, run):
        env = export(run, NAME).recover_environment()
        assert env.spec.id == "ddopg/Cartpole-v0"
        assert env.spec.max_episode_steps == 100

    def test_a_data_set_that_is_there_stays_unless_told(self, run, robot, home):
        export(run, NAME)
        before = (home / NAME / "data" / "metadata.json").read_bytes()
        with pytest.raises(StoreError, match=r"already.*overwrite=True"):
            export(robot, NAME)
        assert (home / NAME / "data" / "metadata.json").read_bytes() == before
        export(robot, NAME, overwrite=True)
        assert minari.load_dataset(NAME).total_episodes == 3
        assert sorted(path.name for path in (home / "mine").iterdir()) == [
            "cartpole-v0",
            "namespace_metadata.json",
        ]

    def test_what_fails_midway_leaves_the_old_data_set_or_none(self, run, robot, home, monkeypatch):
        def broken(*arguments):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(writing_module, "_describe_episode", broken)
        with pytest.raises(StoreError, match="No space left on device"):
            export(run, NAME)
        assert not (home / NAME).exists()
        monkeypatch.undo()
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(home))
        export(robot, NAME)
        monkeypatch.setattr(writing_module, "_describe_episode", broken)
        with pytest.raises(StoreError):
            export(run, NAME, overwrite=True)
        assert minari.load_dataset(NAME).total_episodes == 3

    @pytest.mark.parametrize("finished", [False, True])
    def test_a_kill_while_one_takes_the_place_of_another_leaves_one_of_them_whole(
        self, finished, run, robot, home
    ):
        export(robot, NAME)
        old = (home / NAME).with_name(".cartpole-v0.old")
        (home / NAME).rename(old)
        if finished:
            export(run, NAME, overwrite=True)
            export(robot, "mine/other-v0")
            (home / "mine" / "other-v0").rename(old)
        count = 3 if not finished else len(read_rollouts(run)[1])
        assert len(trajectories(NAME)) == count
        assert not old.exists()
        export(robot, NAME, overwrite=True)
        assert minari.load_dataset(NAME).total_episodes == 3
        assert [path.name for path in home.parent.glob(".*")] == []

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a data set is away for an instant")
    def test_a_data_set_is_there_at_every_instant_while_another_takes_its_place(
        self, run, robot, home, monkeypatch
    ):
        export(robot, NAME)
        rename = Path.rename

        def watch(path, target):
            rename(path, target)
            assert (home / NAME / "data" / "main_data.hdf5").exists()

        monkeypatch.setattr(Path, "rename", watch)
        export(run, NAME, overwrite=True)
        assert minari.load_dataset(NAME).total_episodes == len(read_rollouts(run)[1])

    def test_a_system_that_cannot_exchange_directories_renames_them(self, run, robot, home, monkeypatch):
        export(robot, NAME)
        monkeypatch.setattr(writing_module, "exchange", lambda one, other: False)
        export(run, NAME, overwrite=True)
        assert minari.load_dataset(NAME).total_episodes == len(read_rollouts(run)[1])
        assert [path.name for path in home.glob("mine/.*")] == []

    def test_drafts_of_killed_exports_are_removed_an_hour_later(self, robot, home):
        drafts = [home.parent / f".datasets.{number}.draft" for number in (1, 2)]
        for draft in drafts:
            (draft / "mine").mkdir(parents=True)
        for path in (drafts[0] / "mine", drafts[0]):
            os.utime(path, (1e9, 1e9))
        export(robot, NAME)
        assert [draft.exists() for draft in drafts] == [False, True]

    def test_the_home_of_the_data_sets_may_be_relative(self, robot, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MINARI_DATASETS_PATH", "here")
        export(robot, NAME)
        assert (tmp_path / "here" / NAME).is_dir()
        assert len(trajectories(NAME)) == 3

    def test_a_policy_too_large_for_the_metadata_is_left_out(self, robot, monkeypatch):
        monkeypatch.setattr(writing_module, "MOST_PARAMETERS", 5)
        export(robot, NAME)
        assert {episode.theta for episode in episodes(NAME)} == {None}

    @pytest.mark.parametrize("name", ["cartpole", "mine/cartpole", "../x-v0", "mine/cart pole-v0", "-v", ""])
    def test_names_that_are_none_are_refused(self, name, run, home):
        with pytest.raises(ConfigError, match=r"called namespace/name-v0"):
            export(run, name)
        assert not home.exists()


@pytest.fixture
def pendulum():
    """A data set made with Minari's own collector and a hand-written controller."""
    env = DataCollector(gym.make("Pendulum-v1", max_episode_steps=15))
    for seed in (5, 6, 7):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            torque = np.clip(-observation[1] - 0.1 * observation[2], -2, 2)
            observation, _, terminated, truncated, _ = env.step(np.array([torque], np.float32))
            over = terminated or truncated
    return env.create_dataset("hand/pendulum-v0")


class TestImport:
    def test_a_data_set_of_others_gives_plain_episodes(self, pendulum):
        found = list(episodes("hand/pendulum-v0"))
        assert len(found) == 3
        for episode, data in zip(found, pendulum.iterate_episodes(), strict=True):
            assert episode.observations.shape == (15, 3)
            assert np.array_equal(episode.observations, data.observations[:-1].astype(np.float32))
            assert np.array_equal(episode.actions, data.actions)
            assert np.array_equal(episode.rewards, data.rewards)
            assert (episode.terminated, episode.truncated, episode.theta) == (False, True, None)
        assert [episode.seed for episode in found] == [5, 6, 7]

    def test_a_loaded_or_filtered_data_set_will_do_too(self, pendulum):
        few = pendulum.filter_episodes(lambda episode: episode.id != 1)
        assert [episode.seed for episode in episodes(few)] == [5, 7]

    def test_a_learner_takes_them_where_theta_is_known(self, run):
        export(run, NAME)
        agent = ddopg.DDOPG("cartpole", config=CONFIG, seed=3)
        for proposal, trajectory in zip(agent.ask(5), trajectories(NAME), strict=False):
            assert np.array_equal(proposal.theta, trajectory.theta)
            agent.tell(proposal, trajectory)
        assert agent.state.memory.size == 5

    def test_a_learner_fits_a_policy_to_those_of_others(self, pendulum):
        found = trajectories("hand/pendulum-v0")
        assert {(t.theta.size, t.horizon, t.length) for t in found} == {(0, 15, 15)}
        agent = ddopg.DDOPG(gym.make("Pendulum-v1", max_episode_steps=15), seed=0, preset="trajectory")
        added = [agent.add(trajectory) for trajectory in found]
        assert agent.state.memory.size == 3
        assert min(one.fit.explained for one in added) > 0.5

    def test_a_horizon_that_nobody_knows_is_asked_for(self, robot, home):
        export(robot, NAME)
        path = home / NAME / "data" / "metadata.json"
        about = json.loads(path.read_text())
        del about["ddopg"]
        path.write_text(json.dumps(about))
        with pytest.raises(TrajectoryError, match="give the horizon of your learner"):
            trajectories(NAME)
        assert {t.horizon for t in trajectories(NAME, horizon=9)} == {9}

    def test_observations_in_dictionaries_are_flattened(self):
        class Parts(gym.ObservationWrapper):
            def __init__(self, env):
                super().__init__(env)
                self.observation_space = gym.spaces.Dict(
                    {
                        "b": gym.spaces.Box(-1, 1, (1,)),
                        "a": gym.spaces.Box(-9, 9, (2,)),
                        "c": gym.spaces.Discrete(3),
                    }
                )

            def observation(self, observation):
                return {"b": observation, "a": np.repeat(observation, 2) + 2, "c": 1}

        env = DataCollector(Parts(Follow()))
        env.reset(seed=1)
        while not env.step(np.zeros(1, np.float32))[2]:
            pass
        dataset = env.create_dataset("hand/parts-v0")
        (episode,) = episodes(dataset)
        seen = np.asarray(next(iter(dataset)).observations["b"])[:3, 0]
        expected = np.stack([seen + 2, seen + 2, seen, seen * 0, seen * 0 + 1, seen * 0], axis=1)
        assert episode.observations == pytest.approx(expected)
        assert episode.observations.dtype == np.float32

    def test_discrete_actions_are_refused_with_advice(self):
        env = DataCollector(gym.make("CartPole-v1"))
        env.reset(seed=1)
        while not env.step(0)[2]:
            pass
        dataset = env.create_dataset("hand/cartpole-v0")
        with pytest.raises(SpaceError, match=r"must be vectors of real numbers \(a Box\), got Discrete\(2\)"):
            list(episodes(dataset))

    def test_a_name_that_is_not_here_is_explained(self, run):
        export(run, NAME)
        with pytest.raises(ArtefactError, match=r"did you mean 'mine/cartpole-v0'.*minari download"):
            trajectories("mine/cartpole-v1")
        with pytest.raises(ConfigError, match="called namespace/name-v0"):
            list(episodes("cartpole"))


def test_a_data_set_may_not_say_which_module_to_import(run, home, tmp_path, monkeypatch):
    export(run, NAME)
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = home / NAME / "data" / "metadata.json"
    about = json.loads(path.read_text())
    del about["observation_space"]
    assert "ddopg.envs.tasks.cartpole:make" in about["env_spec"]
    about["env_spec"] = about["env_spec"].replace("ddopg.envs.tasks.cartpole", "hostile")
    path.write_text(json.dumps(about))
    with pytest.raises(ArtefactError, match="may not say which environment to make"):
        trajectories(NAME)
    assert "hostile" not in sys.modules


class TestCommand:
    def test_export_says_what_it_wrote_and_refuses_to_write_it_twice(self, run, home, capsys):
        assert main(["export", str(run), "--minari", NAME, "--author", "me"]) == 0
        shown = capsys.readouterr().out
        assert "6 episodes" in shown
        assert "6 replayed, 0 repeated" in shown
        assert str(home / NAME) in shown.replace("\n", "")
        assert json.loads((home / NAME / "data" / "metadata.json").read_text())["author"] == ["me"]
        assert main(["export", str(run), "--minari", NAME]) == 2
        assert "--overwrite" in capsys.readouterr().err
        assert main(["export", str(run), "--minari", NAME, "--overwrite"]) == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "say what to write: a file"),
            (["p.onnx", "--minari", NAME], "say what to write: a file"),
            (["--minari", "cartpole"], "namespace/name-v0"),
            (["--minari", NAME, "--env", "cartpol"], "did you mean 'cartpole'"),
        ],
    )
    def test_wrong_input_is_explained(self, arguments, message, run, capsys):
        assert main(["export", str(run), *arguments]) == 2
        assert message in capsys.readouterr().err

    def test_a_file_has_no_rollouts(self, run, capsys):
        assert main(["export", str(run / "run.sqlite"), "--minari", NAME]) == 2
        assert "give the directory of a run" in capsys.readouterr().err

    def test_a_run_without_rollouts_is_none(self, tmp_path, capsys):
        ddopg.DDOPG("cartpole", run_directory=tmp_path / "new", preset="trajectory").close()
        assert main(["export", str(tmp_path / "new"), "--minari", NAME]) == 2
        assert "holds no rollout yet" in capsys.readouterr().err

    def test_a_run_that_goes_on_can_be_exported(self, tmp_path):
        agent = ddopg.DDOPG("cartpole", run_directory=tmp_path / "on", preset="trajectory")
        agent.learn(total_episodes=2)
        assert export(tmp_path / "on", NAME).total_episodes == 2
        agent.learn(total_episodes=1)
        agent.close()

    def test_without_minari_its_absence_is_explained(self, run, monkeypatch):
        monkeypatch.setitem(sys.modules, "minari", None)
        with pytest.raises(MissingPackageError, match=r'pip install "ddopg\[minari\]"'):
            export(run, NAME)
