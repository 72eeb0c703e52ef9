"""Small random problems that the fast code and the oracle can both look at."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ddopg.core.types import SurrogateData, Trajectory
from ddopg.policies import Policy, linear


class Problem(NamedTuple):
    """N trajectories of N linear policies, ragged in length, and a target policy."""

    policy: Policy
    thetas: np.ndarray  # (N, D)
    target: np.ndarray  # (D,)
    observations: np.ndarray  # (N, H, O)
    actions: np.ndarray  # (N, H, A)
    alive: np.ndarray  # (N, H)
    returns: np.ndarray  # (N,)
    sigma: np.ndarray  # (A,)

    @property
    def slow_trajectories(self):
        return [
            [(o.tolist(), a.tolist()) for o, a, on in zip(os, as_, alive, strict=True) if on]
            for os, as_, alive in zip(self.observations, self.actions, self.alive, strict=True)
        ]

    def slow_policy(self, theta):
        size = self.observations.shape[-1]
        gains, bias = theta[: -self.actions.shape[-1]].reshape(size, -1), theta[-self.actions.shape[-1] :]

        def mu(observation):
            return [
                sum(o * gains[i, k] for i, o in enumerate(observation)) + bias[k] for k in range(len(bias))
            ]

        return mu

    @property
    def slow_policies(self):
        return [self.slow_policy(theta) for theta in self.thetas]


def random_problem(seed=0, number=6, horizon=5, sizes=(3, 2), sigma=(0.7, 1.3), spread=0.3, noise=0.0):
    rng = np.random.default_rng(seed)
    observation_size, action_size = sizes
    policy = linear(observation_size, action_size)
    thetas = spread * rng.standard_normal((number, policy.size))
    observations = rng.standard_normal((number, horizon, observation_size))
    alive = np.arange(horizon) < rng.integers(1, horizon + 1, number)[:, None]
    actions = np.stack([policy.act(t, o) for t, o in zip(thetas, observations, strict=True)])
    actions = actions + noise * rng.standard_normal(actions.shape)
    return Problem(
        policy=policy,
        thetas=thetas,
        target=spread * rng.standard_normal(policy.size),
        observations=observations * alive[..., None],
        actions=actions * alive[..., None],
        alive=alive,
        returns=rng.standard_normal(number),
        sigma=np.asarray(sigma, float)[:action_size],
    )


def trajectories_of(problem):
    return [
        Trajectory(
            theta=theta.astype(np.float32),
            observations=o.astype(np.float32),
            actions=a.astype(np.float32),
            rewards=np.where(np.arange(len(on)) == 0, r, 0.0),
            alive=on,
            terminated=True,
            truncated=False,
            seed=-1,
        )
        for theta, o, a, on, r in zip(
            problem.thetas, problem.observations, problem.actions, problem.alive, problem.returns, strict=True
        )
    ]


def surrogate_data_of(problem, log_q, counts=None):
    number = len(problem.returns)
    return SurrogateData(
        thetas=jnp.asarray(problem.thetas),
        observations=jnp.asarray(problem.observations),
        actions=jnp.asarray(problem.actions),
        step_counts=jnp.asarray(problem.alive, float),
        rewards=jnp.asarray(problem.returns[:, None]),
        log_p=jnp.zeros((number, number, 1)),
        log_q=jnp.asarray(log_q),
        counts=jnp.ones(number) if counts is None else jnp.asarray(counts),
        inverse_temperature=jnp.ones(()),
    )
