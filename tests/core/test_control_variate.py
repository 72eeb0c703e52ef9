"""The critic as control variate of the surrogate: its values in returns, on any grid of times, for any policy."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg.config import Config, CriticConfig, SelectionConfig, SurrogateConfig
from ddopg.controllers import Parameter, controller
from ddopg.core import algorithm, estimators
from ddopg.core import critic as critics
from ddopg.core.control_variate import make_data_fn, sum_over_stretches
from ddopg.core.memory import Memory, add
from ddopg.core.selection import Selection
from ddopg.core.surrogate import log_weights, objective_value, stored_returns, surrogate_return
from ddopg.core.surrogate_data import Sample, prepare, subtract_initial_state_effect
from ddopg.core.time_grid import choose_stride, choose_times
from ddopg.core.types import make_trajectory
from ddopg.errors import ConfigError
from ddopg.policies import limited, linear, squashed
from ddopg.support.records import change
from tests import reference
from tests.probes import Follow
from tests.recorded import contents, quick

HORIZON, LENGTHS = 50, (38, 26, 7, 19)  # coarse times are four steps apart, and three episodes end in between
POLICY = squashed(linear(2, 1), (-2.0,), (4.0,))
SCALE, ZERO, REWARD_SCALE = 1.7, -1.5, 2.0
GRIDS = pytest.mark.parametrize("decisions", [0, 16, 60])


def some_critic():
    """Of networks that know nothing: any function does."""
    config = CriticConfig(updates=1.0, hidden=(5, 4))
    critic = critics.init(jax.random.key(2), jnp.zeros(POLICY.size), 2, 1, config)
    return critic._replace(log_scale=jnp.log(SCALE), zero=jnp.float32(ZERO))


def remembered(thetas):
    """Episodes on random observations, with the actions of the policies."""
    rng, memory = np.random.default_rng(3), Memory()
    for theta, length in zip(thetas, LENGTHS, strict=True):
        seen = rng.normal([5.0, -1.0], [2.0, 0.3], (length, 2)).astype(np.float32)
        rewards = rng.standard_normal(length) + seen[0, 1]
        memory = add(
            memory,
            make_trajectory(
                theta,
                seen,
                POLICY.act(theta, seen),
                rewards,
                horizon=HORIZON,
                terminated=length == 7,
            ),
        )
    return memory


def some_thetas(seed=1):
    return np.random.default_rng(seed).normal(0, 0.1, (4, POLICY.size)).astype(np.float32)


def prepared(memory, decisions, rows=4, critic=True, discount=0.98, **changes):
    """The data of all trajectories, and the configuration."""
    config = Config(
        surrogate=SurrogateConfig(
            length_scale=(2.0,), decisions=decisions, **{"estimator": "doubly_robust"} | changes
        ),
        selection=SelectionConfig(rule="latest", size=rows),
        search=ddopg.preset("trajectory").search,
        critic=CriticConfig(updates=1.0),
        discount=discount,
    )
    sample = Sample(
        Selection(np.arange(4), np.array([1, 2, 1, 1])), np.ones(POLICY.size, np.float32), REWARD_SCALE
    )
    given = some_critic() if critic else None
    return prepare(memory, sample, TARGET, POLICY, config, critic=given)[0], config.surrogate


TARGET = np.array([0.1, -0.05, 0.2], np.float32)


@partial(jax.jit, static_argnames="config")
def estimate(theta, data, config):
    return surrogate_return(
        log_weights(POLICY, theta, data, config), make_data_fn(POLICY, data)(theta), config
    )


class Slow:
    """What the critic says, in float64 and one step at a time."""

    def __init__(self, memory):
        seen = np.concatenate([t.observations[: t.length] for t in memory.trajectories]).astype(float)
        self.mean, self.deviation = seen.mean(0), seen.std(0)
        self.layers = [
            [(np.asarray(w[j], float), np.asarray(b[j], float)) for w, b in some_critic().networks]
            for j in range(2)
        ]

    def value(self, seen, action):
        """Q̂ in returns."""
        found = []
        for layers in self.layers:
            x = np.append(np.clip((seen - self.mean) / self.deviation, -10, 10), action / 3.0)
            for weights, bias in layers[:-1]:
                x = weights @ x + bias
                x = np.maximum((x - x.mean()) / np.sqrt(x.var() + 1e-5), 0.0)
            found.append(float((layers[-1][0] @ x + layers[-1][1])[0]))
        return SCALE * (np.mean(found) + ZERO)

    def policy(self, theta, seen):
        theta = np.asarray(theta, float)
        return 1.0 + 3.0 * np.tanh(theta[:2] @ seen + theta[2])

    def stretches(self, trajectory, theta, times, stride, discount):
        """(rewards, Q̂, V̂) of each stretch that was begun; Q̂ − V̂ of its first step counts for the others too."""
        rows = []
        for k, t in enumerate(times):
            if t >= trajectory.length:
                break
            after = times[k + 1] if k + 1 < len(times) else HORIZON
            seen, factor = trajectory.observations[t].astype(float), discount**t / REWARD_SCALE
            q = factor * self.value(seen, float(trajectory.actions[t, 0]))
            v = factor * self.value(seen, self.policy(theta, seen))
            reward = sum(discount**u * trajectory.rewards[u] for u in range(t, after)) / REWARD_SCALE
            rows.append((reward - (min(after - t, stride) - 1) * (q - v), q, v))
        return [list(column) for column in zip(*rows, strict=True)]


class TestEstimate:
    @GRIDS
    def test_it_is_that_of_the_oracle(self, decisions):
        memory = remembered(some_thetas())
        data, config = prepared(memory, decisions)
        weights = np.exp(np.asarray(log_weights(POLICY, TARGET, data, config), float))
        slow, stride = Slow(memory), choose_stride(memory.longest, decisions)
        assert decisions != 16 or stride == 4
        times = choose_times(HORIZON, decisions, stride).tolist()
        parts = [slow.stretches(t, TARGET, times, stride, 0.98) for t in memory.trajectories]
        if not decisions:  # one weight: the whole path is one stretch
            parts = [([sum(r) - sum(q[1:]) + sum(v[1:])], q[:1], v[:1]) for r, q, v in parts]
        rows = [0, 1, 1, 2, 3]  # the second was drawn twice
        rewards, taken, values = ([parts[i][k] for i in rows] for k in range(3))
        expected = reference.doubly_robust(weights[rows].tolist(), rewards, taken, values, normalised=True)
        assert estimate(TARGET, data, config) == pytest.approx(expected, rel=1e-4)

    @GRIDS
    def test_its_slope_at_the_policy_that_acted_is_that_of_the_critic(self, decisions):
        """1/N Σᵢ Σₜ ∇ Q̂(sₜ, μ_θ(sₜ)), by differences; a step that is compared counts for its stretch."""
        memory = remembered([TARGET] * 4)
        data, config = prepared(memory, decisions, discount=1.0)
        slow, stride = Slow(memory), choose_stride(memory.longest, decisions)
        times = choose_times(HORIZON, decisions, stride)
        lengths = np.minimum(np.diff(np.append(times, HORIZON)), stride)

        def total(theta):
            return sum(
                count * m * slow.value(t.observations[u], slow.policy(theta, t.observations[u].astype(float)))
                for count, t in zip((1, 2, 1, 1), memory.trajectories, strict=True)
                for u, m in zip(times, lengths, strict=True)
                if u < t.length
            ) / (5 * REWARD_SCALE)

        differences = [(total(TARGET + h) - total(TARGET - h)) / 2e-6 for h in 1e-6 * np.eye(POLICY.size)]
        slope = jax.grad(estimate)(jnp.asarray(TARGET), data, config)
        np.testing.assert_allclose(slope, differences, rtol=2e-3, atol=2e-3 * np.max(np.abs(differences)))

    @GRIDS
    def test_stored_policies_are_judged_as_any_other(self, decisions):
        thetas = some_thetas()
        data, config = prepared(remembered(thetas), decisions, rows=6)
        found = stored_returns(data, config)
        np.testing.assert_allclose(found[:4], [estimate(t, data, config) for t in thetas], rtol=1e-4)
        assert np.all(np.isneginf(found[4:]))

    @GRIDS
    def test_padding_changes_nothing(self, decisions):
        memory = remembered(some_thetas())
        alone, config = prepared(memory, decisions)
        padded, _ = prepared(memory, decisions, rows=6)
        expected = float(estimate(TARGET, alone, config))
        assert estimate(TARGET, padded, config) == pytest.approx(expected, rel=1e-5)
        after = (alone.step_counts == 0)[..., None]
        odd = alone._replace(observations=jnp.where(after, 9.0, alone.observations))
        assert estimate(TARGET, odd, config) == pytest.approx(expected, rel=1e-6)

    def test_without_a_critic_it_is_the_weighted_one(self):
        memory = remembered(some_thetas())
        for decisions in (0, 16):
            data, config = prepared(memory, decisions, critic=False)
            assert data.control is None
            other = dataclasses.replace(config, estimator="weighted")
            assert estimate(TARGET, data, config) == estimate(TARGET, data, other)

    def test_the_start_is_held_responsible_for_what_the_critic_did_not_foresee(self):
        memory = remembered(some_thetas())
        plain, _ = prepared(memory, 16)
        corrected, _ = prepared(memory, 16, initial_state_correction=True)
        terms = sum_over_stretches(make_data_fn(POLICY, plain)(TARGET).control, plain.rewards.shape[1])
        before, after = (
            estimators.subtract_control_variate(data.rewards, *terms) for data in (plain, corrected)
        )
        expected = subtract_initial_state_effect(
            before, plain.observations[:, 0], jnp.asarray(some_thetas()), plain.counts
        )
        np.testing.assert_allclose(after, expected, atol=1e-4)
        assert np.abs(after - before).max() > 0.1


def with_critic(**changes):
    small = {"critic.updates": 2.0, "policy.hidden": (3,), "policy.linear_path": True}
    return change(quick(), small | {"surrogate.estimator": "doubly_robust"} | changes)


class TestLearner:
    def test_the_search_climbs_it(self, monkeypatch):
        """One short step goes up the slope of the objective, V̂ included; and it says what the estimate is there."""
        asked, real = [], algorithm.improve
        monkeypatch.setattr(algorithm, "improve", lambda *a: asked.append(a) or real(*a))
        one_step = {"optimiser": "sgd", "steps": 1, "radius": 0.0, "saturation_penalty": 0.0}
        changes = {f"search.{name}": value for name, value in one_step.items()} | {"restart.threshold": 0.0}
        ddopg.DDOPG(Follow(), config=with_critic(**changes), seed=1).learn(total_episodes=20)
        inputs, policy, chosen = asked[-1]
        louder = inputs.data.control._replace(units=100 * inputs.data.control.units)
        data = inputs.data._replace(control=louder)
        found = real(inputs._replace(data=data), policy, chosen)
        data_at, config = make_data_fn(policy, data), chosen.surrogate

        def at(theta):
            log_w, known = log_weights(policy, theta, data, config), data_at(theta)
            return objective_value(log_w, known, found.objective_scale, 0.0, config), known, log_w

        slope = inputs.param_scale**2 * jax.grad(lambda theta: at(theta)[0])(jnp.asarray(inputs.centre))
        moved = found.search.theta - inputs.centre
        assert moved @ slope > 0.999 * np.linalg.norm(moved) * np.linalg.norm(slope) > 0
        _, known, log_w = at(found.search.theta)
        assert found.at_centre.mean == pytest.approx(float(surrogate_return(log_w, known, config)), rel=1e-4)

    def test_other_estimators_carry_no_critic_along(self):
        plain = with_critic(**{"surrogate.estimator": "weighted"})
        agent = ddopg.DDOPG(Follow(), config=plain, seed=1).learn(total_episodes=14)
        assert agent.state.critic is not None
        assert algorithm.build_surrogate_data(agent.state, agent.policy, plain).data.control is None

    def test_until_there_is_a_critic_the_run_is_that_of_the_weighted_estimate(self):
        """Episodes that the clock ends after one step: there is nothing for a critic to learn."""
        states = []
        for name in ("weighted", "doubly_robust"):
            spaces = Follow().observation_space, Follow().action_space
            config = with_critic(**{"surrogate.estimator": name})
            agent = ddopg.DDOPG(
                observation_space=spaces[0], action_space=spaces[1], horizon=1, config=config, seed=4
            )
            for k in range(11):
                agent.add(make_trajectory(None, [[0.5]], [[0.1 * k]], [1.0 * k], horizon=1))
            assert agent.state.critic is None
            states.append(contents(agent.state))
        assert states[0] == states[1]

    def test_float64_switched_on_changes_no_bit(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4).learn(total_episodes=16)
        with jax.enable_x64(True):
            other = ddopg.DDOPG(Follow(), config=with_critic(), seed=4).learn(total_episodes=16)
        assert contents(agent.state) == contents(other.state)

    def test_the_stored_policy_of_the_highest_estimate_can_be_handed_over(self):
        changes = {"incumbent.rule": "estimate", "incumbent.ema_rate": 0.0, "incumbent.recheck_share": 0.0}
        agent = ddopg.DDOPG(Follow(), config=with_critic(**changes), seed=1).learn(total_episodes=20)
        stored = [t.theta.tolist() for t in agent.state.memory.trajectories]
        assert agent.state.found_by_search.theta.tolist() in stored

    def test_a_policy_with_a_memory_does_without(self):
        def step(p, state, observation):
            return state + observation[0], [p["gain"] * state]

        adding = controller([Parameter("gain", 0.5, scale=0.2)], step, 1, 1, initial=lambda p: 0.0)
        policy = limited(adding, (-1.0,), (1.0,))
        assert policy.replayed
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1, policy=policy).learn(total_episodes=12)
        assert agent.state.critic is None
        surrogate = algorithm.build_surrogate_data(agent.state, agent.policy, agent.config)
        assert surrogate.data.control is None

    def test_it_is_refused_without_a_critic(self):
        with pytest.raises(ConfigError, match=r"rests on a critic; set critic\.updates"):
            with_critic(**{"critic.updates": 0.0})
