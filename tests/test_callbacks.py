"""Callbacks by their customary names: when they act, what they keep, how they end the learning."""

import numpy as np
import pytest

import ddopg
from ddopg.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from ddopg.errors import ConfigError
from tests.probes import Follow, Scripted, Target
from tests.test_agent import agent


class Diary(BaseCallback):
    def __init__(self):
        super().__init__()
        self.lines = []

    def _on_training_start(self):
        self.lines.append(("start", self.model.state.steps))

    def _on_step(self):
        self.lines.append((self.n_calls, self.num_timesteps))

    def _on_training_end(self):
        self.lines.append("end")


def test_a_callback_hears_the_beginning_every_rollout_and_the_end():
    diary, functions = Diary(), []
    agent(Target(length=3)).learn(
        total_episodes=3, callback=[diary, lambda a, i: functions.append(i.rollout)]
    )
    assert diary.lines == [("start", 0), (1, 3), (2, 6), (3, 9), "end"]
    assert functions == [1, 2, 3]


def test_the_end_is_heard_also_after_an_error():
    diary = Diary()

    def fail(learner, info):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        agent().learn(total_episodes=3, callback=[diary, fail])
    assert diary.lines[-1] == "end"


def test_one_of_several_ends_the_learning_and_all_have_heard():
    diary = Diary()
    both = CallbackList([lambda a, i: i.rollout < 2, diary])
    assert agent().learn(total_episodes=9, callback=both).state.memory.size == 2
    assert len(diary.lines) == 4


def test_frequencies_count_environment_steps():
    diary = Diary()
    agent(Target(length=3)).learn(total_episodes=8, callback=EveryNTimesteps(6, diary))
    assert diary.lines == [(1, 6), (2, 12), (3, 18), (4, 24)]
    coarse = Diary()
    agent(Target(length=3)).learn(total_episodes=8, callback=EveryNTimesteps(10, coarse))
    assert coarse.lines == [(1, 12), (2, 21)]


def test_checkpoints_are_the_incumbents_of_their_time(tmp_path):
    kept = []
    save = CheckpointCallback(save_freq=9, save_path=tmp_path, name_prefix="p")
    agent(Target(length=3)).learn(
        total_episodes=7, callback=[save, lambda a, i: kept.append(a.state.incumbent.theta)]
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "p_18_steps.safetensors",
        "p_9_steps.safetensors",
    ]
    np.testing.assert_array_equal(ddopg.load(tmp_path / "p_9_steps.safetensors").theta, kept[2])
    np.testing.assert_array_equal(ddopg.load(tmp_path / "p_18_steps.safetensors").theta, kept[5])


def test_evaluation_keeps_the_best_and_everything_measured(tmp_path):
    learner = agent()
    evaluation = EvalCallback(
        Follow(), n_eval_episodes=3, eval_freq=6, log_path=tmp_path / "log", best_model_save_path=tmp_path
    )
    learner.learn(total_episodes=20, callback=evaluation)
    with np.load(tmp_path / "log" / "evaluations.npz", allow_pickle=False) as log:
        times, results = log["timesteps"], log["results"]
    assert list(times) == list(range(6, 61, 6))
    assert results.shape == (10, 3)
    assert evaluation.last_mean_reward == results[-1].mean()
    assert evaluation.best_mean_reward == results.mean(axis=1).max()
    best = ddopg.load(tmp_path / "best_model.safetensors")
    assert best.note["steps"] == times[results.mean(axis=1).argmax()]
    assert learner.state.steps == 60, "evaluation costs no steps of learning"


def test_learning_ends_once_the_evaluation_is_good_enough():
    evaluation = EvalCallback(Follow(), StopTrainingOnRewardThreshold(-0.5), n_eval_episodes=20, eval_freq=3)
    learner = agent().learn(total_episodes=100, callback=evaluation)
    assert evaluation.best_mean_reward >= -0.5
    assert learner.state.memory.size < 100
    assert all(results.mean() < -0.5 for results in evaluation.evaluations_results[:-1])


def test_learning_ends_when_evaluations_no_longer_improve():
    stop = StopTrainingOnNoModelImprovement(max_no_improvement_evals=2, min_evals=4)
    evaluation = EvalCallback(Scripted(reward=0.0), callback_after_eval=stop, n_eval_episodes=1, eval_freq=1)
    learner = agent(Scripted(reward=0.0)).learn(total_episodes=50, callback=evaluation)
    assert learner.state.memory.size == 4 + 2 + 1


def test_learning_ends_after_so_many_episodes_in_all():
    learner = agent().learn(total_episodes=3)
    assert learner.learn(total_episodes=50, callback=StopTrainingOnMaxEpisodes(7)).state.memory.size == 7


def test_wrong_use_is_explained():
    with pytest.raises(ConfigError, match=r"a callback is a function of \(agent, info\), got 3"):
        agent().learn(total_episodes=2, callback=[3])
    with pytest.raises(ConfigError, match="give it to an EvalCallback"):
        agent().learn(total_episodes=2, callback=StopTrainingOnRewardThreshold(1.0))
    for wrong, words in (
        (lambda: EveryNTimesteps(0, Diary()), "n_steps must be at least 1 step, got 0"),
        (lambda: EvalCallback(Follow(), n_eval_episodes=0), "n_eval_episodes must be at least 1, got 0"),
        (lambda: StopTrainingOnMaxEpisodes(0), "max_episodes must be at least 1, got 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            wrong()
