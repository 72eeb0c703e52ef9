"""Arguments of the wrong kind get a sentence that says what was expected, and never a raw error of Python or JAX."""

import re
from pathlib import Path

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg import deploy
from ddopg.callbacks import EvalCallback
from ddopg.controllers import (
    NEEDS,
    READY_MADE,
    Loop,
    Parameter,
    black_box,
    controller,
    gain_scheduled,
    linear_feedback,
    low_passed,
    movement_primitive,
    oscillator,
    pid,
    rate_limited,
    returns_only,
    theta_of,
)
from ddopg.envs.failures import EndOnFailure
from ddopg.envs.smoothness import PenaliseChanges
from ddopg.errors import (
    ArtefactError,
    ConfigError,
    ObservationError,
    SpaceError,
    TrajectoryError,
    UnknownNameError,
    require_function,
)
from ddopg.policies import custom, import_policy, limited, linear, mlp, squashed
from ddopg.support.records import change
from tests.probes import Follow
from tests.recorded import quick

KP = Parameter("kp", 2.0, bounds=(0.0, 8.0))
LIMITED = limited(linear(2, 1), (-1.0,), (1.0,))


def gains(key):
    return {"gain": jnp.ones((1, 2))}


def apply(parameters, observation):
    return parameters["gain"] @ observation


def own(init=gains, apply=apply, observation_size=2, action_size=1, **options):
    return custom(init, apply, observation_size, action_size, **options)


def remembering(parameters, state, observation):
    return state, observation[:1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"init": apply, "apply": gains},
            r"init must be a function of \(key\), got one of \(parameters, obs.*swapp",
        ),
        ({"init": jnp.ones(2)}, r"init must be a function of \(key\), got ArrayImpl"),
        ({"init": lambda key: "x"}, r"init\(key\) must give arrays"),
        ({"init": lambda key: []}, r"init\(key\) must give at least one parameter"),
        ({"init": lambda key: key["x"]}, r"init\(key\) raises"),
        (
            {"apply": lambda o: o},
            r"apply must be a function of \(parameters, observation\), got one of \(o\)",
        ),
        (
            {"apply": remembering},
            r"apply must be .* got one of \(parameters, state, observation\).*needs initial",
        ),
        ({"apply": 3}, r"apply must be a function of \(parameters, observation\), got int"),
        ({"apply": lambda p, o: p["h"] @ o}, r"apply\(parameters, observation\) raises KeyError: 'h'"),
        (
            {"apply": lambda p, o: p["gain"] @ o[:1]},
            r"apply\(parameters, observation\) raises TypeError: dot_general",
        ),
        ({"initial": 0.0, "apply": remembering}, r"initial must be a function of \(parameters\), got float"),
        (
            {"initial": lambda: 0.0, "apply": remembering},
            r"initial must be a function of \(parameters\), got one of",
        ),
        ({"initial": lambda p: p["h"], "apply": remembering}, r"initial\(parameters\) raises KeyError"),
        ({"initial": lambda p: 0.0}, r"apply must be a function of \(parameters, state, observation\)"),
        ({"observation_size": "2"}, "observation_size must be a whole number, got '2'"),
        ({"observation_size": -2}, "observation_size must be at least 1, got -2"),
        ({"action_size": 1.5}, "action_size must be a whole number, got 1.5"),
    ],
)
def test_a_policy_of_ones_own_says_which_function_is_wrong(options, said):
    with pytest.raises(ConfigError, match=said):
        own(**options)


def test_a_function_that_does_not_tell_its_arguments_is_let_through():
    require_function("check", max, ("observation", "action"))


