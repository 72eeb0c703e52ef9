"""What an iteration costs, counted and not timed: compilations, gradient steps, likelihood pairs, the table."""

import jax
import numpy as np
import pytest

import ddopg
from ddopg import evidence, memory

LARGE = {"jit(_effects)", "jit(_pair_log_likelihoods)", "jit(_evidence)", "jit(improve)"}


@pytest.fixture
def compiled():
    """The names of the programs compiled since, in order."""
    names = []

    def hear(event, duration, fun_name="", **_):
        if event.endswith("backend_compile_duration"):
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(hear)
    jax.clear_caches()
    yield names
    jax.monitoring.unregister_event_duration_listener(hear)


class TestCompilations:
    @pytest.mark.parametrize("preset", ["default", "paper", "released"])
    def test_a_run_compiles_a_handful_of_programs_and_then_none(self, preset, compiled):
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", preset=preset, seed=0)
        agent.learn(total_episodes=12)
        large = [name for name in compiled if name in LARGE]
        assert large.count("jit(improve)") <= 2  # with and without an optimiser's state, where it is carried
        assert len(large) <= len(LARGE) + 1
        assert len(compiled) <= 20  # the others are single operations
        so_far = len(compiled)
        agent.learn(total_episodes=60)
        assert compiled[so_far:] == []

    def test_another_run_of_the_same_kind_compiles_nothing(self, compiled):
        ddopg.DDOPG("ddopg/Cartpole-v0", seed=71).learn(total_episodes=12)
        so_far = len(compiled)
        ddopg.DDOPG("ddopg/Cartpole-v0", seed=72).learn(total_episodes=12)
        assert compiled[so_far:] == []


class TestWork:
    def test_gradient_steps_are_those_of_the_configuration(self):
        steps = []
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", seed=0)
        agent.learn(total_episodes=30, callback=lambda agent, info: steps.append(info.search_steps))
        design = agent.config.design.policies
        assert steps[: design - 1] == [0] * (design - 1)
        assert steps[design - 1 :] == [agent.config.search.steps] * (31 - design)

    def test_a_new_trajectory_costs_one_row_and_one_column_of_pairs(self, monkeypatch):
        asked, original = [], evidence._pair_log_likelihoods

        def counting(policy, config, i, j, *stacked):
            asked.append(len(i))
            return original(policy, config, i, j, *stacked)

        monkeypatch.setattr(evidence, "_pair_log_likelihoods", counting)
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", seed=0, horizon=50)
        agent.learn(total_episodes=70)
        asked.clear()
        agent.learn(total_episodes=20)
        assert agent.state.memory.pairs.stride == 1  # at another stride everything is compared anew
        assert asked == [evidence.PAIRS_AT_ONCE] * 20  # 2 · 50 − 1 pairs, in one call each

    def test_the_table_of_pairs_does_not_outgrow_its_bound(self):
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", seed=0)
        agent.learn(total_episodes=150)
        values = agent.state.memory.pairs.values
        assert values.size <= memory.MOST_NUMBERS
        assert len(values) >= 2 * agent.config.selection.size
        assert np.isfinite(values[:50, :50]).any()
