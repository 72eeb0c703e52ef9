"""A critic over every transition: what an action is worth in a state, and a policy that it recommends.

Two networks learn Q(s, a) by temporal differences from the steps of all stored trajectories, whoever acted in them.
An actor, a policy of the learner's own class, climbs what they say. Its parameters are one source of proposals: they
are rolled out like any other, and the rollout decides. `init` and `update` are pure; `update` is one compiled program
for a whole round.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ddopg.config import CriticConfig
from ddopg.core.transitions import Transitions
from ddopg.policies import Policy

Networks = tuple[tuple[Array, Array], ...]
"""Weights (2, rows, columns) and biases (2, columns) of each layer, of both networks."""

BATCH = 256  # transitions per update
TARGET_RATE = 0.01  # of the slow copies that say what comes after
TARGET_NOISE, NOISE_LIMIT = 0.2, 0.5  # of the action after, in action scales: neighbours are worth the same
SATURATION = 0.003  # on the mean-square raw output of the actor
ACTOR_RATE = 0.01  # of its Adam, in parameter scales


class Critic(NamedTuple):
    """Everything that the next round needs."""

    networks: Networks
    targets: Networks  # slow copies
    opt_state: Any  # of the networks
    actor: Array  # (D,)
    actor_opt_state: Any


def init(key: Array, actor: Array, observation_size: int, action_size: int, config: CriticConfig) -> Critic:
    """Networks that know nothing, and an actor to begin with.

    Args:
        key: of the random numbers.
        actor: the parameters of the policy that it starts from, (D,).
        observation_size: O.
        action_size: A.
        config: the hidden layers.
    """
    sizes = (observation_size + action_size, *config.hidden, 1)
    networks = jax.vmap(partial(_init_network, sizes=sizes))(jax.random.split(key, 2))
    return Critic(
        networks=networks,
        targets=networks,
        opt_state=_optimiser(config).init(networks),
        actor=actor,
        actor_opt_state=_actor_optimiser().init(actor),
    )


def value(network: Networks, features: Array, actions: Array) -> Array:
    """Q(s, a) of one network, (M,), in deviations of the reward.

    Args:
        network: weights and biases, without the leading axis of two.
        features: standardised observations, (M, O).
        actions: in action scales, (M, A).
    """
    x = jnp.concatenate([features, actions], axis=-1)
    for weights, bias in network[:-1]:
        x = jax.nn.relu(_layer_norm(x @ weights + bias[None, :]))
    weights, bias = network[-1]
    return (x @ weights + bias[None, :])[:, 0]


def td_target(reward: Array, ends: Array, after: Array, discount: float) -> Array:
    """y = r + γ (1 − end) min_j Q̄ⱼ(s′, a′): what a step is worth, by the less hopeful of both networks.

    Args:
        reward: r, (M,).
        ends: whether the task ended with this step, (M,). A time limit is no end: what follows counts.
        after: Q̄ⱼ(s′, a′) of both networks, (2, M).
        discount: γ.
    """
    return reward + discount * jnp.where(ends, 0.0, jnp.min(after, axis=0))


@partial(jax.jit, static_argnames=("policy", "config"))
def update(
    critic: Critic,
    transitions: Transitions,
    param_scale: Array,
    seed: Array,
    number: Array,
    policy: Policy,
    config: CriticConfig,
) -> Critic:
    """One round: `number` steps of the networks, and as many of the actor.

    Args:
        critic: what is known.
        transitions: all stored steps.
        param_scale: the unit of each parameter of the actor, (D,).
        seed: of the random numbers of this round.
        number: of updates; it changes from round to round and compiles nothing anew.
        policy: the policy class of the actor.
        config: discount and rates.

    Returns:
        What is known afterwards.
    """
    key = jax.random.key(seed)

    def step(i: Array, critic: Critic) -> Critic:
        batch = _sample(jax.random.fold_in(key, i), transitions, policy)
        critic = _improve_networks(critic, batch, policy, config)
        return _improve_actor(critic, batch, param_scale, policy)

    return jax.lax.fori_loop(0, number, step, critic)


class Batch(NamedTuple):
    """Some transitions (s, a, r, s′), and the noise of the action after."""

    observations: Array  # (B, O)
    features: Array  # (B, O)
    actions: Array  # (B, A) in action scales
    rewards: Array  # (B,)
    ends: Array  # (B,)
    after: Array  # (B, O) observations of s′
    features_after: Array  # (B, O)
    noise: Array  # (B, A)


def _sample(key: Array, transitions: Transitions, policy: Policy) -> Batch:
    key_rows, key_noise = jax.random.split(key)
    rows = transitions.known[jax.random.randint(key_rows, (BATCH,), 0, transitions.number)]
    after = jnp.minimum(rows + 1, transitions.rewards.shape[0] - 1)
    actions = transitions.actions[rows] / jnp.asarray(policy.action_scale)[None, :]
    noise = TARGET_NOISE * jax.random.normal(key_noise, actions.shape)
    return Batch(
        observations=transitions.observations[rows],
        features=transitions.features[rows],
        actions=actions,
        rewards=transitions.rewards[rows],
        ends=transitions.ends[rows],
        after=transitions.observations[after],
        features_after=transitions.features[after],
        noise=jnp.clip(noise, -NOISE_LIMIT, NOISE_LIMIT),
    )


def _improve_networks(critic: Critic, batch: Batch, policy: Policy, config: CriticConfig) -> Critic:
    """One step of Adam on Σⱼ mean (Qⱼ(s, a) − y)², and of the slow copies towards the networks."""
    both = jax.vmap(value, (0, None, None))
    answers = _clip(_act(policy, critic.actor, batch.after) + batch.noise, policy)
    after = both(critic.targets, batch.features_after, answers)
    target = td_target(batch.rewards, batch.ends, after, config.discount)

    def loss(networks: Networks) -> Array:
        errors = both(networks, batch.features, batch.actions) - target[None, :]
        return jnp.sum(jnp.mean(jnp.square(errors), axis=1))

    updates, opt_state = _optimiser(config).update(jax.grad(loss)(critic.networks), critic.opt_state)
    networks = optax.apply_updates(critic.networks, updates)
    targets = optax.incremental_update(networks, critic.targets, TARGET_RATE)
    return critic._replace(networks=networks, targets=targets, opt_state=opt_state)


def _improve_actor(critic: Critic, batch: Batch, param_scale: Array, policy: Policy) -> Critic:
    """One step of Adam on the mean of Q(s, μ_θ(s)) over both networks, less a penalty on saturation."""

    def loss(move: Array) -> Array:
        theta = critic.actor + param_scale * move
        answers = _act(policy, theta, batch.observations)
        values = jax.vmap(value, (0, None, None))(critic.networks, batch.features, answers)
        raw = jax.vmap(policy.raw, (None, 0))(theta, batch.observations)
        return -jnp.mean(values) + SATURATION * jnp.mean(jnp.sum(jnp.square(raw), axis=1))

    gradient = jax.grad(loss)(jnp.zeros_like(critic.actor))
    updates, opt_state = _actor_optimiser().update(gradient, critic.actor_opt_state)
    return critic._replace(actor=critic.actor + param_scale * updates, actor_opt_state=opt_state)


def _act(policy: Policy, theta: Array, observations: Array) -> Array:
    """μ_θ(s) in action scales, (M, A)."""
    return jax.vmap(policy.act, (None, 0))(theta, observations) / jnp.asarray(policy.action_scale)[None, :]


def _clip(actions: Array, policy: Policy) -> Array:
    """Actions in action scales, within the range of the policy where it has one."""
    if policy.bounds is None:
        return actions
    low, high = (
        jnp.asarray(bound)[None, :] / jnp.asarray(policy.action_scale)[None, :] for bound in policy.bounds
    )
    return jnp.clip(actions, low, high)


def _init_network(key: Array, sizes: tuple[int, ...]) -> Networks:
    """Weights of He, zero biases."""
    layers = []
    for k, (rows, columns) in zip(jax.random.split(key, len(sizes) - 1), pairwise(sizes), strict=True):
        layers.append((jax.random.normal(k, (rows, columns)) * jnp.sqrt(2 / rows), jnp.zeros(columns)))
    return tuple(layers)


def _layer_norm(x: Array) -> Array:
    mean, variance = jnp.mean(x, axis=-1, keepdims=True), jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def _optimiser(config: CriticConfig) -> optax.GradientTransformation:
    return optax.adam(config.learning_rate)


def _actor_optimiser() -> optax.GradientTransformation:
    return optax.adam(ACTOR_RATE)