class TestAControllerOfOnesOwn:
    @pytest.mark.parametrize("make", [controller, black_box])
    @pytest.mark.parametrize(
        ("step", "options", "said"),
        [
            (
                lambda o: [o[0]],
                {},
                r"step must be a function of \(parameters, observation\), got one of \(o\)",
            ),
            (remembering, {}, r"step must be .*needs initial=\.\.\."),
            (3, {}, r"step must be a function of \(parameters, observation\), got int"),
            (
                lambda p, o: [o[0]],
                {"initial": lambda p: 0.0},
                r"step must be a function of \(parameters, state, obs",
            ),
            (remembering, {"initial": 0.0}, r"initial must be a function of \(parameters\), got float"),
            (lambda p, o: [p.kp], {}, "step.* raises AttributeError: 'dict' object has no attribute 'kp'"),
        ],
    )
    def test_functions_of_other_arguments_are_refused(self, make, step, options, said):
        with pytest.raises(ConfigError, match=said):
            make([KP], step, 2, 1, **options)

    def test_messages_call_the_function_as_the_user_does(self):
        with pytest.raises(SpaceError, match=r"step\(parameters, observation\) must give 1 numbers"):
            controller([KP], lambda p, o: [o[0], o[1]], 2, 1)

    @pytest.mark.parametrize("parameters", [None, 3, lambda p: p])
    def test_parameters_that_are_no_list_are_refused(self, parameters):
        with pytest.raises(ConfigError, match="declared as a list of Parameters, got"):
            controller(parameters, lambda p, o: [o[0]], 2, 1)

    def test_parameters_may_come_one_by_one(self):
        assert controller(iter([KP]), lambda p, o: [p["kp"] * o[0]], 2, 1).size == 1

    @pytest.mark.parametrize("wrong", [{"fixed": "no"}, {"log": "yes"}, {"unit": 3}])
    def test_a_choice_that_is_none_is_refused(self, wrong):
        with pytest.raises(ConfigError, match="fixed of kp must be True or False, log too"):
            returns_only([KP._replace(**wrong)])

    @pytest.mark.parametrize(
        ("answer", "said"), [("a", "numbers as its action"), ({"a": 1}, "numbers as its action")]
    )
    def test_a_black_box_must_give_numbers(self, answer, said):
        with pytest.raises(SpaceError, match=said):
            black_box([KP], lambda p, o: answer, 2, 1)

    def test_a_black_box_with_a_memory_gives_two_things(self):
        with pytest.raises(SpaceError, match=r"two things, \(state, action\), got \[0.0\]"):
            black_box([KP], lambda p, s, o: [0.0], 2, 1, initial=lambda p: 0.0)

    @pytest.mark.parametrize("values", [{"kp": "4"}, [4.0]])
    def test_values_of_parameters_are_numbers_by_name(self, values):
        with pytest.raises(ConfigError, match="values are numbers by name"):
            theta_of(returns_only([KP]), values)


class TestAnObservationThatIsNotThere:
    @pytest.mark.parametrize(
        "place", [lambda: jnp.array([7]), lambda: jnp.array(7), lambda: jnp.arange(6, 8)[:1]]
    )
    def test_an_index_that_jax_computed_is_seen_too(self, place):
        with pytest.raises(SpaceError, match=r"is not there \(index [67] is out of bounds"):
            own(apply=lambda p, o: o[place()].reshape(1))

    def test_so_is_one_that_depends_on_a_parameter(self):
        with pytest.raises(SpaceError, match="is not there"):
            controller([KP], lambda p, o: [o[p["kp"].astype(int)]], 2, 1)
        assert controller([KP], lambda p, o: [o[p["kp"].astype(int)]], 3, 1).size == 1

    def test_a_name_in_the_place_of_an_index_is_another_mistake(self):
        with pytest.raises(ConfigError, match="raises TypeError"):
            controller([KP], lambda o, p: [p["kp"] * o[0]], 2, 1)


def make_pid(**options):
    given = {"loops": [Loop(0)], "dt": 0.1, "low": [-1], "high": [1], "kp": KP}
    return pid(2, **(given | options))


def make_oscillator(**options):
    given = {"positions": (0,), "velocities": (1,), "low": (-1,), "high": (1,)}
    return oscillator(2, **(given | options))


