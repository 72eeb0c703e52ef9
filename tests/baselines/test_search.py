"""Search in parameter space: it finds a known optimum, and its pieces do what the formulas say."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from ddopg.baselines.scaling import ObservationBuffer, Scaling, fit_scaling, fold_scaling
from ddopg.baselines.search import Trial, ars, cma_es, compute_ars_step, random_search
from ddopg.baselines.settings import ARSSettings, CMAESSettings, RandomSettings
from ddopg.controllers import Parameter, controller
from ddopg.policies import mlp
from ddopg.rollouts.playing import evaluate
from tests.probes import Follow, Target


def after(learner, env, settings, steps, seed=0):
    for checkpoint in learner(env, seed, settings):
        if checkpoint.steps >= steps:
            return checkpoint
    raise AssertionError("a learner never ends")


def worth(checkpoint, env):
    return np.mean(evaluate(env, checkpoint.policy, checkpoint.theta, range(2**31, 2**31 + 20)))


class TestLearning:
    """Target: return −3 (a − 0.5)²; doing nothing is worth −0.75. Follow: a gain of −1; doing nothing about −1."""

    @pytest.mark.parametrize("hidden", [(), (4,)])
    @pytest.mark.parametrize(
        ("learner", "settings"),
        [
            (cma_es, CMAESSettings()),
            (ars, ARSSettings(step=0.1, noise=0.1)),
            (random_search, RandomSettings()),
        ],
    )
    def test_it_finds_a_constant(self, learner, settings, hidden):
        found = after(learner, Target(), replace(settings, hidden=hidden), 1800)
        assert worth(found, Target()) > -0.05

    @pytest.mark.parametrize(
        ("learner", "settings"),
        [
            (cma_es, CMAESSettings()),
            (ars, ARSSettings(noise=0.1, step=0.05)),
            (random_search, RandomSettings(repeats=5)),
        ],
    )
    def test_it_finds_a_gain(self, learner, settings):
        assert worth(after(learner, Follow(), settings, 6000), Follow()) > -0.1

    def test_random_search_keeps_the_best_so_far(self):
        values = [
            worth(checkpoint, Target())
            for checkpoint, _ in zip(random_search(Target(), 1, RandomSettings()), range(60), strict=False)
        ][1:]
        assert np.all(np.diff(values) >= 0)
        assert values[-1] > values[0]

    def test_random_search_judges_by_the_mean_of_its_repeats(self):
        """Returns 6, 6 of the first policy, 10, 0 of the second and 5, 9 of the third: the third is best."""
        rewards = iter([6, 6, 10, 0, 5, 9, 0, 0])

        class Told(Target):
            def step(self, action):
                observation, _, done, truncated, info = super().step(action)
                return observation, next(rewards), done, truncated, info

        settings = RandomSettings(repeats=2, probes=0)
        found = [c.theta for c, _ in zip(random_search(Told(length=1), 0, settings), range(8), strict=False)]
        assert not np.array_equal(found[2], found[1])  # the first policy
        assert np.array_equal(found[5], found[2])
        assert not np.array_equal(found[6], found[5])  # the third one

    def test_cma_es_leaves_the_global_generator_alone(self):
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        after(cma_es, Target(), CMAESSettings(), 100)
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002

    def test_the_population_is_as_asked(self):
        thetas = [
            c.theta.tolist()
            for c, _ in zip(
                cma_es(Target(), 0, CMAESSettings(population=5, probes=0)), range(11), strict=False
            )
        ]
        assert [thetas[i] == thetas[0] for i in range(11)] == [True] * 5 + [False] * 6
        assert thetas[5] != thetas[10]


class TestARSStep:
    def test_by_hand(self):
        """Two directions of three; σ_R of (4, 1, 0, 6) is √5.6875; differences 3 and −6."""
        directions = np.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
        returns = np.array([[4.0, 1.0], [0.0, 6.0], [3.0, 3.5]])
        expected = 0.1 / (2 * np.sqrt(5.6875)) * np.array([3.0, -6.0])
        np.testing.assert_allclose(compute_ars_step(directions, returns, top=2, step=0.1), expected)

    def test_equal_returns_move_nothing(self):
        assert np.array_equal(compute_ars_step(np.ones((2, 3)), np.ones((2, 2)), 2, 1.0), np.zeros(3))


class TestScaling:
    observations = np.array([[1.0, 10.0, 0.0], [-3.0, 20.0, 0.0], [2.0, 60.0, 0.0]])

    def test_rules_by_hand(self):
        centre, scale = fit_scaling(self.observations, "whiten")
        np.testing.assert_allclose(centre, [0, 30, 0])
        np.testing.assert_allclose(scale, [np.sqrt(14 / 3), np.sqrt(1400 / 3), 1])
        centre, scale = fit_scaling(self.observations, "quantile")
        np.testing.assert_allclose(centre, [0, 0, 0])
        np.testing.assert_allclose(scale, [2.98, 59.2, 1])
        centre, scale = fit_scaling(self.observations, "none")
        np.testing.assert_allclose([*centre, *scale], [0, 0, 0, 1, 1, 1])

    def test_nothing_seen_scales_nothing(self):
        assert np.array_equal(fit_scaling(np.empty((0, 2)), "whiten").scale, np.ones(2))

    @pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
    def test_folded_parameters_do_with_raw_observations_what_they_did_with_scaled_ones(self, hidden):
        rng = np.random.default_rng(0)
        policy, scaling = mlp(3, 2, hidden), Scaling(rng.normal(size=3), np.array([0.1, 1.0, 7.0]))
        theta = rng.normal(size=policy.size).astype(np.float32)
        raw = fold_scaling(theta, scaling, hidden[0] if hidden else 2)
        o = rng.normal(size=(5, 3)).astype(np.float32)
        np.testing.assert_allclose(policy.act(raw, o), policy.act(theta, scaling(o)), rtol=1e-4, atol=1e-5)

    def test_all_that_was_seen_is_kept(self):
        seen, rows = ObservationBuffer(2), np.arange(6000.0).reshape(3000, 2)
        for part in np.array_split(rows, 7):
            seen.add(part)
        assert np.array_equal(seen.observations, rows)

    def test_the_search_does_not_depend_on_the_units_of_the_observations(self):
        """Observations a thousand times larger give the same returns, step by step."""

        class Milli(gym.ObservationWrapper):
            def observation(self, observation):
                return 1000 * observation

        for scaling in ("quantile", "whiten"):
            found = [
                [
                    worth(c, env)
                    for c, _ in zip(cma_es(env, 0, CMAESSettings(scaling=scaling)), range(40), strict=False)
                ]
                for env in (Follow(), Milli(Follow()))
            ]
            np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-4)

    def test_probes_are_constant_policies_within_the_action_range(self):
        trial = Trial(Follow(), 0, CMAESSettings(probes=3))
        o = np.array([[-1.0], [1.0]], np.float32)
        actions = [trial.policy.act(theta, o).ravel() for theta in trial.sample_probes()]
        assert len({a[0] for a in actions}) == 3
        assert all(a[0] == a[1] and 0 < abs(a[0]) < 2 for a in actions)


class TestController:
    """Declared parameters are searched as they are: from their start, within their bounds, without scales."""

    def controller(self):
        push = Parameter("push", 1.5, bounds=(0.0, 2.0))
        return controller(
            [push], lambda p, seen: [p["push"] + 0 * seen[0]], observation_size=1, action_size=1
        )

    @pytest.mark.parametrize(
        ("learner", "settings"),
        [
            (cma_es, CMAESSettings(scaling="whiten")),
            (ars, ARSSettings(step=0.3, noise=0.3)),
            (random_search, RandomSettings(spread=1.0)),
        ],
    )
    def test_it_starts_where_it_is_declared_and_finds_the_best(self, learner, settings):
        policy = self.controller()
        found = list(zip(range(250), learner(Target(), 0, settings, policy), strict=False))
        assert policy.describe(found[0][1].theta) == {"push": 1.5}
        assert worth(found[-1][1], Target()) > -0.02

    def test_its_bounds_are_never_left_and_it_has_no_probes(self):
        trial = Trial(Target(), 0, CMAESSettings(), self.controller())
        assert trial.sample_probes() == []
        for far, value in ((9.0, 2.0), (-9.0, 0.0)):
            assert trial.policy.describe(trial.to_raw(np.array([far])))["push"] == pytest.approx(value)

    def test_a_box_has_the_declared_bounds_or_else_the_given_one(self):
        low, high = Trial(Target(), 0, CMAESSettings(), self.controller()).find_box(3.0)
        assert (low.tolist(), high.tolist()) == ([-3.0], [1.0])  # a scale is a quarter of the range
        low, high = Trial(Target(), 0, CMAESSettings()).find_box(3.0)
        assert (low.tolist(), high.tolist()) == ([-3.0] * 2, [3.0] * 2)
