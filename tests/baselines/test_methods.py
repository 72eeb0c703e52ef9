"""Every method through the same tests: steps are counted, runs repeat, settings travel, the interface holds."""

import itertools
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from ddopg import baselines
from ddopg.baselines.settings import (
    ARSSettings,
    CMAESSettings,
    OptunaSettings,
    PGPESettings,
    PPOSettings,
    ReinforceSettings,
    TQCSettings,
    TurboSettings,
)
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.envs.adapter import make
from ddopg.errors import ConfigError, MissingPackageError, UnknownNameError
from ddopg.rollouts.playing import rollout
from ddopg.support.records import to_dict

HEAVY = {"ppo", "trpo", "sac", "sac-sbx", "tqc-sbx", "pgpe", "turbo", "optuna-gp"}
LONG = {"ddopg", "ddopg-paper", "ddopg-released"}
METHODS = [
    pytest.param(name, marks=[pytest.mark.slow] if method.kind in HEAVY or name in LONG else [])
    for name, method in baselines.METHODS.items()
]


class Counting(gym.Wrapper):
    """Counts what was really stepped and with which seeds it was reset."""

    def __init__(self, env):
        super().__init__(env)
        self.steps, self.seeds = 0, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.steps += 1
        return self.env.step(action)


def checkpoints(name, env, seed=3, until=150):
    method = baselines.find_method(name)
    for checkpoint in baselines.load_learner(method.kind)(env, seed, method.settings_for("cartpole")):
        yield checkpoint
        if checkpoint.steps >= until:
            return


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_every_environment_step_is_counted(self, name):
        env = Counting(make("cartpole"))
        counted = [(checkpoint.steps, env.steps) for checkpoint in checkpoints(name, env)]
        assert counted[0] == (0, 0)
        assert counted[-1][0] >= 150
        assert all(said == real for said, real in counted), counted

    def test_it_learns_from_no_episode_of_the_evaluation(self, name):
        env = Counting(make("cartpole"))
        list(checkpoints(name, env))
        seeds = [seed for seed in env.seeds if seed is not None]
        assert len(env.seeds) > 1
        assert seeds
        assert max(seeds) < FIRST_EVALUATION_SEED

    def test_the_same_seed_gives_the_same_run_and_another_one_another(self, name):
        runs = [
            np.concatenate([c.theta for c in checkpoints(name, make("cartpole"), seed)]) for seed in (3, 3, 4)
        ]
        assert np.array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])

    def test_what_it_hands_over_can_be_rolled_out(self, name):
        *_, last = checkpoints(name, make("cartpole"))
        assert last.theta.shape == (last.policy.size,)
        trajectory = rollout(make("cartpole"), last.policy, last.theta, seed=1)
        assert trajectory.length >= 1

    def test_its_settings_survive_json(self, name):
        method = baselines.find_method(name)
        for settings in (method.settings, *method.by_task.values()):
            assert baselines.read_settings(method.kind, to_dict(settings)) == settings


def test_methods_that_play_whole_episodes_use_a_fresh_seed_for_each():
    for name in ("random", "cmaes", "ars", "reinforce-tuned", "ddopg"):
        env = Counting(make("cartpole"))
        list(checkpoints(name, env))
        assert len(set(env.seeds)) == len(env.seeds) > 3


def test_every_kind_has_a_method_and_every_method_a_kind():
    assert {method.kind for method in baselines.METHODS.values()} == set(baselines.KINDS)


def test_an_algorithm_with_a_controller_is_that_algorithm():
    kind = baselines.own_kind("ddopg.experiments.bench.controllers:two_loops", "cmaes")
    assert kind == "cmaes@ddopg.experiments.bench.controllers:two_loops"
    assert baselines.find_algorithm(kind) is baselines.KINDS["cmaes"]
    learner = baselines.load_learner(kind)(make("ddopg/TwoJointArm-v0"), 0, CMAESSettings())
    assert next(learner).policy.describe(np.zeros(6))["kp[0]"] == 8.0


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no method called 'cmaess'; did you mean 'cmaes'"):
        baselines.find_method("cmaess")


def test_an_unknown_algorithm_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no algorithm called 'arse'; did you mean 'ars'"):
        baselines.find_algorithm("arse")


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("ppo", "stable_baselines3"),
        ("trpo", "sb3_contrib"),
        ("sac", "torch"),
        ("cmaes", "cma"),
        ("sac-sbx", "sbx"),
        ("tqc-sbx", "stable_baselines3"),
        ("pgpe", "evosax"),
        ("turbo", "botorch"),
        ("optuna-gp", "optuna"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingPackageError, match=r'not installed; get it with pip install "ddopg\[baselines\]"'
    ):
        next(baselines.load_learner(kind)(make("cartpole"), 0, baselines.KINDS[kind].settings()))


def test_naming_the_methods_imports_nothing_heavy():
    code = "import sys, ddopg.baselines; assert not {'jax', 'torch', 'cma', 'mujoco'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ReinforceSettings(batch=0), "batch must be finite and greater than 0, got 0"),
        (lambda: PPOSettings(discount=1.5), r"discount must lie in \(0, 1\], got 1.5"),
        (lambda: ARSSettings(directions=2, top=3), "top must lie between 1 and directions = 2, got 3"),
        (lambda: CMAESSettings(population=1), "or at least 2, got 1"),
        (lambda: CMAESSettings(probes=-1), "probes must be at least 0, got -1"),
        (lambda: TQCSettings(drop=25), "drop must lie between 0 and 24, got 25"),
        (lambda: PGPESettings(population=5), "population must be even, or 0 for a choice by the size, got 5"),
        (lambda: OptunaSettings(trials=5, kept=5), "kept must lie between 1 and trials - 1 = 4, got 5"),
        (lambda: TurboSettings(batch=0), "batch must be finite and greater than 0, got 0"),
    ],
)
def test_wrong_settings_are_refused_at_birth(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_a_learner_never_ends_by_itself():
    method = baselines.find_method("random")
    endless = baselines.load_learner(method.kind)(make("cartpole"), 0, method.settings)
    assert len(list(itertools.islice(endless, 40))) == 40
