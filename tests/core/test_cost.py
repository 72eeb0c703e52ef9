"""What an iteration costs, counted and not timed: compilations, gradient steps, likelihood pairs."""

import jax
import pytest

import ddopg
from ddopg.core import log_likelihood_cache as pairs
from ddopg.support.records import change

LARGE = {"jit(_run_episode)", "jit(_sensitivity)", "jit(_with_pairs)", "jit(_surrogate_data)", "jit(improve)"}

SHORT = change(
    ddopg.preset("trajectory"), {"search.steps": 3}
)  # the default, with searches that take less time


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


@pytest.mark.long
class TestCompilations:
    @pytest.mark.parametrize(("preset", "improvements"), [("paper", 5), ("released", 6)])
    def test_whole_paths_have_few_sizes_with_and_without_a_state_of_the_optimiser(
        self, preset, improvements, compiled
    ):
        config = change(ddopg.preset(preset), {"search.steps": 3})
        ddopg.DDOPG("ddopg/Cartpole-v0", config=config, seed=0).learn(total_episodes=72)
        large = [name for name in compiled if name in LARGE]
        assert large.count("jit(improve)") <= improvements
        assert large.count("jit(_surrogate_data)") == 1
        assert large.count("jit(_with_pairs)") == large.count("jit(_run_episode)") == 1
        assert len(compiled) <= 25  # the others are single operations

    def test_a_run_compiles_a_handful_of_programs_and_then_none(self, compiled):
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=0)
        agent.learn(total_episodes=12)
        large = [name for name in compiled if name in LARGE]
        assert sorted(large) == sorted(LARGE)
        assert len(compiled) <= 20  # the others are single operations
        so_far = len(compiled)
        agent.learn(total_episodes=60)
        assert compiled[so_far:] == []

    def test_another_run_of_the_same_kind_compiles_nothing(self, compiled):
        ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=71).learn(total_episodes=12)
        so_far = len(compiled)
        ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=72).learn(total_episodes=12)
        assert compiled[so_far:] == []

    def test_rollouts_together_are_one_program_of_one_size_and_no_other(self, compiled):
        def learn(seed):
            agent = ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=seed)
            agent.learn(total_episodes=15, parallel=3).learn(total_episodes=7, parallel=4)

        learn(73)
        assert compiled.count("jit(_run_episodes)") == 1
        assert "jit(_run_episode)" not in compiled
        so_far = len(compiled)
        learn(74)
        assert compiled[so_far:] == []

    def test_settings_that_the_search_does_not_use_compile_it_no_second_time(self, compiled):
        ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=0).learn(total_episodes=12)
        so_far = len(compiled)
        other = change(SHORT, {"exploration.noise": 1.0, "annealing.episodes": 9.0, "design.constants": 3})
        ddopg.DDOPG("ddopg/Cartpole-v0", config=other, seed=0).learn(total_episodes=12)
        assert not {"jit(improve)", "jit(_run_episode)"} & set(compiled[so_far:])


class TestWork:
    def test_gradient_steps_are_those_of_the_configuration(self):
        steps = []
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", seed=0, preset="trajectory")
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
        agent = ddopg.DDOPG("ddopg/Cartpole-v0", config=SHORT, seed=0, horizon=50)
        agent.learn(total_episodes=70)
        asked.clear()
        agent.learn(total_episodes=20)
        assert agent._cache.likelihoods.key.grid.stride == 1  # at another stride everything is compared anew
        assert asked == [2 * agent.config.selection.size] * 20  # one less is needed, in one call each
