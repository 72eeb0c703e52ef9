"""A rollout is credited to the policy that made it: by its parameters, and by the actions it shows."""

import numpy as np
import pytest

import ddopg
from ddopg.core.credit import SUSPICIOUS
from ddopg.errors import TrajectoryError
from ddopg.rollouts.playing import rollout
from tests.probes import Follow, Target


def make_agent(**options):
    return ddopg.DDOPG(Follow(), seed=0, **options)


def play(agent, proposal):
    return rollout(Follow(), agent.policy, proposal.theta, proposal.seed)


def ask_for_gain(agent):
    """The first proposal that is not a constant policy."""
    while True:
        for proposal in agent.ask():
            if not np.array_equal(proposal.act([0.0]), proposal.act([1.0])):
                return proposal
            agent.tell(proposal, play(agent, proposal))


class TestParameters:
    def test_a_trajectory_of_another_proposal_is_refused_and_both_are_named(self):
        agent = make_agent()
        p, q = agent.ask(2)
        other = q.trajectory([[0.1]], [q.act([0.1])], [1.0])
        with pytest.raises(TrajectoryError, match=r"made by proposal 1, and is told as proposal 0's"):
            agent.tell(p, other)
        assert agent.state.memory.size == 0
        assert [one.number for one in agent.pending] == [0, 1]
        agent.tell(q, other)

    def test_a_trajectory_that_was_told_already_is_refused_for_the_next_proposal(self):
        agent = make_agent()
        p, q = agent.ask(2)
        told = play(agent, q)
        agent.tell(q, told)
        with pytest.raises(TrajectoryError, match=r"made by the policy of rollout 1, .* proposal 0's"):
            agent.tell(p, told)
        assert agent.state.memory.size == 1

    def test_parameters_that_nobody_proposed_are_refused(self):
        agent = make_agent()
        (p,) = agent.ask(1)
        for theta in (p.theta + 1, p.theta[:-1]):
            with pytest.raises(TrajectoryError, match=r"no proposal of this learner .* `agent.add`"):
                agent.tell(p, play(agent, p)._replace(theta=theta))

    def test_parameters_that_nobody_knows_are_taken_for_the_proposal_s(self):
        agent = make_agent()
        (p,) = agent.ask(1)
        agent.tell(p, play(agent, p)._replace(theta=np.zeros(0, np.float32)))
        np.testing.assert_array_equal(agent.state.memory.trajectories[0].theta, p.theta)

    def test_a_proposal_of_another_learner_is_refused(self):
        agent, other = make_agent(), ddopg.DDOPG(Follow(), seed=1, preset="trajectory")
        agent.ask(1)
        (foreign,) = other.ask(1)
        with pytest.raises(TrajectoryError, match=r"proposal 0 .* another learner"):
            agent.tell(foreign, play(other, foreign))


class TestActions:
    @staticmethod
    def spoil(trajectory, actions):
        return trajectory._replace(actions=np.asarray(actions, np.float32))

    def test_actions_that_are_not_the_policy_s_are_remarked_and_the_remark_is_kept(self, tmp_path):
        agent = make_agent(run_directory=tmp_path / "run")
        proposal = ask_for_gain(agent)
        good = play(agent, proposal)
        info = agent.tell(proposal, self.spoil(good, np.full_like(good.actions, 5)))
        assert "the logged actions differ from the policy's by" in info.remark
        assert agent.store.log()[-1]["remark"] == info.remark
        agent.close()

    def test_actions_reversed_in_time_are_remarked(self):
        agent = make_agent()
        proposal = ask_for_gain(agent)
        good = play(agent, proposal)
        assert "differ from the policy's" in agent.tell(proposal, self.spoil(good, good.actions[::-1])).remark

    def test_the_policy_s_own_actions_need_no_remark(self):
        agent = make_agent()
        told = []
        for _ in range(3):
            told += [agent.tell(proposal, play(agent, proposal)) for proposal in agent.ask()]
        assert {info.remark for info in told} == {""}

    @pytest.mark.parametrize(("times", "said"), [(0.9, False), (1.1, True)])
    def test_one_threshold_decides(self, times, said):
        agent = make_agent()
        proposal = ask_for_gain(agent)
        good = play(agent, proposal)
        off = good.actions + times * SUSPICIOUS * np.asarray(agent.policy.action_scale)
        assert bool(agent.tell(proposal, self.spoil(good, off)).remark) == said

    def test_actions_that_the_machine_clipped_are_the_policy_s(self):
        agent = ddopg.DDOPG(Follow(), preset="released", seed=0)
        (proposal,) = agent.ask(1)
        observations = np.array([[60.0], [-60.0]])
        answers = np.array([proposal.act(each) for each in observations])
        assert np.abs(answers).max() > 2
        told = proposal.trajectory(observations, np.clip(answers, -2, 2), [0.0, 0.0])
        assert agent.tell(proposal, told).remark == ""

    def test_the_remark_changes_nothing_that_is_learnt(self):
        learnt, told = make_agent().learn(total_episodes=9), make_agent()
        for _ in range(9):
            proposal = (told.pending or told.ask())[0]
            told.tell(proposal, play(told, proposal))
        assert learnt.state.centre.tobytes() == told.state.centre.tobytes()
        assert learnt.state.incumbent.theta.tobytes() == told.state.incumbent.theta.tobytes()

    def test_a_remark_joins_what_is_odd_besides(self):
        agent = ddopg.DDOPG(Target(goal=0.0), seed=0, preset="trajectory")
        info = None
        while agent.state.memory.size < agent.config.design.policies:
            for proposal in agent.ask():
                info = agent.tell(proposal, proposal.trajectory([[1.0]], [[1.9]], [0.0]))
        assert "all returns are equal, none is preferred; the logged actions differ" in info.remark
