"""REINFORCE with reward-to-go and a linear feature baseline, on the same policy classes and environments.

The policy is Gaussian in *raw actions*: u ~ N(μ_θ(o), σ²). What is evaluated clips or squashes u onto the action
range, so that the bounds are part of the environment and the density is that of u.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ddopg.baselines.base import Checkpoint, rollout_seeds
from ddopg.baselines.scaling import ObservationBuffer, Scaling, fit_scaling, fold_scaling
from ddopg.baselines.settings import ReinforceSettings
from ddopg.core.problem import Problem
from ddopg.core.proposals import initial_params
from ddopg.core.seeding import make_rng
from ddopg.envs.adapter import problem_from_env
from ddopg.policies import Policy, clipped, mlp, squashed
from ddopg.rollouts.stepping import iterate_steps
from ddopg.support.compilation import in_float32

RIDGE = 1e-5  # of the baseline's least squares
FURTHEST = 10.0  # observations are clipped to it in the baseline's features


class Episode(NamedTuple):
    """One rollout of the stochastic policy."""

    seen: np.ndarray  # (T, O) raw observations
    inputs: np.ndarray  # (T, O) as the policy saw them
    raw_actions: np.ndarray  # (T, A) sampled, before clipping or squashing
    rewards: np.ndarray  # (T,)


class Parameters(NamedTuple):
    """What the gradient moves."""

    theta: Array  # (D,) of the mean
    log_std: Array  # (A,)


class Gaussian(NamedTuple):
    """A policy class seen from three sides."""

    mean: Policy  # of the raw action
    bounded: Policy  # the mean on the action range: what is evaluated
    bound: Callable[[np.ndarray], np.ndarray]  # raw actions onto the action range
    width: int  # of the first layer


class Batch(NamedTuple):
    """Steps of several episodes, padded to a fixed number."""

    inputs: Array | np.ndarray  # (S, O)
    raw_actions: Array | np.ndarray  # (S, A)
    advantages: Array | np.ndarray  # (S,)
    real: Array | np.ndarray  # (S,) 1, or 0 for padding


def reinforce(env: gym.Env, seed: int, settings: ReinforceSettings) -> Iterator[Checkpoint]:
    """Collect whole episodes, take one gradient step, start afresh; the mean counts."""
    problem = problem_from_env(env)
    gaussian = make_gaussian(problem, settings)
    log_std = jnp.full(problem.action_size, np.log(settings.std), jnp.float32)
    parameters = Parameters(jnp.asarray(initial_params(gaussian.mean, seed)), log_std)
    opt_state, coefficients = optax.adam(settings.learning_rate).init(parameters), np.zeros(0)
    seeds, seen, used = rollout_seeds(seed), ObservationBuffer(problem.observation_size), 0
    while True:
        scaling = fit_scaling(seen.observations, settings.scaling)
        theta = fold_scaling(np.asarray(parameters.theta), scaling, gaussian.width)
        episodes: list[Episode] = []
        before = used
        while used - before < settings.batch:
            yield Checkpoint(used, gaussian.bounded, theta)
            episodes.append(play_episode(env, gaussian, parameters, scaling, next(seeds), problem.horizon))
            used += len(episodes[-1].rewards)
        to_go = [reward_to_go(e.rewards, settings.discount) for e in episodes]
        batch = make_batch(episodes, to_go, coefficients, settings.batch + problem.horizon)
        coefficients = fit_baseline([features(e.seen) for e in episodes], to_go)
        parameters, opt_state = _update(parameters, opt_state, batch, gaussian.mean, settings.learning_rate)
        if settings.scaling != "none":
            seen.add(np.concatenate([e.seen for e in episodes]))


def objective(parameters: Parameters, batch: Batch, mean: Policy) -> Array:
    """1/S Σ log N(u | μ_θ(o), σ²) · A: its gradient is REINFORCE's estimate, its value means nothing."""

    def log_density(o: Array | np.ndarray, u: Array | np.ndarray) -> Array:
        error = (u - mean.act(parameters.theta, o)) / jnp.exp(parameters.log_std)
        return -jnp.sum(0.5 * error**2 + parameters.log_std)

    each = jax.vmap(log_density)(batch.inputs, batch.raw_actions)
    return jnp.sum(batch.real * each * batch.advantages) / jnp.sum(batch.real)


