"""What an iteration costs, counted and not timed: compilations, gradient steps, likelihood pairs."""

import jax
import pytest

import ddopg
from ddopg.core import log_likelihood_cache as pairs

LARGE = {"jit(_run_episode)", "jit(_sensitivity)", "jit(_with_pairs)", "jit(_surrogate_data)", "jit(improve)"}


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
        assert large.count("jit(_run_episode)") == 1
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
        asked, original = [], pairs._with_pairs

        def counting(values, pairs, *rest):
            asked.append(len(pairs.policies))
            return original(values, pairs, *rest)

        monkeypatch.setattr(pairs, "_with_pairs", counting)
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", seed=0, horizon=50)
        agent.learn(total_episodes=70)
        asked.clear()
        agent.learn(total_episodes=20)
        assert agent._cache.key.grid.stride == 1  # at another stride everything is compared anew
        assert asked == [2 * agent.config.selection.size] * 20  # one less is needed, in one call each