def make_movement(**options):
    weight = Parameter("weight", 0.0, scale=0.3)
    given = {"duration": 50, "weight": weight, "stiffness": KP, "damping": KP._replace(name="kd")}
    return movement_primitive(2, **({"positions": (0,), "velocities": (1,)} | given | options))


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (make_pid, {"loops": [0]}, r"loops must be a list with one Loop per action.* got \[0\]"),
        (make_pid, {"loops": Loop(0)}, "loops must be a list with one Loop per action"),
        (make_pid, {"loops": [Loop("0")]}, "measured and target must be a list of places"),
        (
            make_pid,
            {"loops": [Loop(0, setpoint="a")]},
            "set-point of a loop must be a finite number, got 'a'",
        ),
        (make_pid, {"low": -1}, r"low must be a list of numbers.* got -1; write \[-1\]"),
        (make_pid, {"low": ["a"]}, r"low must be a list of numbers, got \['a'\]"),
        (make_pid, {"low": [1], "high": [-1]}, "one number per action, low < high"),
        (make_pid, {"dt": "0.1"}, "dt must be finite and greater than 0, got '0.1'"),
        (make_pid, {"filter_steps": "2"}, "filter_steps must be finite and at least 0, got '2'"),
        (make_oscillator, {"positions": 0}, "positions must be a list of places of observations"),
        (make_oscillator, {"velocities": (1.0,)}, "velocities must be a list of places of observations"),
        (make_oscillator, {"low": -1}, "low must be a list of numbers"),
        (make_oscillator, {"amplitude": 0.5}, "amplitude must be a Parameter"),
        (make_oscillator, {"period": 40.0}, "period must be a Parameter"),
        (make_oscillator, {"lag": "1"}, "lag must be a finite number, got '1'"),
        (make_oscillator, {"lag": np.inf}, "lag must be a finite number, got inf"),
        (make_movement, {"weight": 1.0}, "weight must be a Parameter"),
        (make_movement, {"bumps": 2.5}, "bumps must be a whole number, got 2.5"),
        (make_movement, {"duration": "5"}, "duration must be a whole number, got '5'"),
        (make_movement, {"positions": 0}, "positions must be a list of places"),
    ],
)
def test_a_ready_made_controller_says_which_argument_is_wrong(make, options, said):
    assert make().size >= 1
    with pytest.raises(ConfigError, match=said):
        make(**options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: linear_feedback("2", 1), "observation_size must be a whole number"),
        (
            lambda: linear_feedback(2, 1, start=[[1], [2, 3]]),
            r"start must be one number, or \(1, 2\) of them",
        ),
        (lambda: gain_scheduled(2, 1, 0, ("a", "b")), "points must be a list of numbers"),
        (lambda: gain_scheduled(2, 1, "0", (0, 1)), "variable must be a whole number"),
        (lambda: gain_scheduled("2", 1, 0, (0, 1)), "observation_size must be a whole number"),
        (lambda: returns_only([KP], context_size=0), "context_size must be at least 1"),
        (lambda: rate_limited(3, (0.5,)), "first argument must be a policy class, .* got int"),
        (lambda: rate_limited(LIMITED, "a"), "change must be a list of numbers"),
        (lambda: low_passed(3, 1.0), "first argument must be a policy class"),
        (lambda: low_passed(LIMITED, "a"), "the time constant must be finite and at least 0, got 'a'"),
        (lambda: theta_of(3, {"kp": 1.0}), "first argument must be a policy class"),
        (lambda: limited(3, (-1.0,), (1.0,)), "limited takes a policy class first, .* got int"),
        (lambda: limited(linear(2, 1), -1.0, 1.0), "each bound or scale of limited must be a row of numbers"),
        (lambda: limited(linear(2, 1), low="a", high="b"), "low must be a row of numbers"),
        (lambda: mlp("2", 1), "observation_size must be a whole number"),
        (lambda: mlp(2, 0), "action_size must be at least 1"),
        (lambda: mlp(2, 1, hidden=16), "hidden must be the units of each hidden layer"),
        (lambda: mlp(2, 1, hidden=(0,)), "a hidden layer must be at least 1"),
        (lambda: import_policy(3), "import_policy takes a text, MODULE:NAME, got int"),
        (
            lambda: import_policy("ddopg.controllers:pid"),
            r"got function; call it in a file.*tuned = pid\(\.\.\.\)",
        ),
    ],
)
def test_a_policy_class_says_which_argument_is_wrong(call, said):
    with pytest.raises(ConfigError, match=said):
        call()


def test_limits_that_do_not_fit_the_actions_are_refused():
    with pytest.raises(SpaceError, match="one number per action, 1, low not above high"):
        limited(linear(2, 1), (-1.0, -1.0), (1.0, 1.0))
    with pytest.raises(SpaceError, match="one number per action, 1, low not above high"):
        limited(linear(2, 1), (1.0,), (-1.0,))
    with pytest.raises(SpaceError, match="low and high must have one number per action"):
        squashed(linear(2, 1), (-1.0,), (1.0, 2.0))


def test_lists_are_rows_of_numbers_too_and_give_the_same_policy():
    assert limited(linear(2, 1), [-1], np.ones(1)) is limited(linear(2, 1), (-1.0,), (1.0,))
    assert mlp(2, 1, hidden=[4]) is mlp(2, 1, hidden=(4,))


