"""Observations that are not finite: an error, or the user's safe action; alike in ddopg and in the single file."""

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg import numpy_policy
from ddopg.config import PRESETS
from ddopg.errors import ConfigError, ObservationError
from tests.probes import Follow
from tests.storage.test_policy_file import trained

BAD = [np.nan, np.inf, -np.inf]
SAFE = {"on_invalid": "safe", "safe_action": [0.25]}


@pytest.fixture(params=["ddopg", "numpy_policy"])
def reader(request, tmp_path):
    """(load, act): one interface to both readers of policy files."""
    path = trained("trajectory").save(tmp_path / "p.safetensors")
    if request.param == "numpy_policy":
        return lambda **options: numpy_policy.load(path, **options)
    return lambda **options: lambda observation: ddopg.load(path, **options).predict(observation)[0]


@pytest.mark.parametrize("bad", BAD)
class TestEveryAnswer:
    def test_an_observation_that_is_not_finite_is_an_error(self, bad, reader):
        with pytest.raises(ValueError, match=rf"finite observations, got {bad} .*on_invalid=.safe."):
            reader()([0.1, bad, 0.2])

    def test_the_safe_action_is_the_answer_where_one_was_given(self, bad, reader):
        policy = reader(**SAFE)
        assert policy([0.1, bad, 0.2]).tolist() == [0.25]
        assert policy([0.1, bad, 0.2]).dtype == np.float32
        np.testing.assert_array_equal(policy([0.1, 0.3, 0.2]), reader()([0.1, 0.3, 0.2]))

    def test_in_a_batch_only_the_bad_rows_get_it(self, bad, reader):
        rows = np.array([[0.1, 0.3, 0.2], [0.1, bad, 0.2], [1, 2, 3]])
        answers = reader(**SAFE)(rows)
        assert answers[1].tolist() == [0.25]
        np.testing.assert_allclose(answers[[0, 2]], reader()(rows[[0, 2]]), rtol=1e-6)
        with pytest.raises(ValueError, match="in row 1"):
            reader()(rows)

    def test_acting_on_it_is_an_error_too(self, bad):
        agent = ddopg.DDOPG(Follow(), seed=0, preset="trajectory")
        (proposal,) = agent.ask(1)
        for act in (proposal.act, agent.predict, agent.incumbent.act):
            with pytest.raises(ObservationError, match=f"finite observations, got {bad}"):
                act([bad])

    def test_a_learner_hands_its_safe_action_to_all_its_policies(self, bad, tmp_path):
        agent = ddopg.DDOPG(Follow(), seed=0, run_directory=tmp_path / "run", **SAFE)
        (proposal,) = agent.ask(1)
        for act in (proposal.act, agent.incumbent.act, lambda o: agent.predict(o)[0]):
            assert act([bad]).tolist() == [0.25]
        agent.close()
        resumed = ddopg.DDOPG.resume(tmp_path / "run", Follow(), **SAFE)
        assert resumed.pending[0].act([bad]).tolist() == [0.25]
        assert ddopg.DDOPG.load(agent.save(tmp_path / "p"), **SAFE).predict([bad])[0].tolist() == [0.25]


@pytest.mark.filterwarnings("error")
class TestWithinTheRange:
    @pytest.mark.parametrize("odd", [{"a": 1}, "one", [[1.0], [1.0, 2.0]], None])
    def test_what_is_no_vector_of_numbers_is_named(self, odd):
        policy = ddopg.DDOPG(Follow(), seed=0, preset="trajectory").incumbent
        for ask in (policy.act, policy.predict):
            with pytest.raises(ObservationError, match=r"number|finite"):
                ask(odd)

    def test_numbers_that_float32_cannot_hold_are_not_finite(self, reader):
        with pytest.raises(ValueError, match="finite observations, got inf"):
            reader()([0.1, 1e300, 0.2])
        assert reader(**SAFE)([0.1, 1e300, 0.2]).tolist() == [0.25]

    def test_a_finite_observation_whose_answer_is_none_is_met_like_a_bad_one(self, tmp_path):
        policy = trained("trajectory")
        steep = policy._replace(theta=np.array([1e30, -1e30, 0, 0], np.float32))
        path = steep.save(tmp_path / "p.safetensors")
        huge = [3e38, 3e38, 0]
        for answer in (steep.act, steep.predict, numpy_policy.load(path)):
            with pytest.raises(ValueError, match="no finite action"):
                answer(huge)
        assert ddopg.load(path, **SAFE).predict(huge)[0].tolist() == [0.25]
        assert numpy_policy.load(path, **SAFE)(huge).tolist() == [0.25]

    @pytest.mark.parametrize("name", PRESETS)
    def test_every_answer_lies_within_bounds_that_float32_cannot_say(self, name, tmp_path):
        space = gym.spaces.Box(np.array([-0.1]), np.array([0.7]), dtype=np.float64)
        agent = ddopg.DDOPG(
            observation_space=gym.spaces.Box(-1, 1, (1,)), action_space=space, horizon=3, preset=name
        )
        wide = agent.incumbent._replace(theta=np.full(agent.policy.size, 50, np.float32))
        single = numpy_policy.load(wide.save(tmp_path / "p.safetensors"))
        for observation in ([1.0], [-1.0], [1e38]):
            for action in (wide.predict(observation)[0], single(observation)):
                assert -0.1 <= float(action[0]) <= 0.7


class TestTheChoice:
    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"on_invalid": "ignore"}, "on_invalid must be 'raise' or 'safe', got 'ignore'"),
            ({"on_invalid": "safe"}, "needs a safe_action"),
            ({"safe_action": [0.0]}, "on_invalid='safe'"),
            ({"on_invalid": "safe", "safe_action": [0.0, 0.0]}, "1 finite numbers"),
            ({"on_invalid": "safe", "safe_action": [np.nan]}, "1 finite numbers"),
            ({"on_invalid": "safe", "safe_action": ["off"]}, "1 finite numbers"),
            ({"on_invalid": "safe", "safe_action": [2.5]}, r"within the action range .* got \[?\(?2.5"),
        ],
    )
    def test_a_choice_that_cannot_be_is_refused_when_it_is_made(self, options, complaint, tmp_path):
        path = trained().save(tmp_path / "p.safetensors")
        with pytest.raises(ValueError, match=complaint):
            numpy_policy.load(path, **options)
        for make in (lambda: ddopg.load(path, **options), lambda: ddopg.DDOPG(Follow(), **options)):
            with pytest.raises(ConfigError, match=complaint):
                make()

    def test_it_changes_nothing_that_is_learnt_and_nothing_that_is_saved(self, tmp_path):
        plain, safe = (ddopg.DDOPG(Follow(), seed=0, **options).learn(9 * 3) for options in ({}, SAFE))
        assert plain.state.centre.tobytes() == safe.state.centre.tobytes()
        assert plain.save(tmp_path / "a").read_bytes() == safe.save(tmp_path / "b").read_bytes()

    def test_a_rollout_with_a_safe_action_cannot_be_told(self):
        (proposal,) = ddopg.DDOPG(Follow(), seed=0, **SAFE).ask(1)
        with pytest.raises(ddopg.DDOPGError, match="observations must be finite, got nan at step 0"):
            proposal.trajectory([[np.nan]], [proposal.act([np.nan])], [0.0])
