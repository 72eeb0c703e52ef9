"""Trajectories from elsewhere: the nearest policy and its misfit, `agent.add`, proposals told in any order."""

import dataclasses
import itertools

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.core.imitation import fit_params, fit_policy
from ddopg.errors import TrajectoryError
from ddopg.policies import linear, mlp, squashed
from ddopg.rollouts.playing import rollout
from tests.probes import Follow
from tests.recorded import contents, everything, quick

RNG = np.random.default_rng(5)
BOX = gym.spaces.Box(-2, 2, (1,), np.float32)


def path(actions_of, steps=80, scales=(1.0, 100.0, 0.01), horizon=100):
    """A log of a controller: random observations of very different scales, its actions."""
    observations = RNG.standard_normal((steps, len(scales))) * np.asarray(scales)
    actions = actions_of(observations.astype(np.float32))
    return ddopg.make_trajectory(None, observations, actions, np.ones(steps), horizon=horizon)


class TestNearestPolicy:
    @pytest.mark.parametrize("policy", [linear(3, 2), squashed(linear(3, 2), (-5.0, -5.0), (5.0, 5.0))])
    def test_a_linear_controller_is_found_whatever_the_scales(self, policy):
        theta = np.array([0.5, -1.0, 5e-5, 2e-5, 5e3, -3e3, 0.3, -0.2], np.float32)
        log = path(lambda o: policy.act(theta, o), scales=(1.0, 1e4, 1e-4))
        np.testing.assert_allclose(fit_params(policy, log), theta, rtol=0.01, atol=1e-3)

    def test_it_is_the_least_squares_solution_where_the_controller_is_not_linear(self):
        log = path(lambda o: np.sin(2 * o[:, :1]), scales=(1.0, 1.0))
        seen = log.observations[: log.length]
        design = np.column_stack([seen, np.ones(len(seen))])
        expected = np.linalg.lstsq(design, log.actions[: log.length], rcond=None)[0]
        np.testing.assert_allclose(fit_params(linear(2, 1), log), expected.ravel(), atol=2e-3)

    def test_the_padding_says_nothing(self):
        policy = linear(3, 1)
        log = path(lambda o: o[:, :1] + 1, steps=40, scales=(1.0, 1.0, 1.0))
        np.testing.assert_allclose(fit_params(policy, log), [1, 0, 0, 1], atol=1e-3)

    def test_a_squashed_policy_and_a_controller_that_clips(self):
        policy = squashed(linear(2, 1), (-2.0,), (2.0,))
        log = path(lambda o: np.clip(3 * o[:, :1], -2, 2), scales=(1.0, 1.0))
        fit = fit_policy(policy, log)
        assert fit.explained > 0.97
        assert fit.misfit.shape == (1,)
        assert fit.misfit[0] < 0.3
        assert np.isfinite(fit.theta).all()

    def test_a_network_comes_nearer_than_a_line(self):
        log = path(lambda o: np.sin(2 * o[:, :1]), scales=(1.0, 1.0))
        assert fit_policy(mlp(2, 1, (8,)), log).misfit[0] < 0.3 * fit_policy(linear(2, 1), log).misfit[0]


class TestMisfit:
    def test_it_is_the_root_mean_square_per_action_in_its_own_unit(self):
        policy = linear(3, 2)
        log = path(lambda o: np.zeros((len(o), 2)))._replace(theta=np.array([0] * 6 + [3, -4], np.float32))
        fit = fit_policy(policy, log)
        np.testing.assert_allclose(fit.misfit, [3, 4])
        np.testing.assert_array_equal(fit.theta, log.theta)
        assert fit.explained == 0

    def test_a_policy_s_own_rollout_has_none(self):
        policy = linear(1, 1)
        fit = fit_policy(policy, rollout(Follow(), policy, np.array([0.3, 0.1], np.float32), 3))
        assert fit.misfit[0] == 0
        assert fit.explained == 1

    def test_parameters_of_another_size_are_refused(self):
        log = path(lambda o: o[:, :1])._replace(theta=np.zeros(7, np.float32))
        with pytest.raises(TrajectoryError, match="has 7 parameters, this one's 4"):
            fit_policy(linear(3, 1), log)


def learner(**options):
    return ddopg.DDOPG(Follow(), config=quick(), seed=4, **options)


def played(agent, theta, seed):
    return rollout(Follow(), agent.policy, np.asarray(theta, np.float32), seed)


