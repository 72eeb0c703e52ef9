"""Swimmer: a chain of three links in a fluid, moved by two motors."""

from typing import TYPE_CHECKING

from ddopg.envs.base import TaskSpec
from ddopg.envs.tasks.swimmer.physics import SWIMMER, swimmer

if TYPE_CHECKING:
    from ddopg.envs.environment import Environment


def make(render_mode: str | None = None, legacy_inertia: bool = True) -> "Environment":
    """Make `ddopg/Swimmer-v0`; shown at 50 frames a second, twenty times slower than it swims.

    Args:
        render_mode: None or "rgb_array".
        legacy_inertia: Whether a link has the inertia of MuJoCo 1.50, as in the original task, or the exact one.
    """
    from ddopg.envs.environment import Environment, TaskSimulation
    from ddopg.envs.tasks.swimmer.mujoco_model import Camera

    camera = Camera(legacy_inertia)
    simulation = TaskSimulation(swimmer(legacy_inertia))
    return Environment(simulation, camera.paint, render_fps=50, render_mode=render_mode, close=camera.close)


SPEC = TaskSpec(
    name="swimmer",
    id="ddopg/Swimmer-v0",
    horizon=SWIMMER.horizon,
    make=make,
    solved=450.0,
    references=(-3.0, 535.0),
)
