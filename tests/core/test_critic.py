"""The critic: exact on worlds whose values are known, honest about ends, and no more costly than its share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddopg
from ddopg.config import CriticConfig
from ddopg.core import critic as critics
from ddopg.core.critic import td_target, update, value
from ddopg.core.memory import Memory, add
from ddopg.core.proposals import CRITIC_SHARES, critic_share
from ddopg.core.transitions import collect_transitions, deviation_of
from ddopg.core.types import make_trajectory
from ddopg.core.value_learning import MAX_UPDATES
from ddopg.policies import linear, mlp, squashed
from ddopg.support.records import change
from tests.probes import Follow
from tests.recorded import contents, quick

CONFIG = CriticConfig(updates=1.0, discount=0.9)
POLICY = squashed(linear(1, 1), (-1.0,), (1.0,))
LENGTH = 8


def step(state, action, border=1.0):
    """A walk on [−1, 1]: it pays to be in the middle, and it ends beyond the border on the right."""
    moved = state + 0.4 * action
    return np.clip(moved, -1.0, 1.0), -np.abs(state), moved > border


def play(theta, rng, border):
    """One episode of random actions."""
    state, rows = rng.uniform(-1, 1), []
    for _ in range(LENGTH):
        seen, action = np.array([state], np.float32), rng.uniform(-1, 1, 1).astype(np.float32)
        after, reward, ended = step(state, float(action[0]), border)
        rows.append((seen, action, reward))
        if ended:
            break
        state = float(after)
    seen, actions, rewards = (np.array(part) for part in zip(*rows, strict=True))
    return make_trajectory(theta, seen, actions, rewards, horizon=LENGTH, terminated=bool(ended))


def true_value(theta, state, action, discount, depth=60):
    """Q of the policy, by following it: an oracle in float64."""
    total, factor = 0.0, 1.0
    for _ in range(depth):
        after, reward, ended = step(state, action)
        total, factor = total + factor * reward, factor * discount
        if ended:
            break
        state, action = float(after), float(np.tanh(theta[0] * after + theta[1]))
    return total


def memory_of_random_actions(number, theta, border=1.0):
    rng, memory = np.random.default_rng(0), Memory()
    for _ in range(number):
        memory = add(memory, play(theta, rng, border))
    return memory


def begin(theta, config=CONFIG):
    return critics.init(jax.random.key(0), jnp.asarray(theta), 1, 1, config)


def judge(critic, memory, states, actions):
    """Q in the reward's own unit, the mean of both networks."""
    seen, rewards = (
        np.concatenate([getattr(t, name)[: t.length] for t in memory.trajectories]).astype(float)
        for name in ("observations", "rewards")
    )
    features = (np.asarray(states, float) - seen.mean()) / deviation_of(seen)
    both = jax.vmap(value, (0, None, None))(
        critic.networks,
        jnp.asarray(features, jnp.float32).reshape(-1, 1),
        jnp.asarray(actions, jnp.float32)[:, None],
    )
    return np.asarray(jnp.mean(both, axis=0)) * deviation_of(rewards)


