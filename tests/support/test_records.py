"""Settings as plain values: one flattener for mappings and dataclasses, and changes by dotted names."""

from dataclasses import dataclass, field

import pytest

from ddopg import preset
from ddopg.errors import ConfigError, UnknownNameError
from ddopg.report.groups import find_differences
from ddopg.support.records import change, flatten, from_dict, to_dict


@dataclass(frozen=True)
class Leaf:
    width: tuple[int, ...] = (4, 2)


@dataclass(frozen=True)
class Branch:
    leaf: Leaf = field(default_factory=Leaf)
    name: str = "b"


@dataclass(frozen=True)
class Tree:
    height: float = 2.0
    branch: Branch = field(default_factory=Branch)


def test_mappings_and_dataclasses_are_flattened_alike_at_any_depth():
    expected = {"height": 2.0, "branch.leaf.width": (4, 2), "branch.name": "b"}
    assert flatten(Tree()) == expected
    assert flatten({"height": 2.0, "branch": {"leaf": {"width": (4, 2)}, "name": "b"}}) == expected
    assert flatten({"height": 2.0, "branch": Branch()}) == expected


def test_none_and_nothing_are_kept_apart():
    assert flatten({"a": None, "b": {}, "c": {"d": None}}) == {"a": None, "c.d": None}


def test_the_whole_configuration_has_the_names_of_its_plain_values():
    config = preset("trajectory")
    assert list(flatten(config)) == list(flatten(to_dict(config)))


def test_a_change_reaches_any_depth_and_leaves_the_rest():
    tree = Tree()
    assert change(tree, {"branch.leaf.width": [7], "height": 3}) == Tree(3.0, Branch(Leaf((7,))))
    assert tree == Tree()


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean 'branch\.name'"):
        change(Tree(), {"branch.nane": "c"})


def test_a_value_of_the_wrong_type_is_refused():
    with pytest.raises(ConfigError, match="name must be of type str, got 3"):
        change(Tree(), {"branch.name": 3})


def test_what_differs_is_named_with_both_values():
    other = Tree(2.0, Branch(Leaf((1,)), "c"))
    assert find_differences(Tree(), other) == {"branch.leaf.width": [(4, 2), (1,)], "branch.name": ["b", "c"]}
    assert find_differences(other, other) == {}


def test_plain_values_come_back_as_they_were():
    assert from_dict(to_dict(Tree()), Tree) == Tree()
