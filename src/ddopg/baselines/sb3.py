"""PPO and SAC of stable-baselines3, TRPO of sb3-contrib: the real libraries, of the extra `baselines`.

They learn in pieces of one update. Their actor is copied into one of our policies after each, so that it is evaluated
as all others are; running statistics of the observations are folded into its first layer. `sbx.py` does the same
with the learners of sbx, which share the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ddopg.baselines.base import Checkpoint
from ddopg.baselines.scaling import Scaling, fold_scaling, make_identity
from ddopg.baselines.settings import PPOSettings, SACSettings, TRPOSettings
from ddopg.envs.adapter import problem_from_env
from ddopg.errors import MissingPackageError
from ddopg.policies import Policy, clipped, limited, mlp, relu, squashed

PIECE = 100  # steps of SAC and TQC between two checkpoints


class Layer(NamedTuple):
    """A linear layer of an actor."""

    weights: np.ndarray  # (I, O)
    bias: np.ndarray  # (O,)


class Student(NamedTuple):
    """A model of the libraries and how to look at it."""

    model: Any
    policy: Policy  # what its actor computes, deterministically
    read_layers: Callable[[], list[Layer]]  # the actor's linear layers as they are now, first to last
    piece: int  # steps per call


def ppo(env: gym.Env, seed: int, settings: PPOSettings) -> Iterator[Checkpoint]:
    """One checkpoint per batch."""
    libraries = import_libraries()
    model = libraries.sb3.PPO(
        "MlpPolicy",
        wrap_env(env, settings.whiten, settings.discount, libraries, rescale=True),
        n_steps=settings.batch,
        clip_range=settings.clip,
        batch_size=settings.minibatch,
        n_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        gamma=settings.discount,
        gae_lambda=settings.trace,
        ent_coef=settings.entropy,
        policy_kwargs=_describe_network(settings.hidden, settings.std),
        seed=seed,
        device="cpu",
    )
    return learn(_wrap_on_policy_model(env, model, settings.hidden, settings.batch, libraries))


def trpo(env: gym.Env, seed: int, settings: TRPOSettings) -> Iterator[Checkpoint]:
    """One checkpoint per batch."""
    libraries = import_libraries()
    model = libraries.contrib.TRPO(
        "MlpPolicy",
        wrap_env(env, settings.whiten, settings.discount, libraries, rescale=True),
        n_steps=settings.batch,
        target_kl=settings.max_kl,
        batch_size=settings.minibatch,
        learning_rate=settings.learning_rate,
        gamma=settings.discount,
        gae_lambda=settings.trace,
        policy_kwargs=_describe_network(settings.hidden, settings.std),
        seed=seed,
        device="cpu",
    )
    return learn(_wrap_on_policy_model(env, model, settings.hidden, settings.batch, libraries))


def sac(env: gym.Env, seed: int, settings: SACSettings) -> Iterator[Checkpoint]:
    """One checkpoint per hundred steps or update, whichever is longer."""
    libraries = import_libraries()
    model = libraries.sb3.SAC("MlpPolicy", **describe_off_policy(env, seed, settings, libraries))
    problem = problem_from_env(env)
    network = mlp(problem.observation_size, problem.action_size, settings.hidden, relu)
    actor = model.policy.actor
    if settings.state_dependent:  # there the library clips what it squashes
        limit = (actor.clip_mean,) * problem.action_size
        network = limited(network, tuple(-x for x in limit), limit)
    policy = squashed(network, problem.low, problem.high)
    return learn(Student(model, policy, _watch_layers([actor.latent_pi, actor.mu], libraries), PIECE))


def describe_off_policy(
    env: gym.Env, seed: int, settings: SACSettings, libraries: Libraries
) -> dict[str, Any]:
    """Say to an off-policy learner, in the words that stable-baselines3 and sbx share, what it is to do.

    Args:
        env: the task.
        seed: of the run.
        settings: of SAC, or of TQC.
        libraries: see `import_libraries`.

    Returns:
        Keyword arguments of the learner.
    """
    return {
        "env": wrap_env(env, settings.whiten, settings.discount, libraries, rescale=False),
        "learning_rate": settings.learning_rate,
        "batch_size": settings.minibatch,
        "learning_starts": settings.learning_starts,
        "train_freq": settings.train_every,
        "gradient_steps": settings.train_every,
        "gamma": settings.discount,
        "tau": settings.tau,
        "ent_coef": settings.entropy or "auto",
        "use_sde": settings.state_dependent,
        "policy_kwargs": {"net_arch": list(settings.hidden), "log_std_init": settings.log_std},
        "seed": seed,
        "device": "cpu",
    }


def extract_params(student: Student) -> np.ndarray:
    """Extract the actor's parameters as our policy has them, for raw observations, (D,)."""
    layers = student.read_layers()
    theta = np.concatenate([part.ravel() for layer in layers for part in layer])
    inputs, width = layers[0].weights.shape
    return fold_scaling(theta, _read_statistics(student.model) or make_identity(inputs), width)


