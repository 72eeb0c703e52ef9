"""A little of `make fuzz` in every run of the tests: the kinds that `test_fuzz.py` does not go through itself."""

import os

import pytest

from tests.fuzz import KINDS, WHOLE, fuzz

FEW = {"log .csv": 800, "log .json": 800, "log .npz": 600, "Minari metadata": 250, "preset file": 800}


@pytest.mark.parametrize("kind", FEW)
def test_mutated_inputs_are_refused_with_our_error_or_read_without_harm(kind, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", os.environ.get("MINARI_DATASETS_PATH", ""))
    count = fuzz(kind, FEW[kind], seed=0)
    print(count)
    assert 0.2 * count.tried < count.refused < count.tried


def test_the_same_seed_gives_the_same_files(monkeypatch):
    assert fuzz("log .json", 50, seed=5) == fuzz("log .json", 50, seed=5)


def test_the_whole_has_all_five_kinds_and_a_hundred_thousand_mutations():
    assert WHOLE.keys() == KINDS.keys()
    assert sum(WHOLE.values()) >= 100_000
