"""Linear copies of the actor: the least squares they are, and when the search rolls one out."""

import jax
import numpy as np
import pytest

import ddopg
from ddopg.core.distillation import CHUNK, PAUSE, RAW_LIMIT, RIDGE, distil, wants_distilled
from ddopg.core.memory import Memory, add
from ddopg.core.proposals import propose
from ddopg.core.state import Proposal
from ddopg.core.types import make_trajectory
from ddopg.policies import linear, mlp, squashed
from tests.core.test_critic import begin, with_critic
from tests.probes import Follow

POLICY = squashed(mlp(3, 2, (4,), linear_path=True), (-1.0, -1.0), (1.0, 1.0))


def rolled_out(theta, observations, policy=POLICY):
    actions = policy.act(theta, observations)
    return make_trajectory(theta, observations, actions, np.zeros(len(actions)), horizon=CHUNK)


def seen_by(rng, number):
    return (rng.standard_normal((number, 3)) * [1.0, 20.0, 0.3] + [0.0, 5.0, -2.0]).astype(np.float32)


class TestFit:
    def test_an_actor_that_is_linear_is_copied_but_for_the_ridge(self):
        """K and b of the linear path, and nothing in the network."""
        rng = np.random.default_rng(0)
        theta = np.zeros(POLICY.size, np.float32)
        theta[-8:] = [0.3, -0.2, 0.01, 0.02, -0.4, 0.5, 0.1, -0.1]
        memory = Memory()
        for _ in range(2):
            memory = add(memory, rolled_out(theta, seen_by(rng, 40)), purpose="critic")
        np.testing.assert_allclose(distil(memory, POLICY), theta, atol=2e-3)

    def test_it_is_the_ridge_solution_on_what_the_actor_saw_lately(self):
        """By the augmented system that NumPy's lstsq solves, in float64, on the last three rollouts without noise."""
        rng = np.random.default_rng(1)
        theta = (0.3 * rng.standard_normal(POLICY.size)).astype(np.float32)
        theta[-8:] *= [1, 1, 0.1, 0.1, 5, 5, 1, 1]
        paths = [rolled_out(theta, seen_by(rng, CHUNK // 2 + 7)) for _ in range(4)]
        memory = Memory()
        for path, purpose in zip(
            [rolled_out(theta * 2, seen_by(rng, 5)), *paths, rolled_out(theta * 3, seen_by(rng, 9))],
            ["critic"] * 5 + ["noisy"],
            strict=True,
        ):
            memory = add(memory, path, purpose=purpose)
        seen = np.concatenate([path.observations[: path.length] for path in paths[-3:]]).astype(np.float64)
        raw = np.asarray(jax.vmap(POLICY.raw, (None, 0))(theta, seen.astype(np.float32)), np.float64)
        assert np.max(np.abs(raw)) > RAW_LIMIT, "some outputs are beyond the limit"
        raw = np.clip(raw, -RAW_LIMIT, RAW_LIMIT)
        x = (seen - seen.mean(0)) / seen.std(0)
        rows = np.vstack([x, np.sqrt(RIDGE * len(x)) * np.eye(3)])
        solution = np.linalg.lstsq(rows, np.vstack([raw - raw.mean(0), np.zeros((3, 2))]), rcond=None)[0]
        found = distil(memory, POLICY)
        act = linear(3, 2).act
        np.testing.assert_allclose(act(found[-8:], seen), x @ solution + raw.mean(0), atol=1e-4)
        assert not found[:-8].any()

    def test_what_never_changes_gets_no_weight(self):
        rng = np.random.default_rng(2)
        theta = (0.3 * rng.standard_normal(POLICY.size)).astype(np.float32)
        seen = seen_by(rng, 30)
        seen[:, 1] = 1e6
        found = distil(add(Memory(), rolled_out(theta, seen), purpose="critic"), POLICY)
        assert np.isfinite(found).all()
        assert not found[-8:].reshape(4, 2)[1].any()
        alike = np.repeat(seen[:1], 6, axis=0)
        still = distil(add(Memory(), rolled_out(theta, alike), purpose="critic"), POLICY)
        assert not still[-8:-2].any(), "only the constant is known"

    def test_readings_without_measure_leave_finite_parameters(self):
        theta = np.zeros(POLICY.size, np.float32)
        theta[-8:] = [9.0, 0, -9.0, 0, 0, 0, 0, 0]
        seen = np.full((6, 3), 1e38, np.float32)
        seen[::2] = 0
        path = make_trajectory(theta, seen, np.zeros((6, 2)), np.zeros(6), horizon=6)
        assert np.isfinite(distil(add(Memory(), path, purpose="critic"), POLICY)).all()


class TestTurn:
    def state_of(self, *rollouts, pending=()):
        memory = Memory()
        for purpose, earned in rollouts:
            path = make_trajectory([0.0, 0.0], [[0.0]], [[0.0]], [earned], horizon=3)
            memory = add(memory, path, purpose=purpose)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4)
        waiting = tuple(Proposal(99, np.zeros(2, np.float32), 0, purpose) for purpose in pending)
        return agent.state._replace(memory=memory, critic=begin(np.zeros(2, np.float32)), pending=waiting)

    leads = (*[("explore", 0.0)] * 4, *[("critic", 5.0)] * 4)

    def test_an_actor_that_clearly_leads_is_copied_once_in_a_while(self):
        assert wants_distilled(self.state_of(*self.leads), POLICY)
        assert not wants_distilled(self.state_of(*[("explore", 0.0)] * 4, *[("critic", 0.0)] * 4), POLICY)
        copied = (*self.leads, ("distilled", 1.0))
        for since, wanted in ((PAUSE - 1, False), (PAUSE, True)):
            rollouts = (*copied, *[("explore", 0.0)] * since)
            assert wants_distilled(self.state_of(*rollouts), POLICY) == wanted
        assert not wants_distilled(self.state_of(*copied, *[("noisy", 5.0)] * 30), POLICY), (
            "the search's count"
        )

    def test_an_actor_that_has_clearly_improved_since_is_copied_again(self):
        copied = (*self.leads, ("distilled", 1.0))
        assert wants_distilled(self.state_of(*copied, ("critic", 8.0), ("critic", 9.0)), POLICY)
        assert not wants_distilled(self.state_of(*copied, ("critic", 5.0), ("critic", 4.0)), POLICY)
        assert not wants_distilled(self.state_of(*copied, ("critic", 9.0)), POLICY), "one may be luck"

    def test_one_that_is_under_way_is_waited_for(self):
        assert not wants_distilled(self.state_of(*self.leads, pending=["distilled"]), POLICY)
        improved = self.state_of(
            *self.leads, ("distilled", 1.0), ("critic", 8.0), ("critic", 9.0), pending=["distilled"]
        )
        assert not wants_distilled(improved, POLICY)

    def test_there_is_none_without_a_critic_or_a_linear_path(self):
        state = self.state_of(*self.leads)
        assert not wants_distilled(state._replace(critic=None), POLICY)
        assert not wants_distilled(state, linear(1, 1))


@pytest.fixture(scope="module")
def agent():
    return ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=30)


def test_a_run_has_copies_that_count_as_the_searchs_own_and_move_the_linear_path_alone(agent):
    memory = agent.state.memory
    copies = [i for i, purpose in enumerate(memory.purposes) if purpose == "distilled"]
    assert copies, memory.purposes
    for i in copies:
        assert not memory.trajectories[i].theta[: -agent.policy.linear_params].any()
        before = agent.state._replace(
            memory=Memory(memory.trajectories[:i], memory.returns[:i], memory.longest, memory.purposes[:i]),
            steps=sum(trajectory.length for trajectory in memory.trajectories[:i]),
        )
        np.testing.assert_array_equal(
            propose(before, i, agent.policy, agent.config).theta, memory.trajectories[i].theta
        )
