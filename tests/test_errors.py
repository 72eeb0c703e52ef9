"""Helpers for messages: what they let through, and what they say."""

import doctest
from pathlib import Path

import pytest

from ddopg import errors
from ddopg.errors import ArtefactError, ConfigError, cannot_write_into, require_given


@pytest.mark.parametrize("value", [3, 0, "", False])
def test_a_value_that_is_given_comes_back_even_where_it_counts_as_false(value):
    assert require_given(value, "give a value") is value


@pytest.mark.parametrize("kind", [ConfigError, ArtefactError])
def test_a_missing_value_is_an_error_of_the_kind_that_was_asked_for(kind):
    with pytest.raises(kind, match="give a value"):
        require_given(None, "give a value", kind)


def test_an_error_without_a_text_of_the_system_is_named_all_the_same():
    assert cannot_write_into(Path("runs"), OSError("full")) == (
        "cannot write into runs: full; choose a writable directory"
    )


def test_the_examples_of_the_docstrings_are_true():
    done = doctest.testmod(errors)
    assert done.attempted >= 2
    assert done.failed == 0
