"""Trees of records as named leaves: whatever the state becomes, it goes out and comes back the same."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ddopg.errors import ArtefactError
from ddopg.storage.leaves import Length, build, flatten
from ddopg.storage.rows import leaf_of, leaf_row
from tests.recorded import bits


class Inner(NamedTuple):
    numbers: np.ndarray
    value: float


class Outer(NamedTuple):
    count: int
    flag: bool
    name: str
    maybe: np.ndarray | None
    members: tuple[Inner, ...]
    free: Any


def example(maybe=None, free=None):
    members = (Inner(np.arange(3.0), np.nan), Inner(np.zeros((0, 2), np.float32), -np.inf))
    return Outer(2**70, True, "ü", maybe, members, free)


def test_names_are_paths_through_the_fields():
    assert list(flatten(example())) == [
        "count", "flag", "name", "maybe", "members", "members.0.numbers", "members.0.value",
        "members.1.numbers", "members.1.value", "free",
    ]  # fmt: skip
    assert flatten(example())["members"] == Length(2)
    assert "members.0.value" not in flatten(example(), frozenset({"members"}))


@pytest.mark.parametrize("maybe", [None, np.array([1, 2], np.int64)])
def test_a_tree_comes_back_with_its_types(maybe):
    again = build(Outer, flatten(example(maybe)), {})
    assert type(again.members[1]) is Inner
    assert {k: bits(v) for k, v in flatten(again).items()} == {
        k: bits(v) for k, v in flatten(example(maybe)).items()
    }


def test_a_part_of_any_type_is_built_like_its_example_keys_included():
    memory = (optax.adam(0.1).init(jnp.ones(4)), (jax.random.key(7),))
    like = jax.tree.map(lambda leaf: leaf, (optax.adam(0.1).init(jnp.zeros(4)), (jax.random.key(0),)))
    again = build(Outer, flatten(example(free=memory)), {"like:free": like}).free
    assert jax.tree.structure(again) == jax.tree.structure(memory)
    assert again[1][0].dtype == memory[1][0].dtype
    assert jax.random.uniform(again[1][0]) == jax.random.uniform(jax.random.key(7))


def test_ready_made_parts_are_taken_as_they_are():
    ready = (Inner(np.ones(1), 1.0),)
    found = flatten(example(), frozenset({"members"}))
    assert build(Outer, found, {"members": ready}).members is ready


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1.0}, "count is float, expected int"),
        ({"count": True}, "count is bool, expected int"),
        ({"surprise": 1}, r"unknown fields \['surprise'\]"),
        ({"members": Length(3)}, r"members\.2\.numbers is missing"),
        ({"members": 2}, "members is int, expected Length"),
        ({"members.0.value": np.zeros(2)}, "is ndarray, expected float"),
    ],
)
def test_leaves_that_do_not_fit_the_types_are_refused(change, message):
    with pytest.raises(ArtefactError, match=message):
        build(Outer, flatten(example()) | change, {})


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ((np.zeros(3, np.float32),), "free has 1 members, expected 2"),
        ((np.zeros(3, np.float32), np.zeros(4)), r"free\.1 is float64 \(4,\), expected float32 \(3,\)"),
    ],
)
def test_a_part_that_is_not_like_its_example_is_refused(memory, message):
    like = (np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ArtefactError, match=message):
        build(Outer, flatten(example(free=memory)), {"like:free": like})


@pytest.mark.parametrize(
    "leaf",
    [
        True,
        False,
        0,
        -5,
        2**80,
        0.1,
        np.nan,
        -np.inf,
        "ü",
        None,
        Length(3),
        np.bool_([True, False]),
        np.zeros((2, 0)),
    ],
    ids=repr,
)
def test_every_kind_of_leaf_is_a_row_and_comes_back(leaf):
    assert bits(leaf_of(*leaf_row(leaf))) == bits(leaf)


def test_what_cannot_be_stored_is_said_when_it_is_written():
    with pytest.raises(TypeError, match="free is object"):
        flatten(example(free=object()))


def test_a_number_of_numpy_stays_one():
    again = build(Inner, {"numbers": np.ones(1), "value": np.asarray(np.float32(0.1))}, {})
    assert type(again.value) is np.float32
