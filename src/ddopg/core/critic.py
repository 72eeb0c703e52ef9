"""A soft actor-critic over every transition: what an action is worth in a state, and a policy that it recommends.

Two networks learn Q(s, a) by temporal differences from the steps of all stored trajectories, whoever acted in them.
An actor, a policy of the learner's own class with Gaussian noise on its raw output, climbs what they say, and is paid
for its entropy. Its mean is one source of proposals; the noise is what it explores with. `init` and `update` are
pure; `update` is one compiled program for a whole round. The method is that of Haarnoja et al. (2018).
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ddopg.config import CriticConfig
from ddopg.core.transitions import LARGEST, Transitions
from ddopg.policies import Policy

Networks = tuple[tuple[Array, Array], ...]
"""Weights (2, rows, columns) and biases (2, rows) of each layer, of both networks."""

BATCH = 128  # transitions per update
TARGET_RATE = 0.01  # of the slow copies that say what comes after
ACTOR_EVERY = 2  # updates of the networks per update of the actor
AVERAGED = 0.05  # share of the actor's updates, the latest, over which its parameters are averaged
LOG_STD_LIMITS = (-4.0, 0.5)  # of the noise on the raw output
FIRST_LOG_STD = -1.0
FIRST_TEMPERATURE = 0.1
SMALLEST_SLOPE = 1e-6  # of the squashing, where its logarithm is taken


class Actor(NamedTuple):
    """A stochastic policy: the mean of its raw output, the noise on it, and what its entropy is paid."""

    theta: Array  # (D,) parameters of the mean
    log_std: Array  # (A,) of the noise on the raw output
    log_temperature: Array  # () the price of entropy


class Critic(NamedTuple):
    """Everything that the next round needs."""

    networks: Networks
    targets: Networks  # slow copies
    opt_state: Any  # of the networks
    actor: Actor
    actor_opt_state: Any
    actor_updates: Array  # () of the actor so far
    average: Array  # (D,) mean of the actor's parameters over the latest of its updates: it wavers less
    log_scale: Array  # () logarithm of the return that counts as one in the networks
    zero: Array  # () the return that counts as zero in the networks, in scales


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
    first = Actor(actor, jnp.full(action_size, FIRST_LOG_STD), jnp.asarray(math.log(FIRST_TEMPERATURE)))
    return Critic(
        networks=networks,
        targets=networks,
        opt_state=_optimiser(config).init(networks),
        actor=first,
        actor_opt_state=_optimiser(config).init(first),
        actor_updates=jnp.zeros(()),
        average=actor,
        log_scale=jnp.zeros(()),
        zero=jnp.zeros(()),
    )


def both_values(networks: Networks, features: Array, actions: Array) -> Array:
    """Q(s, a) of both networks, in scales and less the zero, (2, M).

    Args:
        networks: weights and biases of both.
        features: standardised observations, (M, O).
        actions: in action scales, (M, A).
    """
    *inner, (weights_out, bias_out) = networks
    x = jnp.concatenate([features, actions], axis=1)
    x = jnp.broadcast_to(x, (2, *x.shape))
    for weights, bias in inner:
        x = jax.nn.relu(_layer_norm(_affine(weights, bias, x)))
    return _affine(weights_out, bias_out, x)[..., 0]


def _affine(weights: Array, bias: Array, x: Array) -> Array:
    """W·x + b of each row of x and each network, (2, M, rows)."""
    return jnp.einsum("nmi,nhi->nmh", x, weights) + bias[:, None, :]


def standardise(observations: Array, mean: Array, deviation: Array) -> Array:
    """What the networks see of observations (M, O), within `LARGEST` deviations (O,) of their mean (O,)."""
    return jnp.clip((observations - mean[None, :]) / deviation[None, :], -LARGEST, LARGEST)


def td_target(reward: Array, ends: Array, after: Array, bonus: Array, discount: float) -> Array:
    """y = r + γ (1 − end) (min_j Q̄ⱼ(s′, a′) + bonus): what a step is worth, by the less hopeful of both networks.

    Args:
        reward: r, (M,).
        ends: whether the task ended with this step, (M,). A time limit is no end: what follows counts.
        after: Q̄ⱼ(s′, a′) of both networks, (2, M).
        bonus: what the entropy of the next action is paid, −α log π(a′ | s′), (M,).
        discount: γ.
    """
    return reward + discount * jnp.where(ends, 0.0, jnp.min(after, axis=0) + bonus)


def log_density(noise: Array, log_std: Array, slope: Array) -> Array:
    """log π(a | s) of an action a = f(u), u = mean + σ ε: log N(ε) − Σ log σ − Σ log f′(u), (M,).

    Args:
        noise: ε, (M, A).
        log_std: log σ, (A,).
        slope: f′(u) in action scales, (M, A).
    """
    normal = -0.5 * jnp.square(noise) - 0.5 * math.log(2 * math.pi) - log_std[None, :]
    return jnp.sum(normal - jnp.log(jnp.maximum(slope, SMALLEST_SLOPE)), axis=1)


def rescale(critic: Critic, log_scale: Array, zero: Array) -> Critic:
    """The same values in other units: the last layers change so that scale · (output + zero) stays what it was."""
    factor = jnp.exp(critic.log_scale - log_scale)
    shift = factor * critic.zero - zero

    def change(networks: Networks) -> Networks:
        *inner, (weights, bias) = networks
        return (*inner, (factor * weights, factor * bias + shift))

    return critic._replace(
        networks=change(critic.networks), targets=change(critic.targets), log_scale=log_scale, zero=zero
    )


@partial(jax.jit, static_argnames=("policy", "config"))
def update(
    critic: Critic, transitions: Transitions, seed: Array, number: Array, policy: Policy, config: CriticConfig
) -> Critic:
    """One round: `number` updates of the networks, and half as many of the actor.

    Args:
        critic: what is known.
        transitions: all stored steps.
        seed: of the random numbers of this round.
        number: of updates; it changes from round to round and compiles nothing anew.
        policy: the policy class of the actor.
        config: discount and rates.

    Returns:
        What is known afterwards.
    """
    key = jax.random.key(seed)
    critic = rescale(critic, transitions.log_scale, transitions.zero)
    critic = _move_inputs(critic, policy, transitions.mean, transitions.deviation)

    def step(i: Array, critic: Critic) -> Critic:
        batch = _sample(jax.random.fold_in(key, i), transitions, policy)
        critic = _improve_networks(critic, batch, policy, config)
        improve = partial(_improve_actor, batch=batch, policy=policy, config=config)
        return jax.lax.cond(i % ACTOR_EVERY == 0, improve, lambda same: same, critic)

    critic = jax.lax.fori_loop(0, number, step, critic)
    return act_on_observations(critic, policy, transitions)


def act_on_observations(critic: Critic, policy: Policy, transitions: Transitions) -> Critic:
    """The actor, and its average, whose parameters do on observations what they did on standardised ones."""
    return _move_inputs(critic, policy, -transitions.mean / transitions.deviation, 1 / transitions.deviation)


def _move_inputs(critic: Critic, policy: Policy, mean: Array, deviation: Array) -> Critic:
    """The actor, and its average, whose parameters do on (o − mean) / deviation what they did on o."""
    if policy.on_standardised is None:
        return critic
    theta = policy.on_standardised(critic.actor.theta, mean, deviation)
    average = policy.on_standardised(critic.average, mean, deviation)
    return critic._replace(actor=critic.actor._replace(theta=theta), average=average)


class Batch(NamedTuple):
    """Some transitions (s, a, r, s′), and noise for the actor's actions."""

    features: Array  # (B, O)
    actions: Array  # (B, A) in action scales
    rewards: Array  # (B,) in scales
    ends: Array  # (B,)
    features_after: Array  # (B, O)
    inputs: Array  # (B, O) what the actor sees of s
    inputs_after: Array  # (B, O) what the actor sees of s′
    noise: Array  # (B, A) in s
    noise_after: Array  # (B, A) in s′
    zero: Array  # () in scales