@pytest.mark.usefixtures("compiled_well")
class TestValues:
    def test_a_target_is_the_reward_and_the_discounted_lesser_value_of_what_follows(self):
        found = td_target(
            jnp.array([1.0, 2.0]), jnp.array([False, True]), jnp.array([[5.0, 5.0], [3.0, 9.0]]), 0.5
        )
        assert found.tolist() == [1 + 0.5 * 3, 2.0]

    def test_it_learns_the_exact_values_of_a_fixed_policy_from_actions_of_others(self):
        """Random actions are all it sees; what the policy would do in their place is what it learns."""
        theta = np.array([-1.0, 0.3], np.float32)
        memory = memory_of_random_actions(150, theta)
        still = np.zeros(2, np.float32)  # the actor stays where it is
        critic = update(begin(theta), collect_transitions(memory), still, 1, 4000, POLICY, CONFIG)
        assert np.asarray(critic.actor).tolist() == theta.tolist()
        rng = np.random.default_rng(5)
        states, actions = rng.uniform(-0.9, 0.9, (2, 60))
        truth = np.array([true_value(theta, s, a, 0.9) for s, a in zip(states, actions, strict=True)])
        found = judge(critic, memory, states, actions)
        # The lesser of two values and the noise of the action after make it a little too low.
        assert np.std(found - truth) < 0.25 * np.std(truth)
        assert abs(np.mean(found - truth)) < 0.5 * np.std(truth)

    def test_nothing_follows_an_end_and_something_follows_a_time_limit(self):
        """The same −1 for ever, or one step in eight is the last: −1/(1 − γ) = −10, and −1/(1 − 7γ/8) = −4.7."""
        ones = np.ones((LENGTH, 1), np.float32)
        theta = np.zeros(2, np.float32)
        found = []
        for terminated in (False, True):
            path = make_trajectory(theta, ones, 0 * ones, -ones[:, 0], horizon=LENGTH, terminated=terminated)
            last = path._replace(observations=2 * path.observations)  # an episode of another place
            memory = add(add(Memory(), path), last._replace(rewards=0 * path.rewards))
            critic = update(begin(theta), collect_transitions(memory), 0 * theta, 1, 2000, POLICY, CONFIG)
            found.append(float(judge(critic, memory, [1.0], [0.0])[0]))
        without_end, with_end = found
        assert with_end == pytest.approx(-4.7, rel=0.15)
        assert without_end < -6, "on its way to −10, slowly"

    def test_padding_does_not_count(self):
        transitions = collect_transitions(memory_of_random_actions(20, np.zeros(2, np.float32)))
        steps = int(transitions.steps)
        odd = transitions._replace(
            features=transitions.features.at[steps:].set(1e6),
            rewards=transitions.rewards.at[steps:].set(-1e6),
        )
        theta, scale = np.zeros(2, np.float32), np.ones(2, np.float32)
        plain, padded = (update(begin(theta), t, scale, 1, 20, POLICY, CONFIG) for t in (transitions, odd))
        assert contents(plain) == contents(padded)


@pytest.mark.usefixtures("compiled_well")
class TestActor:
    def test_it_climbs_to_what_pays(self):
        """To stay in the middle one goes against the state: a gain far below zero."""
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(150, theta, border=np.inf))
        critic = update(begin(theta), transitions, np.ones(2, np.float32), 1, 1500, POLICY, CONFIG)
        gain, bias = np.asarray(critic.actor)
        assert gain < -1
        assert abs(bias) < 0.5 * abs(gain)

    def test_a_parameter_without_scale_stays(self):
        theta = np.array([0.1, 0.2], np.float32)
        transitions = collect_transitions(memory_of_random_actions(20, theta))
        critic = update(begin(theta), transitions, np.array([1.0, 0.0], np.float32), 1, 30, POLICY, CONFIG)
        assert critic.actor[1] == theta[1]
        assert critic.actor[0] != theta[0]

    def test_the_number_of_updates_compiles_nothing_anew(self):
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(20, theta))
        for number in (3, 4, 5):
            update(begin(theta), transitions, np.ones(2, np.float32), number, number, POLICY, CONFIG)
        before = update._cache_size()
        update(begin(theta), transitions, np.ones(2, np.float32), 6, 7, POLICY, CONFIG)
        assert update._cache_size() == before


def with_critic(**changes):
    small = {
        "critic.updates": 1.0,
        "critic.hidden": (8, 8),
        "policy.hidden": (3,),
        "policy.linear_path": True,
    }
    return change(quick(), small | changes)


