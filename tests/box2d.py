"""Box2D is no dependency where it has no wheel (pyproject.toml): what needs it is skipped there, and only there."""

from collections.abc import Iterable
from importlib.metadata import requires
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement


def is_expected(requirements: Iterable[str], **environment: str) -> bool:
    """Say whether Box2D is among the requirements that hold here, or in another environment."""
    parsed = [Requirement(line) for line in requirements]
    return any(
        one.name.lower() == "box2d" and (not one.marker or one.marker.evaluate(environment)) for one in parsed
    )


needs_box2d = pytest.mark.skipif(
    not is_expected(requires("ddopg")) and find_spec("Box2D") is None,
    reason="there is no wheel of Box2D for this Python on this machine",
)


def mark_box2d(names: Iterable[str], *marks: pytest.MarkDecorator) -> list:
    """Make parameters of the names of environments, marked where they need Box2D, and with the marks given."""
    heavy = ("mountaincar", "ddopg/MountainCar-v0", "LunarLanderContinuous-v3", "BipedalWalker-v3")
    return [
        pytest.param(name, marks=[*marks, needs_box2d]) if name in heavy else pytest.param(name, marks=marks)
        for name in names
    ]
