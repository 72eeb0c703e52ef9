"""What may happen after each rollout of `learn`: the callbacks of stable-baselines3 by their customary names.

A callback is any function of (agent, info); it ends the learning by returning False. Those here are objects, because
they remember something. One difference from stable-baselines3: an episode is played as a whole, so that they are
called after rollouts, not after steps; frequencies count environment steps all the same.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from ddopg.core.algorithm import Info
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.core.types import Evaluation
from ddopg.errors import require, require_function
from ddopg.rollouts.playing import evaluate
from ddopg.storage.policy_file import TrainedPolicy
from ddopg.support.files import write_atomically
from ddopg.support.journal import log_evaluation


class Learner(Protocol):
    """What callbacks need of an agent."""

    @property
    def incumbent(self) -> TrainedPolicy:
        """The policy to hand over now."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the incumbent."""


Callback = Callable[[Any, Info], bool | None]


class BaseCallback:
    """The base of your own: override `_on_step`, and the other two where needed.

    Attributes:
        model: the agent.
        info: what the last `tell` reported.
        n_calls: rollouts since the callback was made.
        num_timesteps: environment steps so far.

    Example:
        >>> class Patience(BaseCallback):
        ...     def _on_step(self):
        ...         return self.n_calls < 3
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=20, callback=Patience())
        >>> agent.state.memory.size
        3
    """

    model: Learner
    info: Info
    parent: BaseCallback | None = None  # whose event calls this one, for those that react to another

    def __init__(self) -> None:
        self.n_calls = 0
        self.num_timesteps = 0

    def __call__(self, agent: Learner, info: Info) -> bool:
        """Called after each rollout.

        Args:
            agent: the learner.
            info: what its `tell` reported.

        Returns:
            False ends the learning.
        """
        self.model, self.info = agent, info
        self.n_calls += 1
        self.num_timesteps = info.steps
        return self._on_step() is not False

    def on_training_start(self, agent: Learner) -> None:
        """Called before the first rollout of a call of `learn`.

        Args:
            agent: the learner.
        """
        self.model = agent
        self._on_training_start()

    @property
    def latest_evaluation(self) -> Evaluation | None:
        """The last evaluation on fresh episodes that this callback knows of, for the display; None without one."""
        return None

    def on_training_end(self) -> None:
        """At the end of a call of `learn`, however it ends."""
        self._on_training_end()

    def _on_training_start(self) -> None:
        pass

    def _on_step(self) -> bool | None:
        return True

    def _on_training_end(self) -> None:
        pass