class TestANameThatIsNotEnough:
    def choose(self, name):
        return ddopg.DDOPG("cartpole", config=change(quick(), {"policy.controller": name}))

    @pytest.mark.parametrize("name", NEEDS)
    def test_the_message_says_why_and_what_to_write(self, name):
        with pytest.raises(UnknownNameError) as caught:
            self.choose(name)
        said = str(caught.value)
        assert said.startswith(f"{name} cannot be chosen by its name alone, as oscillator can: it must know")
        assert NEEDS[name] in said
        assert f"mine.py with tuned = ddopg.controllers.{name}(...)" in said
        assert "--policy mine:tuned" in said
        assert "docs/controllers.md" in said
        assert all(each in said for each in (*READY_MADE, *NEEDS))

    def test_one_that_does_not_exist_gets_all_that_do(self):
        with pytest.raises(UnknownNameError, match="no ready-made controller called 'xyz'") as caught:
            self.choose("xyz")
        assert all(each in str(caught.value) for each in (*READY_MADE, *NEEDS))
        assert "--policy mine:tuned" in str(caught.value)

    def test_every_ready_made_controller_of_the_page_is_in_one_of_both_tables(self):
        page = (Path(__file__).parents[1] / "docs" / "controllers.md").read_text()
        _, _, table = page.partition("## Ready-made")
        assert sorted([*READY_MADE, *NEEDS]) == sorted(
            re.findall(r"^\| `(\w+)` \|", table.split("## ")[0], re.M)
        )


class TestTheLearner:
    def agent(self, **options):
        return ddopg.DDOPG(Follow(), config=quick(), **options)

    @pytest.mark.parametrize("horizon", ["10", 1.5])
    def test_a_horizon_is_a_whole_number(self, horizon):
        with pytest.raises(ConfigError, match="the horizon must be a whole number"):
            self.agent(horizon=horizon)

    def test_a_preset_that_is_no_name(self):
        with pytest.raises(UnknownNameError, match="no preset called 3; known: default"):
            ddopg.DDOPG(Follow(), preset=3)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"retries": "a"}, "retries must be a whole number, got 'a'"),
            ({"time_limit": "a"}, "time_limit must be finite and greater than 0, got 'a'"),
            (
                {"callback": lambda agent: None},
                r"a callback must be a function of \(agent, info\), got one of \(agent",
            ),
            ({"callback": EvalCallback}, "or an object, got the class EvalCallback"),
        ],
    )
    def test_learn_says_which_argument_is_wrong(self, options, said):
        with pytest.raises(ConfigError, match=said):
            self.agent().learn(total_episodes=1, **options)

    @pytest.mark.parametrize("number", ["3", 1.5])
    def test_the_number_of_proposals_is_whole(self, number):
        with pytest.raises(ConfigError, match="the number of proposals must be a whole number"):
            self.agent().ask(number)

    @pytest.mark.parametrize("proposal", [None, 0, []])
    def test_tell_wants_a_proposal(self, proposal):
        agent = self.agent()
        (asked,) = agent.ask(1)
        with pytest.raises(TrajectoryError, match="tell takes a proposal first"):
            agent.tell(proposal, asked.trajectory([[0.0]], [[0.0]], [0.0]))

    @pytest.mark.parametrize(
        ("rewards", "return_", "said"),
        [
            ([0.0], "a", "a failure counts as a return, one finite number, got 'a'"),
            ([0.0], np.nan, "a failure counts as a return, one finite number, got nan"),
            (["a"], -1.0, "rewards must be an array of numbers"),
            (3.0, -1.0, "rewards must have 1 axes"),
        ],
    )
    def test_a_failure_is_told_in_numbers(self, rewards, return_, said):
        (proposal,) = self.agent().ask(1)
        with pytest.raises(TrajectoryError, match=said):
            proposal.failure([[0.0]], [[0.0]], rewards, return_)

    def test_a_failure_leaves_the_rewards_of_the_user_alone(self):
        (proposal,), rewards = self.agent().ask(1), np.zeros(1)
        assert proposal.failure([[0.0]], [[0.0]], rewards, -5.0).rewards[0] == -5.0
        assert rewards[0] == 0.0

    def test_the_parameters_of_a_trajectory_are_numbers(self):
        with pytest.raises(TrajectoryError, match="theta must be the parameters that acted, or None"):
            ddopg.make_trajectory("a", [[0.0]], [[0.0]], [0.0], horizon=3)

    @pytest.mark.parametrize("horizon", ["3", 3.5])
    def test_so_is_its_horizon(self, horizon):
        with pytest.raises(ConfigError, match="the horizon must be a whole number"):
            ddopg.make_trajectory(None, [[0.0]], [[0.0]], [0.0], horizon=horizon)

    def test_a_number_beyond_all_floats_is_no_observation(self):
        with pytest.raises(ObservationError, match="too large"):
            self.agent().predict([10**400])

    @pytest.mark.parametrize("state", ["s", {"a": 1}])
    def test_a_memory_is_what_the_last_call_returned(self, state):
        policy = controller([KP], remembering, 1, 1, initial=lambda p: 0.0)
        with pytest.raises(ObservationError, match="what the last call returned, or None at the start"):
            self.agent(policy=policy).predict([0.0], state)

    def test_a_file_wants_a_policy_class_and_no_name(self, tmp_path):
        path = self.agent().save(tmp_path / "policy.safetensors")
        with pytest.raises(ConfigError, match="policy must be a policy class, got str"):
            ddopg.load(path, policy="mine:tuned")

    @pytest.mark.parametrize("write", [deploy.to_numpy, deploy.to_onnx])
    def test_what_is_exported_is_a_policy_with_its_parameters(self, write, tmp_path):
        with pytest.raises(ArtefactError, match=r"such as agent\.incumbent .* got DDOPG"):
            write(self.agent(), tmp_path / "policy.json")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"env": 3}, SpaceError, "env must be an environment of Gymnasium, .* got int"),
        ({"env": ["cartpole"]}, SpaceError, "env must be an environment of Gymnasium, .* got list"),
        ({"seed": "a"}, ConfigError, "the seed must be a whole number, got 'a'"),
        ({"seed": -1}, ConfigError, "the seed must not be negative, got -1"),
        ({"time_limit": "a"}, ConfigError, "time_limit must be finite and greater than 0, got 'a'"),
    ],
)
def test_evaluate_says_which_argument_is_wrong(options, kind, said):
    with pytest.raises(kind, match=said):
        ddopg.evaluate(ddopg.DDOPG(Follow(), config=quick()), **({"episodes": 1} | options))


