"""Where the bias of the surrogate is measured: worlds that draw data sets and know the true return of some policies.

In the corridor all trajectories can be enumerated, so the truth is exact. On cartpole it is the mean of many fresh
episodes, and data sets are drawn from a pool of rollouts, one of each policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ddopg.agent import DDOPG
from ddopg.config import SurrogateConfig
from ddopg.core.seeding import draw_seed, make_rng
from ddopg.core.surrogate import log_likelihoods
from ddopg.core.time_grid import SubsampledTrajectory
from ddopg.core.types import HostOrDevice
from ddopg.envs.adapter import make
from ddopg.experiments.figures.surrogate import measure_truth
from ddopg.policies import Policy, linear
from ddopg.rollouts.playing import rollout

EDGE, GOAL, STEPS = 2, 1, 6  # the corridor: places −2 … 2, the place that is paid, the length of an episode
CORRIDOR_SPREAD = 2.0  # standard deviation of both parameters of its policies


class Data(NamedTuple):
    """One data set of N trajectories, one of each policy, and P policies to judge; log-likelihoods have σ = 1."""

    log_p: Array  # (N, N) of each trajectory (column) under each policy (row)
    at: Array  # (P, N) under the policies to judge
    returns: Array  # (N,)
    lengths: Array  # (N,) steps of each episode


class World(NamedTuple):
    """Something that draws data sets."""

    title: str
    draw: Callable[[Array, int], Data]  # of a key and N
    truth: np.ndarray  # (P,) expected returns of the policies to judge


def make_corridor(seed: int, targets: int) -> World:
    """Make a world of five places in a row, whose trajectories can be enumerated.

    The policy sees x/2, x its place, and answers a = θ₀ x/2 + θ₁. A step goes to the right with probability
    1/(1 + e⁻ᵃ), else to the left; beyond the ends it stays. Every step that ends at place 1 earns 1.

    Args:
        seed: of the policies to judge.
        targets: how many of them.
    """
    chosen = CORRIDOR_SPREAD * make_rng(seed, 0, "bias targets").standard_normal((targets, 2))
    truth = np.array([enumerate_return(theta) for theta in chosen])
    return World(
        "corridor, all trajectories enumerated", partial(_draw_in_corridor, jnp.asarray(chosen)), truth
    )


def enumerate_return(theta: np.ndarray) -> float:
    """J(θ) = Σ p(τ|θ) R(τ) over all 2⁶ trajectories of the corridor: Eq. (1).

    Args:
        theta: gain and offset of the policy, (2,).

    Returns:
        The exact expected return.

    Example:
        >>> round(enumerate_return(np.array([0.0, 50.0])), 6)  # ever to the right: place 1 once, then the end
        1.0
    """
    total = 0.0
    for to_the_right in itertools.product((False, True), repeat=STEPS):
        place, probability, earned = 0, 1.0, 0.0
        for right in to_the_right:
            share = 1 / (1 + np.exp(-(theta[0] * place / EDGE + theta[1])))
            probability *= share if right else 1 - share
            place = max(-EDGE, min(EDGE, place + (1 if right else -1)))
            earned += place == GOAL
        total += probability * earned
    return total


def make_cartpole(seed: int, targets: int, spread: float, steps: int, pool: int, episodes: int) -> World:
    """Make a world of policies around one that balances the pole.

    Args:
        seed: of the run that finds that policy, of all policies and rollouts.
        targets: how many policies are judged.
        spread: standard deviation of every parameter around it.
        steps: of the run.
        pool: rollouts from which data sets are drawn, one of each policy.
        episodes: of the truth, for each policy to judge.
    """
    env = make("cartpole")
    agent = DDOPG(env, seed=seed, preset="trajectory").learn(steps)
    policy, best = agent.policy, agent.state.incumbent.theta
    rng = make_rng(seed, 0, f"bias cartpole {spread:g}")
    thetas, judged = (
        (best + spread * rng.standard_normal((number, policy.size))).astype(np.float32)
        for number in (pool, targets)
    )
    played = [rollout(env, policy, theta, draw_seed(seed, k, "bias")) for k, theta in enumerate(thetas)]
    paths = tuple(
        jnp.asarray(np.stack([getattr(t, name) for t in played]))
        for name in ("observations", "actions", "alive")
    )
    everything = Data(
        log_p=_tabulate(policy, thetas, *paths),
        at=_tabulate(policy, judged, *paths),
        returns=jnp.asarray([t.rewards.sum() for t in played]),
        lengths=jnp.asarray([float(t.length) for t in played]),
    )
    truth, _ = measure_truth(env, policy, judged, episodes)
    return World(f"cartpole, parameters ± {spread:g} around θ*", partial(_draw_from, everything), truth)


def _draw_in_corridor(targets: Array, key: Array, number: int) -> Data:
    key_policies, key_rollouts = jax.random.split(key)
    thetas = CORRIDOR_SPREAD * jax.random.normal(key_policies, (number, 2))
    seen, shown, returns = jax.vmap(_walk)(jax.random.split(key_rollouts, number), thetas)
    steps = jnp.ones((number, STEPS))
    tabulate = partial(_tabulate, linear(1, 1), observations=seen, actions=shown, alive=steps)
    return Data(tabulate(thetas), tabulate(targets), returns, jnp.full(number, float(STEPS)))


def _walk(key: Array, theta: Array) -> tuple[Array, Array, Array]:
    """One episode in the corridor: observations (T, 1), actions (T, 1), return."""

    def step(place: Array, key: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        action = theta[0] * place / EDGE + theta[1]
        right = jax.random.bernoulli(key, jax.nn.sigmoid(action))
        after = jnp.clip(place + jnp.where(right, 1, -1), -EDGE, EDGE)
        return after, (place / EDGE, action, after == GOAL)

    _, (seen, shown, paid) = jax.lax.scan(step, jnp.int32(0), jax.random.split(key, STEPS))
    return seen[:, None], shown[:, None], jnp.sum(paid.astype(jnp.float32))


def _draw_from(everything: Data, key: Array, number: int) -> Data:
    """Some rows of a pool, none twice."""
    rows = jax.random.choice(key, len(everything.returns), (number,), replace=False)
    log_p = everything.log_p[rows][:, rows]
    return Data(log_p, everything.at[:, rows], everything.returns[rows], everything.lengths[rows])


def _tabulate(
    policy: Policy, thetas: HostOrDevice, observations: Array, actions: Array, alive: Array
) -> Array:
    """log p̃(τⱼ|θᵢ) with σ = 1 in units of the action, policy i, trajectory j: (M, N)."""
    config = SurrogateConfig(length_scale=tuple(1 / scale for scale in policy.action_scale))

    def of_policy(theta: Array) -> Array:
        def of_path(seen: Array, shown: Array, steps: Array) -> Array:
            path = SubsampledTrajectory(None, seen, shown, steps, None)
            return log_likelihoods(policy, theta, path, config)[0]

        return jax.vmap(of_path)(observations, actions, alive.astype(jnp.float32))

    return jax.jit(partial(jax.lax.map, of_policy))(jnp.asarray(thetas))