def learn(student: Student) -> Iterator[Checkpoint]:
    """Learn piece by piece, without end."""
    _disable_logging(student.model)
    while True:
        yield Checkpoint(int(student.model.num_timesteps), student.policy, extract_params(student))
        student.model.learn(student.piece, reset_num_timesteps=False)


def _disable_logging(model: Any) -> None:
    """Without a logger of its own, a model makes a new temporary directory at every call of `learn`."""
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(folder=None, output_formats=[]))


def _wrap_on_policy_model(
    env: gym.Env, model: Any, hidden: tuple[int, ...], piece: int, libraries: Libraries
) -> Student:
    problem = problem_from_env(env)
    network = mlp(problem.observation_size, problem.action_size, hidden)
    layers = _watch_layers([model.policy.mlp_extractor.policy_net, model.policy.action_net], libraries)
    return Student(model, clipped(network, problem.low, problem.high), layers, piece)


def wrap_env(env: gym.Env, whiten: bool, discount: float, libraries: Libraries, rescale: bool) -> Any:
    """Wrap the environment as the libraries want it: actions in [−1, 1], one copy, with running statistics."""
    if rescale:
        env = gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    copies = libraries.vectors.DummyVecEnv([lambda: libraries.monitor.Monitor(env)])
    if not whiten:
        return copies
    # Observations are not clipped: a folded first layer could not do the same.
    return libraries.vectors.VecNormalize(copies, gamma=discount, clip_obs=np.inf)


def _describe_network(hidden: tuple[int, ...], std: float) -> dict[str, Any]:
    return {"net_arch": list(hidden), "log_std_init": float(np.log(std))}


def _watch_layers(parts: list[Any], libraries: Libraries) -> Callable[[], list[Layer]]:
    """Find all linear layers of some modules, in order; what is returned reads their numbers."""
    linear = libraries.torch.nn.Linear
    found = [module for part in parts for module in part.modules() if isinstance(module, linear)]
    return lambda: [Layer(m.weight.detach().numpy().T, m.bias.detach().numpy()) for m in found]


def _read_statistics(model: Any) -> Scaling | None:
    normaliser = model.get_vec_normalize_env()
    if normaliser is None:
        return None
    return Scaling(normaliser.obs_rms.mean, np.sqrt(normaliser.obs_rms.var + normaliser.epsilon))


class Libraries(NamedTuple):
    """What the extra brings."""

    torch: Any
    sb3: Any
    contrib: Any
    vectors: Any
    monitor: Any


def import_libraries() -> Libraries:
    """Import the libraries, with one thread: jobs run side by side, and small networks are faster so."""
    try:
        import sb3_contrib
        import stable_baselines3
        import torch
        from stable_baselines3.common import monitor, vec_env
    except ImportError as error:
        raise MissingPackageError(
            "PPO, TRPO, SAC and TQC need stable-baselines3 and sb3-contrib", "baselines"
        ) from error
    torch.set_num_threads(1)
    return Libraries(torch, stable_baselines3, sb3_contrib, vec_env, monitor)