def _sample(key: Array, transitions: Transitions, policy: Policy) -> Batch:
    key_rows, key_noise, key_after = jax.random.split(key, 3)
    rows = transitions.known[jax.random.randint(key_rows, (BATCH,), 0, transitions.number)]
    after = jnp.minimum(rows + 1, transitions.rewards.shape[0] - 1)
    actions = transitions.actions[rows] / jnp.asarray(policy.action_scale)[None, :]
    seen, seen_after = transitions.observations[rows], transitions.observations[after]
    moments = transitions.mean, transitions.deviation
    features, features_after = standardise(seen, *moments), standardise(seen_after, *moments)
    raw = policy.on_standardised is None
    return Batch(
        features=features,
        actions=actions,
        rewards=transitions.rewards[rows],
        ends=transitions.ends[rows],
        features_after=features_after,
        inputs=seen if raw else features,
        inputs_after=seen_after if raw else features_after,
        noise=jax.random.normal(key_noise, actions.shape),
        noise_after=jax.random.normal(key_after, actions.shape),
        zero=transitions.zero,
    )


def _improve_networks(critic: Critic, batch: Batch, policy: Policy, config: CriticConfig) -> Critic:
    """One step of Adam on Σⱼ mean (Qⱼ(s, a) − y)², and of the slow copies towards the networks."""
    answers, log_p = _draw(policy, critic.actor, batch.inputs_after, batch.noise_after)
    after = both_values(critic.targets, batch.features_after, answers) + batch.zero
    bonus = -jnp.exp(critic.actor.log_temperature) * log_p
    target = td_target(batch.rewards, batch.ends, after, bonus, config.discount) - batch.zero

    def loss(networks: Networks) -> Array:
        errors = both_values(networks, batch.features, batch.actions) - target[None, :]
        return jnp.sum(jnp.mean(jnp.square(errors), axis=1))

    updates, opt_state = _optimiser(config).update(jax.grad(loss)(critic.networks), critic.opt_state)
    networks = optax.apply_updates(critic.networks, updates)
    targets = optax.incremental_update(networks, critic.targets, TARGET_RATE)
    return critic._replace(networks=networks, targets=targets, opt_state=opt_state)