class CallbackList(BaseCallback):
    """Several callbacks as one; each is called, and any of them may end the learning.

    Args:
        callbacks: functions of (agent, info), or objects of `BaseCallback`.

    Example:
        >>> returns = []
        >>> both = CallbackList([lambda agent, info: returns.append(info.return_), StopTrainingOnMaxEpisodes(2)])
        >>> _ = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=9, callback=both)
        >>> len(returns)
        2
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        super().__init__()
        self.callbacks = list(callbacks)

    def on_training_start(self, agent: Learner) -> None:
        """Pass it on to those that are objects of `BaseCallback`.

        Args:
            agent: the learner.
        """
        for callback in self._objects():
            callback.on_training_start(agent)

    def on_training_end(self) -> None:
        """Pass it on to those that are objects of `BaseCallback`."""
        for callback in self._objects():
            callback.on_training_end()

    @property
    def latest_evaluation(self) -> Evaluation | None:
        """The last evaluation of any of them."""
        known = [callback.latest_evaluation for callback in self._objects()]
        return max(filter(None, known), key=lambda evaluation: evaluation.rollout, default=None)

    def _on_step(self) -> bool:
        answers = [callback(self.model, self.info) for callback in self.callbacks]
        return all(answer is not False for answer in answers)

    def _objects(self) -> list[BaseCallback]:
        return [callback for callback in self.callbacks if isinstance(callback, BaseCallback)]


class _Every(BaseCallback):
    """Acts whenever the steps have grown by `frequency` since it last did."""

    def __init__(self, name: str, frequency: int) -> None:
        super().__init__()
        require(frequency >= 1, f"{name} must be at least 1 step, got {frequency}")
        self._frequency, self._next = frequency, frequency

    def _on_step(self) -> bool | None:
        if self.num_timesteps < self._next:
            return True
        self._next = (self.num_timesteps // self._frequency + 1) * self._frequency
        return self._act()

    def _act(self) -> bool | None:
        raise NotImplementedError


class EveryNTimesteps(_Every):
    """Calls another callback every `n_steps` environment steps.

    Args:
        n_steps: environment steps from one call to the next, at least.
        callback: what is called.

    Raises:
        ConfigError: if `n_steps` is below 1.

    Example:
        >>> steps = []
        >>> now_and_then = EveryNTimesteps(50, lambda agent, info: steps.append(info.steps))
        >>> _ = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=7, callback=now_and_then)
        >>> all(later - sooner >= 1 for sooner, later in zip(steps, steps[1:]))
        True
    """

    def __init__(self, n_steps: int, callback: Callback) -> None:
        super().__init__("n_steps", n_steps)
        self.callback = _child(self, callback)

    def _act(self) -> bool | None:
        return self.callback(self.model, self.info)


class CheckpointCallback(_Every):
    """Saves the incumbent every `save_freq` steps as SAVE_PATH/PREFIX_STEPS_steps.safetensors.

    Args:
        save_freq: environment steps from one file to the next, at least.
        save_path: the directory of the files.
        name_prefix: how their names begin.

    Raises:
        ConfigError: if `save_freq` is below 1.

    Example:
        >>> keep = CheckpointCallback(save_freq=20, save_path="checkpoints")
        >>> _ = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=6, callback=keep)
        >>> len(list(Path("checkpoints").glob("rl_model_*_steps.safetensors"))) > 0
        True
    """

    def __init__(
        self, save_freq: int, save_path: str | os.PathLike[str], name_prefix: str = "rl_model"
    ) -> None:
        super().__init__("save_freq", save_freq)
        self.save_path, self.name_prefix = Path(save_path), name_prefix

    def _act(self) -> bool:
        self.model.save(self.save_path / f"{self.name_prefix}_{self.num_timesteps}_steps.safetensors")
        return True


class EvalCallback(_Every):
    """Evaluates the incumbent every `eval_freq` steps on fresh episodes of an environment of its own.

    The episodes are extra: nothing is learnt from them, their steps are not counted. The best incumbent so far is
    kept as BEST_MODEL_SAVE_PATH/best_model.safetensors; everything measured as LOG_PATH/evaluations.npz
    (`timesteps`, `results`).

    Args:
        eval_env: an environment, or a vector of them, that nothing is learnt in.
        callback_on_new_best: called after an evaluation that is better than all before.
        callback_after_eval: called after each evaluation.
        n_eval_episodes: episodes per evaluation.
        eval_freq: environment steps from one evaluation to the next, at least.
        log_path: the directory of evaluations.npz; none is written without it.
        best_model_save_path: the directory of best_model.safetensors; none is written without it.

    Raises:
        ConfigError: if `eval_freq` or `n_eval_episodes` is below 1.

    Example:
        >>> import gymnasium as gym
        >>> evaluation = EvalCallback(gym.make("ddopg/Cartpole-v0"), eval_freq=30, n_eval_episodes=2)
        >>> _ = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=6, callback=evaluation)
        >>> evaluation.best_mean_reward >= evaluation.last_mean_reward
        True
    """

    def __init__(
        self,
        eval_env: gym.Env | gym.vector.VectorEnv,
        callback_on_new_best: Callback | None = None,
        callback_after_eval: Callback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: str | os.PathLike[str] | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__("eval_freq", eval_freq)
        require(n_eval_episodes >= 1, f"n_eval_episodes must be at least 1, got {n_eval_episodes}")
        self.eval_env, self.n_eval_episodes = eval_env, n_eval_episodes
        self.callback_on_new_best = _child(self, callback_on_new_best)
        self.callback_after_eval = _child(self, callback_after_eval)
        self.log_path, self.best_model_save_path = log_path, best_model_save_path
        self.best_mean_reward = self.last_mean_reward = -np.inf
        self.latest: Evaluation | None = None
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[np.ndarray] = []

    @property
    def latest_evaluation(self) -> Evaluation | None:
        """The last evaluation."""
        return self.latest

    def _act(self) -> bool:
        trained, first = self.model.incumbent, FIRST_EVALUATION_SEED + self.n_calls * self.n_eval_episodes
        seeds = range(first, first + self.n_eval_episodes)
        returns = evaluate(self.eval_env, trained.policy, trained.theta, seeds, trained.problem.horizon)
        self.latest = Evaluation.of(self.info.rollout, self.num_timesteps, returns)
        self.last_mean_reward = self.latest.mean
        log_evaluation(self.latest)
        self._log(returns)
        going_on = True
        if self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            if self.best_model_save_path is not None:
                self.model.save(Path(self.best_model_save_path) / "best_model.safetensors")
            going_on = self._tell(self.callback_on_new_best)
        return self._tell(self.callback_after_eval) and going_on

    def _tell(self, callback: Callback | None) -> bool:
        return callback is None or callback(self.model, self.info) is not False

    def _log(self, returns: np.ndarray) -> None:
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(returns)
        if self.log_path is not None:
            log: dict[str, list] = {
                "timesteps": self.evaluations_timesteps,
                "results": self.evaluations_results,
            }
            write_atomically(Path(self.log_path) / "evaluations.npz", _npz(log))


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends the learning once the best mean return of an `EvalCallback` reaches the threshold.

    Give it to that one as `callback_on_new_best`.

    Args:
        reward_threshold: the mean return that is enough.

    Example:
        >>> import gymnasium as gym
        >>> enough = StopTrainingOnRewardThreshold(20.0)
        >>> evaluation = EvalCallback(gym.make("ddopg/Cartpole-v0"), callback_on_new_best=enough, eval_freq=1)
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=9, callback=evaluation)
        >>> agent.state.memory.size < 9
        True
    """

    def __init__(self, reward_threshold: float) -> None:
        super().__init__()
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        return _evaluation(self).best_mean_reward < self.reward_threshold


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends the learning after more than `max_no_improvement_evals` evaluations in a row without a new best.

    Give it to an `EvalCallback` as `callback_after_eval`.

    Args:
        max_no_improvement_evals: evaluations without a new best that are allowed.
        min_evals: the first evaluations, which do not count.

    Example:
        >>> import gymnasium as gym
        >>> patience = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1)
        >>> evaluation = EvalCallback(gym.make("ddopg/Cartpole-v0"), callback_after_eval=patience, eval_freq=1)
        >>> agent = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=9, callback=evaluation)
        >>> len(evaluation.evaluations_timesteps) <= 9
        True
    """

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0) -> None:
        super().__init__()
        self.max_no_improvement_evals, self.min_evals = max_no_improvement_evals, min_evals
        self.no_improvement_evals, self._best = 0, -np.inf

    def _on_step(self) -> bool:
        best, before = _evaluation(self).best_mean_reward, self._best
        self._best = best
        if best > before or self.n_calls <= self.min_evals:
            self.no_improvement_evals = 0
            return True
        self.no_improvement_evals += 1
        return self.no_improvement_evals <= self.max_no_improvement_evals


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends the learning once the learner has seen this many episodes in all.

    Args:
        max_episodes: the number of episodes.

    Raises:
        ConfigError: if it is below 1.

    Example:
        >>> agent = ddopg.DDOPG("cartpole", seed=0)
        >>> agent.learn(total_timesteps=10_000, callback=StopTrainingOnMaxEpisodes(4)).state.memory.size
        4
    """

    def __init__(self, max_episodes: int) -> None:
        super().__init__()
        require(max_episodes >= 1, f"max_episodes must be at least 1, got {max_episodes}")
        self.max_episodes = max_episodes

    def _on_step(self) -> bool:
        return self.info.rollout < self.max_episodes


