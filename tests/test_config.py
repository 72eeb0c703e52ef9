"""Configurations are checked at birth, survive JSON, and the presets hold the paper's values."""

import dataclasses
import inspect
import json
import math

import numpy as np
import pytest

import ddopg
from ddopg import config
from ddopg.config import (
    PRESETS,
    Config,
    DesignConfig,
    PolicyConfig,
    SearchConfig,
    SelectionConfig,
    SurrogateConfig,
    preset,
)
from ddopg.core.acquisitions import OBJECTIVES
from ddopg.core.optimisers import OPTIMISERS
from ddopg.core.selection import RULES
from ddopg.core.surrogate import ESTIMATORS
from ddopg.errors import ConfigError, UnknownNameError
from ddopg.support.records import change, flatten, from_dict, to_dict
from ddopg.support.renamed import RENAMED


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    assert from_dict(json.loads(json.dumps(to_dict(preset(name)))), Config) == preset(name)


def test_the_paper_preset_holds_the_table_of_the_paper():
    paper = preset("paper")
    assert paper.selection.temperature == 0.1
    assert paper.surrogate.penalty == 0.05
    assert math.log(paper.surrogate.length_scale[0] ** 2) == pytest.approx(3)
    assert paper.selection.size == 50
    assert paper.selection.replacement
    assert paper.surrogate.objective == "penalty"
    assert paper.surrogate.epsilon == 0
    assert paper.search.optimiser == "adam"


def test_the_paper_preset_follows_the_prose_of_the_paper():
    paper = preset("paper")
    assert paper.search.start == "selected", "backtracking to promising solutions"
    assert paper.selection.rule == "softmax"
    assert 0 < paper.selection.keep_last < paper.selection.size, "a mix of replay and current trajectories"
    assert paper.policy.squash, "normalised actions"
    assert len(paper.policy.hidden) == 2, "a network"


