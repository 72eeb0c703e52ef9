"""Ready-made controllers do what their formulas say, step by step, and limits of actuators hold."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.controllers import (
    Loop,
    Parameter,
    black_box,
    for_planar_robot,
    gain_scheduled,
    linear_feedback,
    low_passed,
    movement_primitive,
    oscillator,
    pid,
    rate_limited,
)
from ddopg.core.replay import act_along
from ddopg.errors import ConfigError, UnknownNameError
from ddopg.policies import limited, linear

RNG = np.random.default_rng(5)
PATH = RNG.standard_normal((60, 4)).astype(np.float32)


def start_of(policy):
    return np.zeros(policy.size, np.float32)


class TestLinearFeedback:
    def test_it_multiplies_by_its_gains(self):
        gains = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 3.0, 0.0, -1.0]])
        policy = linear_feedback(4, 2, start=gains, scale=0.1, bias=True)
        assert policy.size == 10
        np.testing.assert_allclose(act_along(policy, start_of(policy), PATH), PATH @ gains.T, atol=1e-5)
        moved = start_of(policy)
        moved[[1, 9]] = 1.0
        changed = act_along(policy, moved, PATH) - PATH @ gains.T
        np.testing.assert_allclose(changed[:, 0], 0.1 * PATH[:, 1], atol=1e-5)
        np.testing.assert_allclose(changed[:, 1], 0.1, atol=1e-5)

    def test_gains_of_another_shape_are_refused(self):
        with pytest.raises(ConfigError, match=r"start must be one number, or \(2, 4\) of them"):
            linear_feedback(4, 2, start=np.zeros((4, 2)))


class TestGainScheduling:
    policy = gain_scheduled(2, 1, variable=1, points=(0.0, 1.0, 3.0), start=0.0, scale=1.0)

    def test_gains_are_interpolated_between_the_points_and_stay_beyond_them(self):
        theta = np.array(
            [1.0, 0.0, 5.0, 0.0, 9.0, 0.0], np.float32
        )  # gains of the first observation: 1, 5, 9
        at = np.array([[1.0, z] for z in (-2.0, 0.0, 0.5, 1.0, 2.0, 7.0)], np.float32)
        np.testing.assert_allclose(act_along(self.policy, theta, at)[:, 0], [1, 1, 3, 5, 7, 9], atol=1e-5)

    def test_points_that_do_not_rise_are_refused(self):
        with pytest.raises(ConfigError, match="rising values"):
            gain_scheduled(2, 1, 0, (1.0, 0.0))


def slow_pid(observations, kp, ki, kd, dt, low, high, setpoint, filter_steps=2.0):
    """Textbook PID in float64."""
    integral, rate, before, actions = 0.0, 0.0, None, []
    for y in observations:
        error = setpoint - y
        change = 0.0 if before is None else (y - before) / dt
        rate += (change - rate) / (1 + filter_steps)
        wanted = kp * error + ki * (integral + dt * error) - kd * rate
        if not ((wanted > high and ki * error > 0) or (wanted < low and ki * error < 0)):
            integral += dt * error
        actions.append(min(max(kp * error + ki * integral - kd * rate, low), high))
        before = y
    return np.array(actions)


class TestPID:
    policy = pid(
        4,
        [Loop(measured=2, setpoint=0.3)],
        dt=0.05,
        low=[-2.0],
        high=[2.0],
        kp=Parameter("kp", 1.5, bounds=(0.1, 20.0)),
        ki=Parameter("ki", 0.8, bounds=(0.0, 4.0)),
        kd=Parameter("kd", 0.05, bounds=(0.0, 1.0)),
    )

    def test_it_is_the_textbooks(self):
        expected = slow_pid(PATH[:, 2].tolist(), 1.5, 0.8, 0.05, 0.05, -2.0, 2.0, 0.3)
        assert np.abs(expected).max() == 2.0  # it saturates on the way
        np.testing.assert_allclose(
            act_along(self.policy, start_of(self.policy), PATH)[:, 0], expected, atol=1e-4
        )

    def test_the_integral_does_not_wind_up_while_the_output_is_saturated(self):
        away = np.zeros((400, 4), np.float32)
        away[:300, 2], away[300:, 2] = -5.0, 0.8  # far below the set-point for long, then above it
        actions = act_along(self.policy, start_of(self.policy), away)[:, 0]
        assert actions[250] == 2.0
        assert (actions[310:] < 0).all()

    def test_a_jump_of_the_set_point_gives_the_derivative_no_kick(self):
        policy = pid(
            2, [Loop(measured=0, target=1)], dt=0.1, low=[-9], high=[9], kp=Parameter("kp", 1.0, scale=1.0),
            kd=Parameter("kd", 1.0, scale=1.0),
        )  # fmt: skip
        seen = np.array([[0.0, 0.0], [0.0, 1.0]], np.float32)
        np.testing.assert_allclose(act_along(policy, start_of(policy), seen)[:, 0], [0.0, 1.0])

    def test_several_loops_have_gains_of_their_own(self):
        policy = pid(
            4, [Loop(0), Loop(1)], dt=0.1, low=[-9, -9], high=[9, 9], kp=Parameter("kp", 1.0, scale=1.0)
        )
        assert list(policy.describe(start_of(policy))) == ["kp[0]", "kp[1]"]
        actions = act_along(policy, np.array([0.0, 1.0], np.float32), PATH)
        np.testing.assert_allclose(actions, -PATH[:, :2] * [1.0, 2.0], atol=1e-5)

    @pytest.mark.parametrize("kp", [1.0, [1.0], [], "kp"])
    def test_a_gain_that_is_no_parameter_is_refused(self, kp):
        with pytest.raises(ConfigError, match=r"kp must be one Parameter, such as Parameter\('kp', 2.0"):
            pid(2, [Loop(0)], dt=0.1, low=[-1], high=[1], kp=kp, kd=Parameter("kd", 1.0, scale=1.0))

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ConfigError, match="a loop, a low and a high for every action"):
            pid(2, [Loop(0)], dt=0.1, low=[-1, -1], high=[1, 1], kp=Parameter("kp", 1.0, scale=1.0))
        with pytest.raises(ConfigError, match="dt must be finite and greater than 0"):
            pid(2, [Loop(0)], dt=0.0, low=[-1], high=[1], kp=Parameter("kp", 1.0, scale=1.0))


class TestTheOscillator:
    policy = oscillator(8, (1, 2), (6, 7), low=(-1, -1), high=(1, 1))

    def test_it_draws_sine_waves_and_follows_them(self):
        seen = RNG.standard_normal((90, 8)).astype(np.float32)
        names = list(self.policy.describe(start_of(self.policy)))
        assert names[:3] == ["period", "stiffness", "damping"]
        assert names[3] == "amplitude[0]"
        theta = start_of(self.policy)
        free = [name for name in names if name != "phase[0]"]
        theta[free.index("phase[1]")] = 1.0  # a quarter of 2π
        t = np.arange(90)
        target = 0.5 * np.sin(2 * np.pi * t[:, None] / 40 + [0.0, np.pi / 2])
        expected = 2.0 * (target - seen[:, 1:3]) - 0.1 * seen[:, 6:8]
        np.testing.assert_allclose(act_along(self.policy, theta, seen), expected, atol=1e-3)

    def test_the_layout_of_planar_robots(self):
        seen = np.zeros((1, 8), np.float32)
        seen[0, 2], seen[0, 6] = 0.25, 3.0
        policy = for_planar_robot(8, (-1.0, -1.0), (1.0, 1.0))
        expected = [[-0.3, 2.0 * (0.5 * np.sin(-np.pi / 3) - 0.25)]]  # half a wave along three links
        np.testing.assert_allclose(act_along(policy, start_of(policy), seen), expected, atol=1e-5)
        with pytest.raises(ConfigError, match="a position and a velocity of every joint"):
            for_planar_robot(3, (-1.0, -1.0), (1.0, 1.0))

    def test_joints_may_start_one_behind_the_other(self):
        places = range(4), range(4, 8)
        policy = oscillator(8, *map(tuple, places), low=(-1,) * 4, high=(1,) * 4, lag=np.pi / 2)
        start = policy.describe(start_of(policy))
        phases = [start[f"phase[{joint}]"] for joint in range(4)]
        np.testing.assert_allclose(
            phases, [0.0, -np.pi / 2, -np.pi, np.pi / 2], atol=1e-6
        )  # within the bounds
        assert not np.signbit(phases[0])  # shown as 0, not as -0

    def test_a_configuration_names_it(self):
        from ddopg.support.records import change

        config = change(ddopg.preset("trajectory"), {"policy.controller": "oscillator"})
        agent = ddopg.DDOPG("Swimmer-v5", config=config, horizon=20)
        assert agent.policy.size == 8
        assert agent.incumbent.parameters["period"] == 40.0
        wrong = change(config, {"policy.controller": "oscilator"})
        with pytest.raises(UnknownNameError, match="did you mean 'oscillator'"):
            ddopg.DDOPG("Swimmer-v5", config=wrong)


class TestMovements:
    def test_the_way_is_the_weighted_sum_of_bumps(self):
        policy = movement_primitive(
            2, (0,), (1,), duration=10, bumps=3, weight=Parameter("w", 0.0, scale=1.0),
            stiffness=Parameter("stiffness", 2.0, fixed=True), damping=Parameter("damping", 0.5, fixed=True),
        )  # fmt: skip
        seen = RNG.standard_normal((15, 2)).astype(np.float32)
        weights = np.array([1.0, -1.0, 2.0])
        expected = []
        for t, (position, velocity) in enumerate(seen):
            heights = np.exp(-0.5 * (2 * (min(t / 10, 1) - np.array([0, 0.5, 1]))) ** 2)
            target = weights @ heights / heights.sum()
            expected.append([2 * (target - position) - 0.5 * velocity])
        np.testing.assert_allclose(act_along(policy, weights.astype(np.float32), seen), expected, atol=1e-5)


class TestLimits:
    inner = limited(linear(4, 2), (-1.0, -1.0), (1.0, 1.0))
    theta = RNG.standard_normal(10).astype(np.float32)

    def test_no_action_changes_faster_than_it_may(self):
        policy = rate_limited(self.inner, change=(0.1, 0.3))
        actions = act_along(policy, self.theta, PATH)
        steps = np.abs(np.diff(np.vstack([np.zeros(2), actions]), axis=0))
        assert (steps <= np.array([0.1, 0.3]) + 1e-6).all()
        assert (steps.max(axis=0) > [0.09, 0.29]).all()

    def test_it_comes_back_at_once_from_a_saturated_action(self):
        far = np.tile([[9.0, 0, 0, 0]], (30, 1)).astype(np.float32)
        far[20:, 0] = -9.0
        policy = rate_limited(limited(linear(4, 1), (-1.0,), (1.0,)), change=(0.5,))
        theta = np.array([1, 0, 0, 0, 0], np.float32)
        actions = act_along(policy, theta, far)[:, 0]
        np.testing.assert_allclose(actions[18:25], [1, 1, 0.5, 0, -0.5, -1, -1], atol=1e-6)

    def test_a_filter_around_a_controller_with_a_memory(self):
        inside = limited(TestPID.policy, (-2.0,), (2.0,))
        policy = low_passed(inside, steps=3.0, rest=(0.5,))
        inner, value, expected = act_along(inside, start_of(inside), PATH)[:, 0], 0.5, []
        for action in inner:
            value += (action - value) / 4
            expected.append(value)
        np.testing.assert_allclose(act_along(policy, start_of(policy), PATH)[:, 0], expected, atol=1e-4)

    def test_a_policy_without_a_range_is_refused(self):
        with pytest.raises(ConfigError, match=r"ddopg\.policies\.limited"):
            rate_limited(linear(4, 2), change=(0.1, 0.1))
        with pytest.raises(ConfigError, match="one number per action, 2"):
            rate_limited(self.inner, change=(0.1,))

    def test_a_black_box_limits_itself(self):
        box = black_box([Parameter("kp", 2.0, bounds=(0.0, 8.0))], lambda p, seen: [p["kp"] * seen[0]], 1, 1)
        inside = limited(box, (-1.0,), (1.0,))
        for limit in (
            lambda policy: rate_limited(policy, change=(0.1,)),
            lambda policy: low_passed(policy, 3.0),
        ):
            with pytest.raises(ConfigError, match=r"black box.*in its own step"):
                limit(inside)

    def test_a_learner_keeps_the_limit(self):
        policy = rate_limited(limited(linear(3, 1), (-2.0,), (2.0,)), change=(0.4,))
        agent = ddopg.DDOPG(gym.make("Pendulum-v1"), horizon=30, policy=policy, preset="trajectory").learn(
            total_episodes=3
        )
        for trajectory in agent.state.memory.trajectories:
            assert (np.abs(np.diff(trajectory.actions[:30, 0])) <= 0.4 + 1e-5).all()