def as_callback(callback: Any) -> BaseCallback:
    """What `learn` was given, as one object: nothing, a function, a callback, or a list of them."""
    if isinstance(callback, BaseCallback):
        return callback
    several = callback if isinstance(callback, (list, tuple)) else [] if callback is None else [callback]
    for one in several:
        require(callable(one), f"a callback is a function of (agent, info), got {one!r}")
        require(
            not isinstance(one, type),
            f"a callback is a function of (agent, info) or an object, got the class {getattr(one, '__name__', one)}; "
            "make one of it first: write its arguments in brackets behind it",
        )
        require_function("a callback", one, ("agent", "info"))
    return CallbackList(several)


@contextmanager
def callback_scope(callback: BaseCallback, agent: Learner) -> Iterator[None]:
    """Tell the callback of the beginning, and of the end however it comes."""
    callback.on_training_start(agent)
    try:
        yield
    finally:
        callback.on_training_end()


def _npz(arrays: dict[str, list]) -> bytes:
    """What `np.load` reads, written without the possibility of pickling that `np.savez` has."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, values in arrays.items():
            array = io.BytesIO()
            np.lib.format.write_array(array, np.asarray(values), allow_pickle=False)
            archive.writestr(f"{name}.npy", array.getvalue())
    return content.getvalue()


def _child(parent: BaseCallback, callback: Any) -> Any:
    if isinstance(callback, BaseCallback):
        callback.parent = parent
    return callback


def _evaluation(callback: BaseCallback) -> EvalCallback:
    parent = callback.parent
    require(
        isinstance(parent, EvalCallback),
        f"{type(callback).__name__} reacts to evaluations: give it to an EvalCallback, as callback_on_new_best or "
        "callback_after_eval",
    )
    assert isinstance(parent, EvalCallback)
    return parent
