"""Cartpole swing-up: a hanging pole, to be swung up and held."""

from typing import TYPE_CHECKING

from ddopg.envs.base import TaskSpec
from ddopg.envs.tasks.swingup.physics import SWINGUP

if TYPE_CHECKING:
    from ddopg.envs.environment import Environment


def make(render_mode: str | None = None) -> "Environment":
    """Make `ddopg/CartpoleSwingUp-v0`."""
    from ddopg.envs.environment import Environment, TaskSimulation
    from ddopg.envs.tasks.swingup.drawing import paint

    return Environment(TaskSimulation(SWINGUP), paint, render_fps=25, render_mode=render_mode)


SPEC = TaskSpec(
    name="swingup",
    id="ddopg/CartpoleSwingUp-v0",
    horizon=SWINGUP.horizon,
    make=make,
    solved=180.0,
    references=(0.1, 196.0),
)