def test_the_released_preset_holds_what_the_released_code_does():
    released = preset("released")
    assert math.log(released.surrogate.length_scale[0]) == pytest.approx(3)
    assert (released.selection.keep_last, released.selection.replacement) == (3, False)
    assert (released.surrogate.objective, released.surrogate.epsilon) == ("ess_bonus", 1e-8)
    assert released.surrogate.bound_growth == 0.1
    assert (released.search.optimiser, released.search.learning_rate) == ("momentum", 0.03)
    assert (released.search.momentum, released.search.keep_opt_state) == (0.75, True)
    assert (released.search.window, released.search.tolerance, released.search.steps) == (9, 1e-3, 1000)
    assert (released.design.policies, released.design.spread) == (5, 1.0)
    assert released.policy.hidden == (16, 16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SurrogateConfig(delta=1.0), r"delta must lie in \(0, 1\), got 1.0"),
        (
            lambda: SurrogateConfig(length_scale=(0.0,)),
            "length_scale must be finite and greater than 0, got 0.0",
        ),
        (lambda: SurrogateConfig(length_scale=()), "at least one value"),
        (lambda: SurrogateConfig(penalty=-1), "penalty must be finite and at least 0, got -1"),
        (lambda: SurrogateConfig(epsilon=-1), "epsilon"),
        (lambda: SurrogateConfig(bound_growth=-1), "bound_growth"),
        (lambda: SelectionConfig(size=1), "size must be at least 2, got 1"),
        (
            lambda: SelectionConfig(temperature=math.nan),
            "temperature must be finite and greater than 0, got nan",
        ),
        (
            lambda: SelectionConfig(size=5, keep_last=6),
            "keep_last must lie between 0 and selection.size = 5, got 6",
        ),
        (lambda: DesignConfig(policies=1), "policies must be at least 2, got 1"),
        (lambda: DesignConfig(spread=-1), "spread"),
        (
            lambda: SearchConfig(learning_rate=math.inf),
            "learning_rate must be finite and greater than 0, got inf",
        ),
        (lambda: SearchConfig(momentum=1.0), r"momentum must lie in \[0, 1\), got 1.0"),
        (lambda: SearchConfig(steps=0), "steps must be at least 1, got 0"),
        (lambda: SearchConfig(tolerance=-1), "tolerance"),
        (lambda: SearchConfig(window=1), "window"),
        (lambda: SearchConfig(sghmc_temperature=-1), "sghmc_temperature"),
        (
            lambda: SearchConfig(optimiser="adam", fisher_damping=0.1),
            "natural gradient, which search.optimiser adam does not follow.*choose sgd or momentum",
        ),
        (lambda: SearchConfig(optimiser="sghmc", fisher_damping=0.1), "the noise of sghmc"),
        (lambda: SurrogateConfig(weight_cap=-1), "weight_cap must be finite and at least 0, got -1"),
        (lambda: PolicyConfig(hidden=(3, 0)), r"hidden must list positive layer sizes, got \(3, 0\)"),
        (lambda: Config(discount=0), r"discount must lie in \(0, 1\], got 0"),
        (lambda: preset("relased"), "no preset called 'relased'; did you mean 'released'"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"serach": {}}, "no field of Config called 'serach'; did you mean 'search'"),
        ({"surrogate": {"objective_scale": "spred"}}, "'spred'; did you mean 'spread'"),
        ({"search": {"steps": "many"}}, "steps must be of type int, got 'many'"),
        ({"search": {"steps": True}}, "steps must be of type int, got True"),
        ({"policy": {"hidden": 16}}, "hidden must be a list, got 16"),
        ({"policy": 3}, "PolicyConfig must be a table of names, got int"),
        ({"surrogate": {"delta": 2.0}}, "delta must lie in"),
    ],
)
def test_a_foreign_description_is_refused_by_name(change, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(to_dict(Config()) | change, Config)


def test_configurations_are_frozen_and_hashable():
    assert hash(Config()) == hash(Config())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().discount = 0.5


class TestRenamedFields:
    @pytest.mark.parametrize(("old", "new"), RENAMED.items())
    def test_the_error_about_an_old_name_says_the_new_one(self, old, new):
        part, _, field = old.partition(".")
        with pytest.raises(ConfigError, match=f"{old} is now called {new}"):
            change(preset("trajectory"), {old: 1.0})
        with pytest.raises(ConfigError, match=f"{old} is now called {new}"):
            from_dict({part: {field: 1.0}}, Config)

    def test_new_names_exist_and_old_ones_do_not(self):
        known = flatten(to_dict(Config()))
        assert set(RENAMED.values()) <= set(known)
        assert not set(RENAMED) & set(known)


@pytest.mark.parametrize(
    ("field", "near"),
    [
        ("selection.rule", "latest"),
        ("surrogate.estimator", "weighted"),
        ("surrogate.objective", "penalty"),
        ("search.optimiser", "adam"),
    ],
)
def test_a_name_that_is_in_no_table_is_refused_before_anything_runs(field, near):
    wrong = change(preset("trajectory"), {field: f"{near}x"})
    with pytest.raises(
        UnknownNameError, match=rf"no value of {field} called '{near}x'; did you mean '{near}'"
    ):
        ddopg.DDOPG("cartpole", config=wrong)


@pytest.mark.parametrize(
    ("settings", "field", "table"),
    [
        (config.SelectionConfig, "rule", RULES),
        (config.SurrogateConfig, "estimator", ESTIMATORS),
        (config.SurrogateConfig, "objective", OBJECTIVES),
        (config.SearchConfig, "optimiser", OPTIMISERS),
    ],
)
def test_the_field_names_everything_in_its_table(settings, field, table):
    source = inspect.getsource(settings)
    said = source.split(f"    {field}: str")[1].split('"""')[1]
    assert [name for name in table if f"`{name}`" not in said] == []


class TestDesignForActions:
    DESIGN = DesignConfig(policies=8, constants=4, constants_per_action=2)

    @pytest.mark.parametrize(("actions", "constants", "policies"), [(1, 2, 6), (2, 4, 8), (6, 4, 8)])
    def test_an_action_of_one_number_has_fewer_constant_policies_and_as_many_random_ones(
        self, actions, constants, policies
    ):
        made = self.DESIGN.for_actions(actions)
        assert (made.constants, made.policies) == (constants, policies)
        assert made.for_actions(actions) == made

    def test_without_a_limit_nothing_is_left_out(self):
        design = dataclasses.replace(self.DESIGN, constants_per_action=0)
        assert design.for_actions(1) == design

    def test_two_policies_start_at_least(self):
        assert DesignConfig(policies=4, constants=4, constants_per_action=1).for_actions(1).policies == 2

    @pytest.mark.parametrize(("task", "number"), [("cartpole", 2), ("swimmer", 4)])
    def test_a_learner_asks_for_the_constants_of_its_actions_first(self, task, number):
        asked = ddopg.DDOPG(task, seed=0).ask()
        assert len(asked) == number
        assert not any(np.any(proposal.theta[: -number // 2]) for proposal in asked)

    def test_declared_parameters_keep_the_whole_design(self):
        policy = ddopg.controllers.linear_feedback(4, 1, start=np.zeros((1, 4)), scale=1.0)
        assert ddopg.DDOPG("cartpole", policy=policy).config == preset("default")
