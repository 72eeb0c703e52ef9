"""Mountaincar: a car in a valley, too weak to climb out without swinging."""

from typing import TYPE_CHECKING

from ddopg.envs.base import TaskSpec

if TYPE_CHECKING:
    from ddopg.envs.environment import Environment


def make(render_mode: str | None = None) -> "Environment":
    """Make `ddopg/MountainCar-v0`, which needs Box2D; raises `MissingPackageError` without it."""
    from ddopg.envs.environment import Environment
    from ddopg.envs.tasks.mountaincar.drawing import paint
    from ddopg.envs.tasks.mountaincar.physics import MountainCar

    return Environment(MountainCar(), paint, render_fps=20, render_mode=render_mode)


SPEC = TaskSpec(
    name="mountaincar",
    id="ddopg/MountainCar-v0",
    horizon=500,
    make=make,
    solved=-65.0,
    references=(-417.0, -57.0),
)