class TestAdd:
    def test_a_known_policy_enters_as_it_is_and_leads_if_it_is_the_best(self):
        agent = learner()
        good = played(agent, [0.6, 0.0], 1)
        added = agent.add(good)
        np.testing.assert_array_equal(added.fit.theta, good.theta)
        np.testing.assert_array_equal(agent.incumbent.theta, good.theta)
        assert agent.state.memory.returns.tolist() == [good.rewards.sum()]
        assert (agent.state.added, agent.state.told, agent.state.steps) == (1, 0, 0)

    def test_an_unknown_policy_is_fitted(self):
        agent = learner()
        log = played(agent, [0.6, 0.1], 1)._replace(theta=np.empty(0, np.float32))
        added = agent.add(log)
        assert added.fit.misfit[0] < 0.02
        np.testing.assert_array_equal(agent.state.memory.trajectories[0].theta, added.fit.theta)

    def test_it_takes_the_places_of_the_design(self):
        design = quick().design
        agent = learner()
        for i in range(design.constants + 1):
            agent.add(played(agent, [0.1 * i, 0.0], i))
        proposals = agent.ask()
        assert len(proposals) == design.policies - design.constants - 1
        assert {p.purpose for p in proposals} == {"design"}
        assert agent.ask()[0].purpose != "design"

    def test_enough_of_them_are_learnt_from_before_the_first_rollout(self):
        agent = learner()
        for i in range(12):
            info = agent.add(played(agent, [0.05 * i, 0.0], i)).info
        assert info.outcome != "initial_design"
        assert np.isfinite(info.predicted)
        assert agent.ask()[0].purpose in ("explore", "fresh", "check")

    def test_budgets_count_what_was_rolled_out_here(self):
        agent = learner()
        for i in range(3):
            agent.add(played(agent, [0.1 * i, 0.0], i))
        agent.learn(total_episodes=7)
        assert agent.state.memory.size == 10
        assert agent.state.told == 7
        own = agent.state.memory.trajectories[3:]
        assert agent.state.steps == sum(t.length for t in own)

    def test_what_a_callback_adds_is_not_counted_either(self):
        def add_one(agent, info):
            agent.add(played(agent, [0.2, 0.0], info.rollout))

        agent = learner()
        agent.learn(total_episodes=9, callback=add_one)
        assert (agent.state.told, agent.state.added) == (9, 9)

    def test_it_is_stored_at_once_and_the_run_goes_on_from_it(self, tmp_path):
        agent = learner(run_directory=tmp_path / "run")
        for i in range(2):
            agent.add(played(agent, [0.1 * i, 0.0], i))
        agent.learn(total_episodes=4)
        agent.add(played(agent, [0.7, 0.0], 9))
        agent.learn(total_episodes=5)
        agent.close()
        whole = everything(tmp_path / "run")
        assert whole["state"] == contents(agent.state)
        assert [row[1] for row in whole["rollouts"] if row[2] == "added"] == [-1, -2, -3]
        again = ddopg.DDOPG.resume(tmp_path / "run", env=Follow())
        again.learn(total_episodes=2)
        agent = learner()
        for i in range(2):
            agent.add(played(agent, [0.1 * i, 0.0], i))
        agent.learn(total_episodes=4)
        agent.add(played(agent, [0.7, 0.0], 9))
        agent.learn(total_episodes=7)
        assert contents(again.state) == contents(agent.state)

    def test_a_run_is_recorded_from_its_beginning(self, tmp_path):
        agent = learner()
        agent.add(played(agent, [0.1, 0.0], 0))
        with pytest.raises(ddopg.DDOPGError, match="recorded from its beginning"):
            agent.record(tmp_path / "run")

    def test_what_does_not_fit_is_refused_and_nothing_changes(self):
        agent = learner()
        for spoilt in ({}, path(lambda o: o[:, :1])):
            with pytest.raises(TrajectoryError, match=r"expected a Trajectory|must have shape"):
                agent.add(spoilt)
        assert agent.state.memory.size == 0


class TestAnyOrder:
    def test_proposals_are_told_in_any_order_and_some_never(self):
        agent = learner()
        waiting, order = [], np.random.default_rng(0)
        for _ in range(40):
            waiting += agent.ask(int(order.integers(1, 4)))
            for _ in range(min(int(order.integers(0, 4)), len(waiting))):
                proposal = waiting.pop(int(order.integers(len(waiting))))
                agent.tell(proposal, played(agent, proposal.theta, proposal.seed))
        state = agent.state
        assert [p.number for p in agent.pending] == sorted(p.number for p in waiting)
        assert state.told == state.memory.size == state.asked - len(waiting)
        numbers = {p.number for p in waiting}
        assert len(numbers) == len(waiting) > 5
        assert np.isfinite(state.incumbent.value)

    def test_the_order_within_the_design_does_not_matter_for_what_is_in_the_memory(self):
        def memory(order):
            agent = learner()
            proposals = agent.ask()
            for i in order:
                agent.tell(proposals[i], played(agent, proposals[i].theta, proposals[i].seed))
            return sorted(agent.state.memory.returns), agent.state.param_sensitivity.tobytes()

        assert len({str(memory(order)) for order in itertools.permutations(range(4))}) == 1

    def test_each_is_told_once(self):
        agent = learner()
        first, *_ = agent.ask()
        agent.tell(first, played(agent, first.theta, first.seed))
        with pytest.raises(TrajectoryError, match=r"proposal 0 is not waiting.*told once"):
            agent.tell(first, played(agent, first.theta, first.seed))


class TestNetworks:
    @pytest.mark.parametrize("hidden", [(), (8,), (16, 16)])
    def test_every_parameter_of_the_default_s_policy_gets_a_unit(self, hidden):
        config = ddopg.preset("trajectory")
        config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, hidden=hidden))
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", config=config, seed=0)
        agent.learn(total_episodes=config.design.constants)
        assert np.all(agent.state.param_sensitivity > 0)

    @pytest.mark.slow
    def test_the_default_learns_with_a_network_too(self):
        config = ddopg.preset("trajectory")
        config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, hidden=(16, 16)))
        means = []
        for seed in (20, 21, 22):
            agent = ddopg.DDOPG("ddopg/Cartpole-v0", config=config, seed=seed).learn(total_timesteps=3_000)
            played = ddopg.evaluate(agent, episodes=50)
            means.append(played.mean())
        assert np.median(means) > 300  # a policy that does the same whatever it sees falls within 150