def reward_to_go(rewards: np.ndarray, discount: float) -> np.ndarray:
    """Gₜ = rₜ + γ Gₜ₊₁, (T,)."""
    result, ahead = np.empty(len(rewards)), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        result[t] = ahead = rewards[t] + discount * ahead
    return result


def features(observations: np.ndarray) -> np.ndarray:
    """(o, o², t, t², t³, 1) with t in hundreds of steps, as in Duan et al. (2016)."""
    o = np.clip(observations, -FURTHEST, FURTHEST).astype(np.float64)
    t = np.arange(len(o))[:, None] / 100.0
    return np.hstack([o, o**2, t, t**2, t**3, np.ones_like(t)])


def fit_baseline(inputs: list[np.ndarray], to_go: list[np.ndarray]) -> np.ndarray:
    """Coefficients of the rewards-to-go on the features, by least squares with a small ridge."""
    x, y = np.concatenate(inputs), np.concatenate(to_go)
    return np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)


def make_batch(
    episodes: list[Episode], to_go: list[np.ndarray], coefficients: np.ndarray, size: int
) -> Batch:
    """Advantages over the baseline of the batch before (none for the first), standardised; padded to `size` steps."""
    expected = [features(e.seen) @ coefficients if len(coefficients) else 0.0 for e in episodes]
    raw = np.concatenate([g - b for g, b in zip(to_go, expected, strict=True)])
    spread = raw.std()
    advantages = (raw - raw.mean()) / (spread if spread > 0 else 1.0)
    missing = size - len(raw)
    assert missing >= 0, "a batch exceeds its size by less than one episode"
    return Batch(
        inputs=np.pad(np.concatenate([e.inputs for e in episodes]), ((0, missing), (0, 0))),
        raw_actions=np.pad(np.concatenate([e.raw_actions for e in episodes]), ((0, missing), (0, 0))),
        advantages=np.pad(advantages, (0, missing)).astype(np.float32),
        real=np.pad(np.ones(len(raw), np.float32), (0, missing)),
    )


def make_gaussian(problem: Problem, settings: ReinforceSettings) -> Gaussian:
    """The policy class that the settings ask for."""
    mean = mlp(problem.observation_size, problem.action_size, settings.hidden)
    bound = partial(squashed if settings.squash else clipped, low=problem.low, high=problem.high)
    identity = bound(Policy(0, mean.init, lambda theta, u: u, mean.action_scale))
    width = settings.hidden[0] if settings.hidden else problem.action_size
    return Gaussian(mean, bound(mean), lambda u: identity.act(None, u), width)


def play_episode(
    env: gym.Env, gaussian: Gaussian, parameters: Parameters, scaling: Scaling, seed: int, horizon: int
) -> Episode:
    """One episode of the stochastic policy; the same arguments give the same episode."""
    theta, std = np.asarray(parameters.theta), np.exp(np.asarray(parameters.log_std))
    noise = std * make_rng(seed, 0, "action noise").standard_normal((horizon, len(std)))
    inputs: list[np.ndarray] = []
    raw_actions: list[np.ndarray] = []

    def act(observation: np.ndarray) -> np.ndarray:
        inputs.append(scaling(observation))
        raw_actions.append(
            (gaussian.mean.act(theta, inputs[-1]) + noise[len(raw_actions)]).astype(np.float32)
        )
        return gaussian.bound(raw_actions[-1])

    seen, _, rewards, _, _ = zip(*iterate_steps(env, act, seed, horizon), strict=True)
    return Episode(np.stack(seen), np.stack(inputs), np.stack(raw_actions), np.asarray(rewards))


@in_float32
@partial(jax.jit, static_argnames=("mean", "learning_rate"))
def _update(
    parameters: Parameters, opt_state: optax.OptState, batch: Batch, mean: Policy, learning_rate: float
) -> tuple[Parameters, optax.OptState]:
    uphill = jax.grad(objective)(parameters, batch, mean)
    changes, opt_state = optax.adam(learning_rate).update(jax.tree.map(jnp.negative, uphill), opt_state)
    return optax.apply_updates(parameters, changes), opt_state
