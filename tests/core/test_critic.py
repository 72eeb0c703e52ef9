"""The critic: exact on worlds whose values are known, honest about ends, and no more costly than its share."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import ddopg
from ddopg.config import CriticConfig
from ddopg.controllers import Parameter, controller
from ddopg.core import critic as critics
from ddopg.core import proposals
from ddopg.core.algorithm import ask, build_surrogate_data
from ddopg.core.critic import both_values, log_density, rescale, td_target, update
from ddopg.core.incumbents import find_best, hand_over
from ddopg.core.memory import Memory, add
from ddopg.core.proposals import PLAIN_AT_FIRST, propose
from ddopg.core.sharing import (
    EXPERIENCED,
    JUDGED_WINDOW,
    LEAST_SHARE,
    SEARCH_KEEPS,
    SHARE_BESIDE_PROGRESS,
    YOUNG,
    critic_share,
    is_turn_of_critic,
    lead_of_actor,
    makes_progress,
    needs_check,
    probability_of_lead,
    search_keeps,
)
from ddopg.core.state import Incumbent, Proposal
from ddopg.core.transitions import LARGEST, collect_transitions
from ddopg.core.types import make_trajectory
from ddopg.core.value_learning import (
    EARLY_GAIN,
    EARLY_UPDATES,
    MAX_UPDATES,
    count_updates,
    has_critic,
    within_episode,
)
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


def quiet(critic):
    """The same, its actor without noise to speak of and without pay for entropy."""
    actor = critic.actor._replace(log_std=jnp.full(1, -4.0), log_temperature=jnp.float32(-30))
    return critic._replace(actor=actor)


@pytest.fixture
def still(monkeypatch):
    """The actor stays where it is but for one step."""
    monkeypatch.setattr(critics, "ACTOR_EVERY", 10**9)
    update.clear_cache()
    yield
    update.clear_cache()


def judge(critic, memory, states, actions):
    """Q in the reward's own unit, the mean of both networks."""
    seen = np.concatenate([t.observations[: t.length] for t in memory.trajectories]).astype(float)
    features = (np.asarray(states, float) - seen.mean()) / (seen.std() or 1.0)
    both = both_values(
        critic.networks,
        jnp.asarray(features, jnp.float32).reshape(-1, 1),
        jnp.asarray(actions, jnp.float32)[:, None],
    )
    return (np.asarray(jnp.mean(both, axis=0)) + float(critic.zero)) * math.exp(critic.log_scale)