class TestTuning:
    def test_a_function_takes_the_parameters_as_one_dictionary(self):
        with pytest.raises(
            ConfigError, match=r"must be a function of \(parameters\), got one of \(kp, kd\).*one dict"
        ):
            ddopg.tune_controller(lambda kp, kd: 0.0, [KP], rollouts=1)

    def test_a_function_has_no_horizon(self):
        with pytest.raises(ConfigError, match=r"a horizon goes with an environment; .* got 7"):
            ddopg.tune_controller(lambda p: 0.0, [KP], rollouts=1, horizon=7)

    def test_an_empty_dictionary_is_no_configuration(self):
        with pytest.raises(ConfigError, match=r"config must be a ddopg\.Config, got dict"):
            ddopg.tune_controller(lambda p: 0.0, [KP], rollouts=1, config={})


class TestWrappers:
    @pytest.mark.parametrize(
        "wrap",
        [lambda env: EndOnFailure(env, lambda o, a: False, -1.0), lambda env: PenaliseChanges(env, 1.0)],
    )
    def test_an_id_cannot_be_wrapped(self, wrap):
        with pytest.raises(SpaceError, match=r"a wrapper goes around an environment, .* got 'Pendulum-v1'"):
            wrap("Pendulum-v1")

    def test_a_check_has_an_observation_and_an_action(self):
        with pytest.raises(
            ConfigError, match=r"check must be a function of \(observation, action\), got one of \(o"
        ):
            EndOnFailure(gym.make("Pendulum-v1"), lambda o: False, -1.0)

    def test_a_failure_counts_as_a_number(self):
        with pytest.raises(ConfigError, match="must count as a finite return, got a"):
            EndOnFailure(gym.make("Pendulum-v1"), lambda o, a: False, "a")

    def test_a_weight_is_a_number(self):
        with pytest.raises(ConfigError, match="must be one number, or one per action, got 'a'"):
            PenaliseChanges(gym.make("Pendulum-v1"), "a")