def _improve_actor(critic: Critic, batch: Batch, policy: Policy, config: CriticConfig) -> Critic:
    """One step of Adam on mean (α log π(a | s) − min_j Qⱼ(s, a)), and of the price α towards an entropy of −A."""
    temperature = jnp.exp(critic.actor.log_temperature)

    def loss(actor: Actor) -> tuple[Array, Array]:
        answers, log_p = _draw(policy, actor, batch.inputs, batch.noise)
        values = jnp.min(both_values(critic.networks, batch.features, answers), axis=0)
        return jnp.mean(temperature * log_p - values), jnp.mean(log_p)

    gradient, log_p = jax.grad(loss, has_aux=True)(critic.actor)
    entropy_sought = -float(batch.actions.shape[1])
    gradient = gradient._replace(log_temperature=-temperature * (log_p + entropy_sought))
    updates, opt_state = _optimiser(config).update(gradient, critic.actor_opt_state)
    actor = optax.apply_updates(critic.actor, updates)
    actor = actor._replace(log_std=jnp.clip(actor.log_std, *LOG_STD_LIMITS))
    return _average(critic._replace(actor=actor, actor_opt_state=opt_state))


def _average(critic: Critic) -> Critic:
    """θ̄ₙ = θ̄ₙ₋₁ + (θₙ − θ̄ₙ₋₁) / max(AVERAGED · n, 1) after the actor's n-th update: the span grows with n, so that it
    is short while much changes."""
    number = critic.actor_updates + 1
    rate = 1 / jnp.maximum(AVERAGED * number, 1.0)
    average = critic.average + rate * (critic.actor.theta - critic.average)
    return critic._replace(actor_updates=number, average=average)


def _draw(policy: Policy, actor: Actor, inputs: Array, noise: Array) -> tuple[Array, Array]:
    """Actions (M, A) in action scales, and log π of each, (M,)."""
    scale = jnp.asarray(policy.action_scale)[None, :]
    mean = jax.vmap(policy.raw, (None, 0))(actor.theta, inputs)
    raw = mean + jnp.exp(actor.log_std)[None, :] * noise
    actions, slope = jax.jvp(policy.squash_raw, (raw,), (jnp.ones_like(raw),))
    return actions / scale, log_density(noise, actor.log_std, slope / scale)


def _init_network(key: Array, sizes: tuple[int, ...]) -> Networks:
    """Weights of He, those of the output of Lecun; zero biases."""
    layers: list[tuple[Array, Array]] = []
    for k, (inputs, outputs) in zip(jax.random.split(key, len(sizes) - 1), pairwise(sizes), strict=True):
        gain = 1 if len(layers) == len(sizes) - 2 else 2
        layers.append(
            (jax.random.normal(k, (outputs, inputs)) * math.sqrt(gain / inputs), jnp.zeros(outputs))
        )
    return tuple(layers)


def _layer_norm(x: Array) -> Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def _optimiser(config: CriticConfig) -> optax.GradientTransformation:
    return optax.adam(config.learning_rate)