@pytest.mark.usefixtures("compiled_well")
class TestValues:
    def test_a_target_is_the_reward_and_the_discounted_lesser_value_and_bonus_of_what_follows(self):
        found = td_target(
            jnp.array([1.0, 2.0]),
            jnp.array([False, True]),
            jnp.array([[5.0, 5.0], [3.0, 9.0]]),
            jnp.array([0.5, 0.5]),
            0.5,
        )
        assert found.tolist() == [1 + 0.5 * 3.5, 2.0]

    @pytest.mark.usefixtures("still")
    def test_it_learns_the_exact_values_of_a_fixed_policy_from_actions_of_others(self):
        """Random actions are all it sees; what the policy would do in their place is what it learns."""
        theta = np.array([-1.0, 0.3], np.float32)
        memory = memory_of_random_actions(150, theta)
        critic = update(quiet(begin(theta)), collect_transitions(memory, 0.9), 1, 4000, POLICY, CONFIG)
        np.testing.assert_allclose(critic.actor.theta, theta, atol=0.01)
        rng = np.random.default_rng(5)
        states, actions = rng.uniform(-0.9, 0.9, (2, 60))
        truth = np.array([true_value(theta, s, a, 0.9) for s, a in zip(states, actions, strict=True)])
        found = judge(critic, memory, states, actions)
        # The lesser of two values makes it a little too low.
        assert np.std(found - truth) < 0.25 * np.std(truth)
        assert abs(np.mean(found - truth)) < 0.5 * np.std(truth)

    @pytest.mark.usefixtures("still")
    def test_nothing_follows_an_end_and_something_follows_a_time_limit(self):
        """The same −1 for ever, or one step in eight is the last: −1/(1 − γ) = −10, and −1/(1 − 7γ/8) = −4.7."""
        ones = np.ones((LENGTH, 1), np.float32)
        theta = np.zeros(2, np.float32)
        found = []
        for terminated in (False, True):
            path = make_trajectory(theta, ones, 0 * ones, -ones[:, 0], horizon=LENGTH, terminated=terminated)
            last = path._replace(observations=2 * path.observations)  # an episode of another place
            memory = add(add(Memory(), path), last._replace(rewards=0 * path.rewards))
            critic = update(quiet(begin(theta)), collect_transitions(memory, 0.9), 1, 2000, POLICY, CONFIG)
            found.append(float(judge(critic, memory, [1.0], [0.0])[0]))
        without_end, with_end = found
        assert with_end == pytest.approx(-4.7, rel=0.15)
        assert without_end < -7, "on its way to −10, slowly"

    def test_a_density_is_one_over_all_actions(self):
        """π(a) of a = tanh(u), integrated over the actions by a fine sum."""
        log_std, mean = jnp.array([0.3]), 0.7
        u = jnp.linspace(-6.0, 6.0, 20_001)[:, None]
        actions, slope = jnp.tanh(u), 1 - jnp.tanh(u) ** 2
        density = jnp.exp(log_density((u - mean) / math.exp(0.3), log_std, slope))
        assert float(jnp.trapezoid(density, actions[:, 0])) == pytest.approx(1.0, abs=1e-3)

    def test_other_units_change_no_value(self):
        before = begin(np.zeros(2, np.float32))
        before = before._replace(log_scale=jnp.float32(0.3), zero=jnp.float32(2.0))
        after = rescale(before, jnp.float32(1.7), jnp.float32(-3.0))
        seen, acted = jnp.array([[0.1], [-2.0]]), jnp.array([[0.5], [0.2]])
        for networks in ("networks", "targets"):
            one, other = (
                (both_values(getattr(c, networks), seen, acted) + c.zero) * jnp.exp(c.log_scale)
                for c in (before, after)
            )
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

    def test_an_observation_far_from_all_others_is_cut(self):
        seen = jnp.array([[3.0, 1e9], [7.0, -1e9]])
        features = critics.standardise(seen, jnp.array([5.0, 1.0]), jnp.array([4.0, 2.0]))
        assert features.tolist() == [[-0.5, LARGEST], [0.5, -LARGEST]]

    def test_padding_does_not_count(self):
        transitions = collect_transitions(memory_of_random_actions(20, np.zeros(2, np.float32)), 0.9)
        steps = int(transitions.steps)
        odd = transitions._replace(
            observations=transitions.observations.at[steps:].set(1e6),
            rewards=transitions.rewards.at[steps:].set(-1e6),
        )
        theta = np.zeros(2, np.float32)
        plain, padded = (update(begin(theta), t, 1, 20, POLICY, CONFIG) for t in (transitions, odd))
        assert contents(plain) == contents(padded)


