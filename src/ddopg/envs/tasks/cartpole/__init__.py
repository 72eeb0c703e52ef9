"""Cartpole: a pole on a cart, to be kept upright."""

from typing import TYPE_CHECKING

from ddopg.envs.base import TaskSpec
from ddopg.envs.tasks.cartpole.physics import CARTPOLE

if TYPE_CHECKING:
    from ddopg.envs.environment import Environment


def make(render_mode: str | None = None) -> "Environment":
    """Make `ddopg/Cartpole-v0`."""
    from ddopg.envs.environment import Environment, TaskSimulation
    from ddopg.envs.tasks.cartpole.drawing import paint

    return Environment(TaskSimulation(CARTPOLE), paint, render_fps=20, render_mode=render_mode)


SPEC = TaskSpec(
    name="cartpole",
    id="ddopg/Cartpole-v0",
    horizon=CARTPOLE.horizon,
    make=make,
    solved=950.0,
    references=(87.0, 1000.0),
)
