"""Policies with a memory: their likelihoods are those of a slow replay, whatever times are compared."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg.config import SelectionConfig, SurrogateConfig
from ddopg.controllers import Parameter, controller
from ddopg.core.memory import Memory, add
from ddopg.core.replay import act_along, raw_along
from ddopg.core.selection import Selection
from ddopg.core.surrogate import fisher, log_weights, make_log_weights_fn
from ddopg.core.surrogate_data import Sample, prepare
from ddopg.core.types import make_trajectory
from ddopg.errors import ConfigError
from ddopg.policies import custom, limited, squashed

HORIZON, LOW, HIGH = 40, (-1.0,), (1.0,)
PARAMETERS = [
    Parameter("kp", 0.5, scale=0.2),
    Parameter("ki", 0.2, scale=0.1),
    Parameter("dt", 0.1, fixed=True),
]


def step(p, state, observation):
    total = state["total"] + p["dt"] * observation[0]
    return {"total": total, "steps": state["steps"] + 1}, [p["kp"] * observation[0] + p["ki"] * total]


def initial(p):
    return {"total": 0.1 * p["kp"], "steps": 0}


PI = limited(controller(PARAMETERS, step, 2, 1, initial=initial), LOW, HIGH)


def slow_actions(theta, observations):
    """The same in float64, one step after the other."""
    kp, ki = 0.5 + 0.2 * theta[0], 0.2 + 0.1 * theta[1]
    total, actions = 0.1 * kp, []
    for seen in observations:
        total += 0.1 * seen[0]
        actions.append(min(max(kp * seen[0] + ki * total, -1.0), 1.0))
    return np.array(actions)[:, None]


def some_trajectories(number=5, lengths=(40, 31, 7, 40, 22)):
    rng, found = np.random.default_rng(3), []
    for i in range(number):
        seen = rng.standard_normal((lengths[i], 2)).astype(np.float32)
        theta = rng.standard_normal(2).astype(np.float32)
        rewards = rng.standard_normal(lengths[i])
        found.append(make_trajectory(theta, seen, slow_actions(theta, seen), rewards, horizon=HORIZON))
    return found


def prepared(decisions, **more):
    memory = Memory()
    for trajectory in some_trajectories():
        memory = add(memory, trajectory)
    config = dataclasses.replace(
        ddopg.preset("trajectory"),
        surrogate=SurrogateConfig(length_scale=(0.7,), decisions=decisions, **more),
        selection=SelectionConfig(rule="latest", size=6),
    )
    sample = Sample(Selection(np.arange(5), np.ones(5, int)), np.ones(2, np.float32), 1.0)
    data, _ = prepare(memory, sample, np.zeros(2, np.float32), PI, config)
    return data, config.surrogate


class TestActionsAlongAPath:
    theta = np.array([0.7, -1.1], np.float32)
    seen = np.random.default_rng(1).standard_normal((HORIZON, 2)).astype(np.float32)

    def test_they_are_those_of_a_slow_loop(self):
        expected = slow_actions(self.theta, self.seen)
        assert isinstance(act_along(PI, self.theta, self.seen), np.ndarray)
        np.testing.assert_allclose(act_along(PI, self.theta, self.seen), expected, atol=1e-6)
        np.testing.assert_allclose(act_along(PI, jnp.asarray(self.theta), self.seen), expected, atol=1e-6)

    def test_an_episode_carries_the_state_and_the_next_one_begins_anew(self):
        expected = slow_actions(self.theta, self.seen)
        for _ in range(2):
            act = PI.at(self.theta)
            np.testing.assert_allclose([act(o) for o in self.seen], expected, atol=1e-6)

    def test_one_observation_alone_has_no_action(self):
        with pytest.raises(ConfigError, match="has a memory"):
            PI.act(self.theta, self.seen[0])

    def test_the_raw_output_is_not_clipped_and_is_in_halves_of_the_range(self):
        wide = limited(controller(PARAMETERS, step, 2, 1, initial=initial), (-4.0,), (4.0,))
        np.testing.assert_allclose(
            raw_along(wide, self.theta, self.seen), act_along(wide, self.theta, self.seen) / 4, atol=1e-6
        )
        raw = np.asarray(raw_along(PI, self.theta, 30 * self.seen))
        assert np.abs(raw).max() > 2

    def test_a_recurrent_policy_of_ones_own_may_be_squashed(self):
        policy = custom(
            lambda key: {"w": jnp.array([0.5])},
            lambda p, h, o: (jnp.tanh(p["w"] * h + o), h),
            1,
            1,
            initial=lambda p: jnp.zeros(1),
        )
        outer = squashed(policy, (0.0,), (4.0,))
        inner = act_along(policy, np.array([0.5], np.float32), self.seen[:, :1])
        np.testing.assert_allclose(
            act_along(outer, np.array([0.5], np.float32), self.seen[:, :1]), 2 + 2 * np.tanh(inner), atol=1e-6
        )


class TestTheSurrogate:
    @pytest.mark.parametrize("decisions", [0, 8, 30])
    def test_its_log_likelihoods_are_those_of_a_slow_replay_over_every_step(self, decisions):
        data, config = prepared(decisions)
        trajectories = some_trajectories()
        target = np.array([0.4, 0.9], np.float32)
        found = np.asarray(log_weights(PI, target, data, config) + data.log_q)
        times = np.asarray(data.times) if data.times is not None else np.tile(np.arange(HORIZON), (6, 1))
        for i, trajectory in enumerate(trajectories):
            apart = slow_actions(target, trajectory.observations) - trajectory.actions
            each = (
                -0.5 * np.square(apart[times[i], 0] / 0.7) * np.asarray(data.step_counts)[i][: len(times[i])]
            )
            np.testing.assert_allclose(found[i, -1], each.sum(), rtol=1e-4, atol=1e-5)

    def test_a_path_is_most_likely_under_its_own_policy(self):
        data, _ = prepared(8)
        own = np.asarray(data.log_p)[:5, :5, -1]
        np.testing.assert_allclose(np.diag(own), 0, atol=1e-5)
        assert (own <= 1e-5).all()
        assert (own < -1e-3).sum() >= 18

    def test_comparing_every_step_is_the_same_as_comparing_none_left_out(self):
        whole, config = prepared(0)
        chosen, per_decision = prepared(HORIZON * 2)
        target = np.array([0.4, 0.9], np.float32)
        np.testing.assert_allclose(
            log_weights(PI, target, whole, config)[:5, -1],
            log_weights(PI, target, chosen, per_decision)[:5, -1],
            rtol=1e-4,
            atol=1e-4,
        )

    def test_its_gradient_is_that_of_differences(self):
        data, config = prepared(8)
        log_w = make_log_weights_fn(PI, data, config)
        at = np.array([0.2, 0.3], np.float32)
        value = lambda theta: jnp.sum(log_w(theta)[:5, -1])
        slope, h = np.asarray(jax.grad(value)(at)), 1e-2
        for d in range(2):
            move = h * np.eye(2, dtype=np.float32)[d]
            difference = float(value(at + move) - value(at - move)) / (2 * h)
            np.testing.assert_allclose(slope[d], difference, rtol=0.02)

    def test_the_fisher_matrix_follows_the_state(self):
        data, config = prepared(8)
        at = np.array([0.2, 0.3], np.float32)
        metric = np.asarray(fisher(PI, jnp.asarray(at), data, config))
        assert metric.shape == (2, 2)
        assert metric[1, 1] > 0
        np.testing.assert_allclose(metric, metric.T, rtol=1e-5)

    def test_short_episodes_are_replayed_over_a_quarter_of_the_horizon(self):
        memory = Memory()
        for trajectory in some_trajectories(lengths=(5, 9, 7, 10, 3)):
            memory = add(memory, trajectory)
        config = dataclasses.replace(
            ddopg.preset("trajectory"),
            surrogate=SurrogateConfig(length_scale=(0.7,), decisions=8),
            selection=SelectionConfig(rule="latest", size=6),
        )
        sample = Sample(Selection(np.arange(5), np.ones(5, int)), np.ones(2, np.float32), 1.0)
        data, _ = prepare(memory, sample, np.zeros(2, np.float32), PI, config)
        assert data.observations.shape == (6, HORIZON // 4, 2)
        target = np.array([0.4, 0.9], np.float32)
        found = np.asarray(log_weights(PI, target, data, config.surrogate) + data.log_q)
        for i, trajectory in enumerate(memory.trajectories):
            apart = slow_actions(target, trajectory.observations) - trajectory.actions
            at = np.asarray(data.times)[i]
            each = -0.5 * np.square(apart[at, 0] / 0.7) * np.asarray(data.step_counts)[i]
            np.testing.assert_allclose(found[i, -1], each.sum(), rtol=1e-4, atol=1e-5)