@pytest.mark.usefixtures("compiled_well")
class TestActor:
    def test_it_climbs_to_what_pays(self):
        """To stay in the middle one goes against the state: a gain far below zero."""
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(150, theta, border=np.inf), 0.9)
        critic = update(begin(theta), transitions, 1, 3000, POLICY, CONFIG)
        gain, bias = np.asarray(critic.actor.theta)
        assert gain < -1
        assert abs(bias) < 0.5 * abs(gain)

    def test_its_average_is_of_a_twentieth_of_its_updates(self):
        """Rounds of one update each. The oracle adds up in float64; all rollouts are known from the start, so units
        do not change meanwhile."""
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(20, theta), 0.9)
        critic, average = begin(theta), np.zeros(2)
        for number in range(1, 61):
            critic = update(critic, transitions, number, 1, POLICY, CONFIG)
            average += (np.asarray(critic.actor.theta, np.float64) - average) / max(0.05 * number, 1)
            assert critic.actor_updates == number
            np.testing.assert_allclose(critic.average, average, atol=1e-5)
        assert not np.allclose(critic.average, critic.actor.theta, atol=1e-3)

    def test_the_price_of_entropy_rises_where_there_is_too_little_of_it_and_falls_where_there_is_too_much(
        self,
    ):
        """−1 per action is sought; a normal density has ½ log(2πe σ²): −1.6 for σ = e⁻³, and 0.7 for σ = e^−0.7."""
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(20, theta), 0.9)
        first = begin(theta)
        for log_std, sign in ((-3.0, 1), (-0.7, -1)):
            odd = first._replace(actor=first.actor._replace(log_std=jnp.full(1, log_std)))
            found = update(odd, transitions, 1, 20, POLICY, CONFIG)
            assert np.sign(found.actor.log_temperature - first.actor.log_temperature) == sign

    def test_the_number_of_updates_compiles_nothing_anew(self):
        theta = np.zeros(2, np.float32)
        transitions = collect_transitions(memory_of_random_actions(20, theta), 0.9)
        for number in (3, 4, 5):
            update(begin(theta), transitions, number, number, POLICY, CONFIG)
        before = update._cache_size()
        update(begin(theta), transitions, 6, 7, POLICY, CONFIG)
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
        assert set(purposes[:8]) == {"design"}, "the actor would take the steps that show the task"
        assert purposes.count("design") == 8
        turns = [purpose for purpose in purposes if purpose in ("critic", "noisy")]
        assert 8 <= len(turns) <= 20
        later = ["noisy", "noisy", "critic"] + ["noisy", "noisy", "noisy", "critic"] * 3
        assert turns == (["critic", "noisy"] * 8 + later)[: len(turns)], "in turns with noise and without"

    def test_later_three_of_four_rollouts_of_the_actor_have_noise(self, monkeypatch):
        monkeypatch.setattr(proposals, "is_turn_of_critic", lambda state: True)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=8 + PLAIN_AT_FIRST)
        first, state = agent.state.memory.purposes[8:], agent.state
        assert first == ("critic", "noisy") * (PLAIN_AT_FIRST // 2)
        state, asked = ask(state, agent.policy, agent.config, 11)  # those that are under way count
        assert [one.purpose for one in asked] == ["noisy"] * 2 + ["critic"] + (["noisy"] * 3 + ["critic"]) * 2
        assert all(bool(one.noise) == (one.purpose == "noisy") for one in asked)

    def test_the_average_of_the_actor_is_rolled_out_as_it_is_and_the_actor_of_now_with_noise(
        self, monkeypatch
    ):
        monkeypatch.setattr(proposals, "is_turn_of_critic", lambda state: True)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=10)
        state = agent.state
        state = state._replace(critic=state.critic._replace(average=state.critic.average + 1))
        for _, one in zip(range(4), ask(state, agent.policy, agent.config, 4)[1], strict=True):
            played = state.critic.actor.theta if one.noise else state.critic.average
            np.testing.assert_array_equal(one.theta, played)

    def test_a_record_with_noise_is_followed_by_a_rollout_without(self, monkeypatch):
        """What the actor has become is handed over sooner."""
        monkeypatch.setattr(proposals, "is_turn_of_critic", lambda state: True)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(
            total_episodes=8 + PLAIN_AT_FIRST + 1
        )
        state = agent.state
        assert state.memory.purposes[-3:] == ("critic", "noisy", "noisy"), (
            "two of three with noise are played"
        )
        for newest, purposes in ((1e9, ["critic", "noisy"]), (-1e9, ["noisy", "critic"])):
            returns = np.append(state.memory.returns[:-1], newest)
            changed = state._replace(memory=state.memory._replace(returns=returns))
            asked = ask(changed, agent.policy, agent.config, 2)[1]
            assert [one.purpose for one in asked] == purposes

    def test_the_search_learns_from_its_own_rollouts_alone(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=20)
        surrogate = build_surrogate_data(agent.state, agent.policy, agent.config)
        purposes = [agent.state.memory.purposes[i] for i in surrogate.sample.selection.indices]
        assert {"critic", "noisy"} < set(agent.state.memory.purposes)
        assert len(purposes) >= 5
        assert not {"critic", "noisy"} & set(purposes)

    def test_a_rollout_of_the_critic_moves_no_search(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1)
        moved = dict[str, set[bool]]()
        while agent.state.memory.size < 40:
            before = agent.state.centre
            info = agent.learn(total_episodes=1) and agent.state.memory.purposes[-1]
            moved.setdefault(info, set()).add(not np.array_equal(before, agent.state.centre))
        assert moved["noisy"] == moved["critic"] == {False}
        assert True in moved["explore"]

    def test_the_search_moves_the_linear_path_and_leaves_the_network_to_the_actor(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=1).learn(total_episodes=24)
        state, linear_params = agent.state, agent.policy.linear_params
        for path, purpose in zip(state.memory.trajectories, state.memory.purposes, strict=True):
            network = path.theta[:-linear_params]
            assert network.any() == (purpose in ("critic", "noisy")), purpose

    def test_declared_parameters_and_a_memory_are_left_to_the_search(self):
        gain = controller([Parameter("gain", 1.0, scale=1.0)], lambda p, o: [p["gain"] * o[0]], 1, 1)
        assert has_critic(POLICY, with_critic())
        assert not has_critic(gain, with_critic())
        assert not has_critic(POLICY, quick())

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
        monkeypatch.setattr(critics, "update", lambda *a: real(*a)._replace(zero=jnp.float32(jnp.nan)))
        agent.learn(total_episodes=2)
        assert contents(agent.state.critic) == contents(before)

    def test_nonsense_costs_its_share_of_rollouts_and_is_never_handed_over(self, monkeypatch):
        """An actor that always goes the wrong way: the search goes on beside it, and what it finds is handed over."""
        real = critics.update

        def mislead(*arguments):
            critic = real(*arguments)
            wrong = jnp.zeros_like(critic.actor.theta).at[-2:].set(jnp.array([-9.0, 9.0]))
            return critic._replace(actor=critic.actor._replace(theta=wrong), average=wrong)

        monkeypatch.setattr(critics, "update", mislead)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=2).learn(total_episodes=70)
        state = agent.state
        bad = max(
            r for r, p in zip(state.memory.returns, state.memory.purposes, strict=True) if p == "critic"
        )
        assert state.incumbent.value > bad
        pairs = zip(state.memory.trajectories, state.memory.purposes, strict=True)
        of_critic = [t.theta.tolist() for t, purpose in pairs if purpose in ("critic", "noisy")]
        assert state.incumbent.theta.tolist() not in of_critic
        late = state.memory.purposes[24:]
        assert sum(purpose in ("critic", "noisy") for purpose in late) <= 0.15 * len(late)

    def test_work_per_rollout_is_bounded(self, monkeypatch):
        asked = []
        real = critics.update

        def count(critic, transitions, seed, number, *rest):
            asked.append(number)
            return real(critic, transitions, seed, 1, *rest)

        monkeypatch.setattr(critics, "update", count)
        ddopg.DDOPG(Follow(), config=with_critic(**{"critic.updates": 2.0}), seed=4).learn(total_episodes=6)
        assert asked == [8 * 4 * 3, 8 * 3, 8 * 3], "the constant policies at once, then each rollout"
        asked.clear()
        ddopg.DDOPG(Follow(), config=with_critic(**{"critic.updates": 1e9}), seed=4).learn(total_episodes=5)
        assert asked == [MAX_UPDATES] * 2

    def test_there_are_more_updates_per_step_while_data_are_few(self):
        """Four times as many at first, as many as are asked for in the end, and falling between."""
        assert count_updates(10, EARLY_UPDATES // 64, 1.0) == EARLY_GAIN * 10
        assert count_updates(10, EARLY_UPDATES // 4, 1.0) == 4 * 10
        assert count_updates(10, EARLY_UPDATES, 1.0) == 10
        assert count_updates(10, EARLY_UPDATES, 2.0) == 2 * 10
        assert count_updates(10, EARLY_UPDATES, 0.5) == 10, "few updates per step are made up for longer"

    @pytest.mark.parametrize(
        ("horizon", "discount"), [(50, 0.98), (199, 1 - 1 / 199), (1000, 0.995), (1, 0.5)]
    )
    def test_the_critic_looks_no_further_ahead_than_an_episode_lasts(self, horizon, discount):
        config = CriticConfig(updates=1.0, discount=0.995)
        assert within_episode(config, horizon).discount == pytest.approx(discount)
        assert within_episode(config, horizon).updates == config.updates

    def test_rounds_learn_with_that_discount(self, monkeypatch):
        """Episodes of three steps."""
        used = set()
        real = critics.update

        def note(critic, transitions, seed, number, policy, config):
            used.add(config.discount)
            return real(critic, transitions, seed, 1, policy, config)

        monkeypatch.setattr(critics, "update", note)
        ddopg.DDOPG(Follow(), config=with_critic(), seed=4).learn(total_episodes=9)
        assert used == {1 - 1 / 3}


class TestShare:
    def state_of(self, **returns):
        """The state after some rollouts of one step each, random policies first."""
        returns = {"random": [0.0] * 20} | returns
        purposes = tuple(purpose for purpose, some in returns.items() for _ in some)
        values = np.array([earned for some in returns.values() for earned in some])
        path = make_trajectory([0.0, 0.0], [[0.0]], [[0.0]], [0.0], horizon=3)
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4)
        return agent.state._replace(
            memory=Memory((path,) * len(values), values, 1, purposes),
            critic=begin(np.zeros(2, np.float32)),
            steps=len(values),
        )

    def test_a_search_that_stays_behind_keeps_ever_less_of_the_steps(self):
        """Paths of one step, of three at most: the clock counts steps, not rollouts."""
        for rollouts, kept in ((30, 1), (3 * EXPERIENCED, 1), (6 * EXPERIENCED, 0.5), (999, 0)):
            state = self.state_of(random=[0.0] * (rollouts - 16), check=[1.0] * 8, critic=[9.0] * 8)
            expected = max(kept * SEARCH_KEEPS, LEAST_SHARE)
            assert search_keeps(state) == pytest.approx(expected)
            assert critic_share(state) == pytest.approx(1 - expected)

    def test_both_have_a_half_while_the_search_or_the_actor_is_young(self):
        ahead = {"check": [1.0, 2, 1], "critic": [9.0] * YOUNG}
        for others, share in ((YOUNG - 4, 0.5), (YOUNG - 3, 1 - SEARCH_KEEPS)):
            assert critic_share(self.state_of(design=[0.0] * 8, random=[0.0] * others, **ahead)) == share
        for rollouts, share in ((YOUNG - 1, 0.5), (YOUNG, LEAST_SHARE)):
            behind = {
                "design": [9.0] * 4,
                "check": [9.0] * 4,
                "critic": [1.0] * 2,
                "noisy": [1.0] * (rollouts - 2),
            }
            assert critic_share(self.state_of(**behind)) == share

    def test_trajectories_that_were_added_take_the_place_of_the_design(self):
        added = {"random": [], "added": [0.0] * 6, "explore": [1.0] * 4}
        assert makes_progress(self.state_of(**added).memory)
        assert not makes_progress(self.state_of(**added | {"explore": [-1.0] * 4}).memory)
        actor = {"critic": [9.0] * YOUNG}
        assert critic_share(self.state_of(**added, **actor)) == 0.5, "four rollouts of its own"
        assert critic_share(self.state_of(**added | {"explore": [-1.0] * YOUNG}, **actor)) == 1 - SEARCH_KEEPS

    def test_what_a_source_reaches_counts_and_not_what_it_tries_in_vain(self):
        state = self.state_of(critic=[0.0, 9] * 4, check=[5.0] * 8)
        assert lead_of_actor(state.memory) > 0.95
        assert probability_of_lead(*map(np.array, ([0.0, 9] * 4, [5.0] * 8))) == 0.5

    def test_it_is_a_half_until_both_were_rolled_out_twice_without_noise(self):
        assert critic_share(self.state_of(critic=[100.0], check=[0.0, 0.0])) == 0.5
        assert critic_share(self.state_of(critic=[100.0, 90.0], check=[0.0], explore=[0.0])) == 0.5

    def test_perturbed_policies_stand_for_the_average_before_it_was_rolled_out_twice_and_the_design_for_those(
        self,
    ):
        state = self.state_of(critic=[-1.0, 1.0], check=[99.0], explore=[0.0, 2.0], design=[99.0] * 4)
        assert lead_of_actor(state.memory) == pytest.approx(1 - 0.7807, abs=1e-4)
        state = self.state_of(critic=[-1.0, 1.0], check=[99.0], explore=[99.0], design=[0.0, 2.0])
        assert lead_of_actor(state.memory) == pytest.approx(1 - 0.7807, abs=1e-4)

    def test_perturbed_policies_say_nothing_of_the_average(self):
        state = self.state_of(critic=[1.0, 2, 3], check=[1.0, 2, 3], explore=[-99.0] * 9)
        assert lead_of_actor(state.memory) == pytest.approx(0.5)

    def test_a_quick_learner_is_judged_by_its_rollouts_with_noise_too(self):
        """Its two rollouts without noise are of long ago, and one with noise shows what it can do now."""
        before = {"design": [-1400.0, -1500, -1100, -1600], "critic": [-1574.0, -1412]}
        assert lead_of_actor(self.state_of(**before).memory) < 0.35
        lately = self.state_of(**before, noisy=[-512.0])
        assert lead_of_actor(lately.memory) == pytest.approx(
            probability_of_lead(*map(np.array, ([-1412.0, -512], [-1400.0, -1100])))
        )

    @pytest.mark.parametrize("purpose", ["explore", "check"])
    def test_a_search_that_makes_progress_keeps_most_of_the_steps_from_an_actor_that_seems_better(
        self, purpose
    ):
        leading = {"design": [0.0] * 8, "critic": [99.0, 99, *[-99.0] * 4]}
        for returns in ([1.0] * 4, [5.0] * 8 + [6.0] * 8):
            assert critic_share(self.state_of(**leading, **{purpose: returns})) == SHARE_BESIDE_PROGRESS
        for returns in ([1.0] * 3, [-1.0] * 4, [5.0] * 16, [5.0] * 8 + [4.0] * 4 + [6.0] * 4):
            state = self.state_of(**leading, **{purpose: returns})
            assert critic_share(state) == min(lead_of_actor(state.memory), 1 - SEARCH_KEEPS) > 0.6

    def test_a_search_that_makes_progress_does_not_hold_up_an_actor_that_is_surely_better(self):
        leading = {"design": [0.0] * 8, "critic": [99.0] * 6}
        assert critic_share(self.state_of(**leading, explore=[5.0] * 8 + [6.0] * 8)) == 1 - SEARCH_KEEPS

    def test_an_actor_that_has_learnt_gets_most_of_the_steps_beside_a_search_that_stands_still(self):
        """It is far behind, but it gains from steps, and the search had its chance and does not."""
        late = {"random": [0.0] * 3 * EXPERIENCED}
        standing, learning = {"check": [9.0] * 8}, {"noisy": [0.0, 1, 0, 1, 3, 4, 3, 4], "critic": [4.0, 5]}
        state = self.state_of(**late, **standing, **learning)
        assert lead_of_actor(state.memory) < 0.05
        assert critic_share(state) == 1 - search_keeps(state) > 0.65
        assert critic_share(self.state_of(**standing, **learning)) == LEAST_SHARE, "so early the search leads"
        for vain in ([4.0, 5, 3, 4, 1, 0, 1, 0], [4.0] * 8, [0.0, 4] * 4):
            state = self.state_of(**late, **standing, **learning | {"noisy": vain})
            assert critic_share(state) == LEAST_SHARE
        progress = {"check": [6.0] * 8 + [9.0] * 8}
        state = self.state_of(**late, **progress, **learning)
        assert critic_share(state) == LEAST_SHARE, "the search learns, too"

    def test_of_a_source_that_is_seldom_rolled_out_the_last_two_rollouts_speak(self):
        long_ago = {"critic": [-9.0] * 6 + [9.0] * 2, "explore": [0.0] * JUDGED_WINDOW, "check": [0.0] * 8}
        assert critic_share(self.state_of(**long_ago)) == pytest.approx(
            1 - search_keeps(self.state_of(**long_ago))
        )
        lately = long_ago | {"explore": [0.0]}
        assert lead_of_actor(self.state_of(**lately).memory) == pytest.approx(0.5), "two of its better four"

    def test_nonsense_costs_its_least_share_and_no_more(self):
        """A critic that is worse than the search, time and again, keeps a tenth of the steps."""
        state = self.state_of(critic=[-9.0, -8, -9, -10, -9, -8], check=[1.0, 2, 1])
        assert critic_share(state) == LEAST_SHARE == 0.1

    def test_success_brings_most_of_the_steps(self):
        assert critic_share(self.state_of(critic=[9.0, 8, 9] * 2, check=[1.0, 2, 1])) == 1 - SEARCH_KEEPS

    def test_equal_learners_share_equally_and_only_the_latest_count(self):
        state = self.state_of(critic=[-1e6, *range(7, -1, -1)], check=[1e6, *range(7, -1, -1)])
        assert critic_share(state) == pytest.approx(0.5)

    def test_it_is_the_chance_of_a_known_lead(self):
        """One of four pairs: Φ((1 − 2) / √(4 · 5 / 12)); SciPy has the same statistic."""
        actor, average = [-1.0, 1.0], [0.0, 2.0]
        share = lead_of_actor(self.state_of(critic=actor, check=average).memory)
        assert share == pytest.approx(1 - 0.7807, abs=1e-4)
        test = mannwhitneyu(actor, average, alternative="greater", use_continuity=False, method="asymptotic")
        assert share == pytest.approx(1 - test.pvalue)

    def test_one_very_high_return_is_one_rank(self):
        plain, high = (
            self.state_of(critic=[3.0, 2, 2, 2, 2, top], check=[1.0, 2, 1]) for top in (4.0, 1e300)
        )
        assert critic_share(high) == critic_share(plain) == 1 - SEARCH_KEEPS

    def test_steps_are_shared_and_not_rollouts(self):
        """One long rollout of the actor has cost as much as thirty of the search that failed at once."""
        state = self.state_of(random=[], explore=[0.0] * 10, critic=[1.0], random_=[0.0])
        assert is_turn_of_critic(state), "one step of twelve"
        long = make_trajectory([0.0, 0.0], np.zeros((30, 1)), np.zeros((30, 1)), np.zeros(30), horizon=30)
        paths = list(state.memory.trajectories)
        paths[10] = long
        memory = state.memory._replace(trajectories=tuple(paths))
        assert not is_turn_of_critic(state._replace(memory=memory)), "thirty steps of forty-one"

    def test_what_was_rolled_out_long_ago_is_neither_owed_nor_paid(self):
        """Eight rollouts of the actor in a row do not keep it waiting for eight of the search, nor the reverse."""
        after_many = self.state_of(random=[], explore=[0.0] * 8, critic=[0.0] * 8, check=[0.0] * 4)
        assert is_turn_of_critic(after_many)
        evenly = self.state_of(random=[0.0] * 40, noisy=[0.0] * 4)
        assert not is_turn_of_critic(evenly)

    def test_rollouts_under_way_count_as_average_ones(self):
        state = self.state_of(random=[], explore=[0.0] * 10)
        assert is_turn_of_critic(state)
        waiting = Proposal(99, np.zeros(2, np.float32), 0, "noisy")
        assert is_turn_of_critic(state._replace(pending=(waiting,) * 3))
        assert not is_turn_of_critic(state._replace(pending=(waiting,) * 5))

    def test_an_actor_that_is_surely_behind_costs_no_checks(self):
        """Not above even perturbed policies: there is nothing to decide."""
        config = with_critic(**{"incumbent.recheck_share": 0.9})
        policy = ddopg.DDOPG(Follow(), config=config).policy
        for actor, purpose in (([-9.0] * 6, "explore"), ([0.0] * 6, "check")):
            state = self.state_of(explore=[0.0] * 6, check=[1.0] * 2, critic=actor, noisy=[-9.0] * 2)
            pending = (
                Proposal(99, np.zeros(2, np.float32), 0, "noisy"),
            ) * 6  # so it is the turn of the search
            state = state._replace(
                pending=pending,
                centre=np.zeros(policy.size, np.float32),
                ema_params=np.zeros(policy.size, np.float32),
                param_sensitivity=np.ones(policy.size),
            )
            assert needs_check(state) == (purpose == "check")
            seen = {
                propose(state, k, policy, change(config, {"exploration.random": 0.0})).purpose
                for k in range(200, 220)
            }
            assert seen == {purpose}

    def test_the_average_is_rolled_out_in_turn(self):
        agent = ddopg.DDOPG(Follow(), config=with_critic(**{"incumbent.recheck_share": 0.25}), seed=1)
        agent.learn(total_episodes=70)
        purposes = [p for p in agent.state.memory.purposes if p in ("explore", "check")]
        assert purposes[:4] == ["explore", "explore", "explore", "check"]
        assert 2 <= purposes.count("check") <= len(purposes) / 4

    def test_checks_that_were_not_needed_for_long_are_not_made_up_for(self, monkeypatch):
        """They were: a search on mountaincar did not perturb its policy for 25 rollouts."""
        config = with_critic(**{"incumbent.recheck_share": 0.25, "exploration.random": 0.0})
        policy = ddopg.DDOPG(Follow(), config=config).policy
        state = self.state_of(design=[0.0] * 8, critic=[0.0] * 8, explore=[0.0] * 40)._replace(
            ema_params=np.zeros(policy.size, np.float32), param_sensitivity=np.ones(policy.size)
        )
        monkeypatch.setattr("ddopg.core.proposals.is_turn_of_critic", lambda state: False)
        purposes = []
        for number in range(24):
            purposes.append(propose(state, number, policy, config).purpose)
            waiting = Proposal(number, np.zeros(2, np.float32), 0, purposes[-1])
            state = state._replace(pending=(*state.pending, waiting))
        assert purposes[:8] == ["check", "check", *["explore"] * 6], "a quarter"
        assert purposes[8:].count("check") == 4


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
    found = update(start, collect_transitions(memory, 0.9), 1, 9, policy, config)
    assert np.isfinite(found.actor.theta).all()
    assert [weights.shape for weights, _ in found.networks] == [(2, 5, 4), (2, 1, 5)]


class TestHandingOver:
    def memory_of(self, *rollouts):
        memory = Memory()
        for k, (purpose, earned) in enumerate(rollouts):
            path = make_trajectory([float(k), 0.0], [[0.0]], [[0.0]], [earned], horizon=3)
            memory = add(memory, path, purpose=purpose)
        return memory

    def test_two_rollouts_without_noise_are_needed(self):
        assert find_best(self.memory_of(("critic", 1.0), ("noisy", 9.0), ("explore", 9.0)), "critic") is None
        found = find_best(self.memory_of(("critic", 1.0), ("noisy", 9.0), ("critic", 3.0)), "critic")
        assert found.theta[0] == 2, "the better of both"
        assert found.value == pytest.approx(2 - np.sqrt(2) / np.sqrt(2)), "the mean less a standard error"

    def test_an_actor_that_gets_better_is_followed(self):
        memory = self.memory_of(*(("critic", float(k)) for k in range(20)))
        assert find_best(memory, "critic").theta[0] == 19

    def test_a_decline_is_not_followed(self):
        good, bad = [100.0, 101, 99, 100, 101], [50.0, 49, 51, 50, 49, 51]
        memory = self.memory_of(*(("critic", earned) for earned in (*good, *bad)))
        assert find_best(memory, "critic").theta[0] < len(good)

    def test_a_newer_policy_that_is_as_good_but_for_luck_is_preferred(self):
        """100 five times, then 99.4 on average with a spread of 2: within a standard error."""
        returns = [100.0] * 5 + [98.0, 102, 97, 101, 99] * 2
        assert find_best(self.memory_of(*(("critic", v) for v in returns)), "critic").theta[0] == 13

    def test_equal_returns_are_no_trouble(self):
        """The mean of equal numbers is rounded, and may lie above all of them."""
        memory = self.memory_of(*[("critic", 0.0)] * 6)
        for k in range(1, 300):
            equal = memory._replace(returns=np.array([-3.0, *[1 / k] * 5]))
            assert find_best(equal, "critic").value < 1 / k

    def test_one_lucky_rollout_does_not_rule(self):
        """Thirty once, among zeros, and then tens: the tens are better."""
        returns = [0.0, 0, 0, 30, 0, 0, 0, *[10.0] * 12]
        assert find_best(self.memory_of(*(("critic", v) for v in returns)), "critic").theta[0] >= 7

    def test_of_policies_that_are_as_good_the_newest_is_handed_over(self):
        """A hundredth of the range does not matter, however little the returns scatter; more than that does."""
        returns = [300.0, *[9360.0] * 4, *[9350.0] * 4]
        assert find_best(self.memory_of(*(("critic", v) for v in returns)), "critic").theta[0] == 8
        lower = [300.0, *[9360.0] * 12, *[9000.0] * 2]
        assert find_best(self.memory_of(*(("critic", v) for v in lower)), "critic").theta[0] < 13

    def test_what_the_policy_has_become_since_stands_for_its_newest_rollout(self):
        now = np.array([77.0, 0.0], np.float32)
        better = self.memory_of(*(("check", float(k)) for k in range(6)))
        assert find_best(better, "check", now).theta[0] == 77
        assert find_best(better, "check", now).value == find_best(better, "check").value
        worse = self.memory_of(*(("check", v) for v in (100.0, 101, 100, 50, 49, 50)))
        assert find_best(worse, "check", now).theta[0] < 3, "a decline is not followed"

    @pytest.mark.parametrize(
        ("estimate", "check", "critic", "handed_over"),
        [
            (4.0, [6.0] * 3, 5.0, 77),
            (9.0, [6.0, 6, 6, 2, 2], 5.0, 2),
            (4.0, [5.0] * 3, 6.0, 5),
            (6.0, [3.0] * 3, 4.0, 5),
        ],
        ids=["average", "average of before", "actor", "a hopeful estimate is not believed"],
    )
    def test_the_better_of_average_and_actor_is_handed_over(self, estimate, check, critic, handed_over):
        state = self.state_of(estimate, check=check, critic=[critic] * 3)
        found = hand_over(state)
        assert found.incumbent.theta[0] == handed_over
        assert found.searched is state.searched

    def state_of(self, estimate, **returns):
        rollouts = [(purpose, value) for purpose, values in returns.items() for value in values]
        agent = ddopg.DDOPG(Follow(), config=with_critic(), seed=4)
        return agent.state._replace(
            memory=self.memory_of(*rollouts),
            critic=begin(np.zeros(2, np.float32)),
            searched=Incumbent(np.full(2, 77.0, np.float32), estimate),
        )

    def test_beside_an_actor_that_is_surely_behind_the_search_hands_over_its_average_of_now(self):
        """Checks of long ago hold it back no more, and what they have shown still counts."""
        checks = [6.0, 6, 6, 2, 2]
        state = self.state_of(4.0, check=checks, critic=[3.0] * 3, explore=[3.0] * 6)
        assert hand_over(state).incumbent.theta[0] == 2
        surely = self.state_of(4.0, check=checks, critic=[1.0] * 3, explore=[3.0] * 6)
        found = hand_over(surely).incumbent
        assert found.theta[0] == 77
        assert found.value == find_best(surely.memory, "check").value > 4
        assert (
            hand_over(self.state_of(7.0, check=checks, critic=[1.0] * 3, explore=[3.0] * 6)).incumbent.value
            == 7
        )
