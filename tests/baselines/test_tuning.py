"""The tuned settings are what the tuning found: the committed runs of benchmarks/tune_peers.py say so."""

import importlib.util
from pathlib import Path

import pytest

from ddopg import baselines

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tune_peers.py"


@pytest.fixture(scope="module")
def tuning():
    description = importlib.util.spec_from_file_location("tune_peers", SCRIPT)
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module


@pytest.mark.parametrize("task", ["cartpole", "mountaincar", "swimmer"])
@pytest.mark.parametrize(
    "method", ["reinforce-tuned", "ppo-tuned", "trpo-tuned", "sac-tuned", "cmaes", "ars", "random"]
)
def test_the_tuned_settings_won_the_last_round(tuning, method, task):
    chosen = baselines.find_method(method)
    assert chosen.settings_for(task) == tuning.winner(chosen.kind, task)


def test_a_second_round_has_the_best_of_the_first_and_what_it_started_from(tuning):
    start, best, *others = tuning.finalists("trpo", "cartpole", 3)
    assert start == baselines.find_method("trpo-paper").settings_for("cartpole")
    assert best == baselines.find_method("trpo-tuned").settings_for("cartpole")
    assert len(others) == 2


def test_the_score_is_the_mean_over_all_marks_and_the_longest_budget_decides(tuning, monkeypatch):
    runs = [
        {"env": "swimmer", "budget": 9, "settings": {"batch": 5000}, "curve": [[3, 1.0], [6, 2.0], [9, 6.0]]},
        {"env": "swimmer", "budget": 9, "settings": {"batch": 5000}, "curve": [[3, 0.0], [6, 0.0], [9, 3.0]]},
        {"env": "swimmer", "budget": 9, "settings": {"batch": 500}, "curve": [[9, 2.5]]},
        {"env": "swimmer", "budget": 3, "settings": {"batch": 1000}, "curve": [[3, 9.0]]},
    ]
    monkeypatch.setattr(tuning.bench, "read_finished", lambda directory: dict(enumerate(runs)))
    rows = tuning.scores("trpo")["swimmer", 9]
    assert rows == {"{}": [3.0, 1.0], '{"batch": 500}': [2.5]}
    assert tuning.ranking(rows) == ['{"batch": 500}', "{}"]
    assert tuning.winner("trpo", "swimmer").batch == 500