class TestLearner:
    def test_it_proposes_policies_after_the_design_and_their_rollouts_are_told_apart(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=30)
        purposes = agent.state.memory.purposes
        assert len(purposes) == 30
        assert set(purposes[:8]) == {"design"}
        assert 3 <= purposes.count("critic") <= 20

    def test_without_updates_there_is_none_and_the_run_is_as_before(self):
        plain = ddopg.DDOPG(Follow(), config=quick(), seed=1).learn(total_episodes=12)
        assert plain.state.critic is None
        assert "critic" not in plain.state.memory.purposes

    def test_the_same_seed_gives_the_same_run_bit_for_bit(self):
        runs = [ddopg.DDOPG(Follow(), config=with_critic(), seed=4).learn(total_episodes=14) for _ in "ab"]
        assert contents(runs[0].state) == contents(runs[1].state)
        other = ddopg.DDOPG(Follow(), config=with_critic(), seed=5).learn(total_episodes=14)
        assert contents(other.state) != contents(runs[0].state)

    def test_trajectories_of_others_are_learnt_from_too(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4)
        rng = np.random.default_rng(0)
        for _ in range(8):
            shown = rng.uniform(-1, 1, (3, 1))
            agent.add(make_trajectory(None, shown, -shown, np.zeros(3), horizon=3))
        assert agent.state.critic is not None

    def test_without_any_step_whose_successor_is_known_there_is_nothing_to_learn(self):
        """Episodes that the clock ends after one step: who comes next in the arrays is somebody else."""
        agent = ddopg.DDOPG(
            observation_space=Follow().observation_space,
            action_space=Follow().action_space,
            horizon=1,
            config=with_critic(),
            seed=4,
        )
        for _ in range(9):
            agent.add(make_trajectory(None, [[0.5]], [[0.1]], [1.0], horizon=1))
        assert agent.state.critic is None

    def test_what_is_not_a_finite_number_leaves_the_critic_as_it_was(self, monkeypatch):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4).learn(total_episodes=9)
        before, real = agent.state.critic, critics.update
        monkeypatch.setattr(
            critics, "update", lambda *a: real(*a)._replace(actor=jnp.full(before.actor.shape, jnp.nan))
        )
        agent.learn(total_episodes=2)
        assert contents(agent.state.critic) == contents(before)

    def test_work_per_rollout_is_bounded(self, monkeypatch):
        asked = []
        real = critics.update

        def count(critic, transitions, scale, seed, number, *rest):
            asked.append(number)
            return real(critic, transitions, scale, seed, 1, *rest)

        monkeypatch.setattr(critics, "update", count)
        ddopg.DDOPG(Follow(), config=with_critic(**{"critic.updates": 2.0}), seed=4).learn(total_episodes=10)
        assert asked == [2 * 8 * 3, 2 * 3, 2 * 3], "the design at once, then each rollout"
        asked.clear()
        ddopg.DDOPG(Follow(), config=with_critic(**{"critic.updates": 1e9}), seed=4).learn(total_episodes=9)
        assert asked == [MAX_UPDATES] * 2


class TestShare:
    def state_of(self, **returns):
        purposes = [p for p, some in returns.items() for _ in some]
        values = [r for some in returns.values() for r in some]
        memory = Memory(returns=np.array(values, float), purposes=tuple(purposes))
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4)
        return agent.state._replace(memory=memory, critic=begin(np.zeros(2, np.float32)))

    def test_it_is_a_half_until_both_sources_were_tried_twice(self):
        assert critic_share(self.state_of(critic=[100.0], explore=[0.0, 0.0])) == 0.5

    def test_nonsense_costs_its_least_share_and_no_more(self):
        """A critic that is worse than the others, time and again, keeps a tenth of the rollouts."""
        assert (
            critic_share(self.state_of(critic=[-9.0, -8, -9, -10], explore=[1.0, 2, 1]))
            == min(CRITIC_SHARES)
            == 0.1
        )

    def test_success_brings_most_of_the_rollouts(self):
        assert critic_share(self.state_of(critic=[9.0, 8, 9], check=[1.0, 2, 1])) == max(CRITIC_SHARES)

    def test_equal_sources_share_equally_and_only_the_latest_count(self):
        assert critic_share(self.state_of(critic=[1.0, 2, 3], explore=[1.0, 2, 3])) == pytest.approx(0.5)
        old = [-1e6] * 5
        assert critic_share(
            self.state_of(critic=[*old, *range(8)], explore=[*old, *range(8)])
        ) == pytest.approx(0.5)

    def test_the_order_of_two_sources_with_a_known_lead(self):
        """Means 1 and 0, variances 2 each, two rollouts each: Φ(1/√2)."""
        share = critic_share(self.state_of(critic=[0.0, 2.0], explore=[-1.0, 1.0]))
        assert share == pytest.approx(0.7602, abs=1e-4)


def test_networks_of_the_users_own_size_and_policies_without_bounds_work():
    policy, config = mlp(2, 2, (3,)), CriticConfig(updates=1.0, hidden=(5,))
    rng, memory = np.random.default_rng(0), Memory()
    theta = rng.standard_normal(policy.size).astype(np.float32)
    seen = rng.standard_normal((6, 2)).astype(np.float32)
    memory = add(
        memory,
        make_trajectory(theta, seen, policy.act(theta, seen), rng.standard_normal(6), horizon=6),
    )
    start = critics.init(jax.random.key(0), jnp.asarray(theta), 2, 2, config)
    scale = np.ones(policy.size, np.float32)
    found = update(start, collect_transitions(memory), scale, 1, 9, policy, config)
    assert np.isfinite(found.actor).all()
    assert [weights.shape for weights, _ in found.networks] == [(2, 4, 5), (2, 5, 1)]
