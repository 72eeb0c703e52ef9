"""The entry points of the registered environments."""

from typing import Any

import numpy as np

from ddopg.envs.environment import Environment, TaskSimulation


def cartpole(render_mode: str | None = None) -> Environment:
    """`ddopg/Cartpole-v0`."""
    from ddopg.envs.tasks.cartpole.physics import CARTPOLE

    return Environment(TaskSimulation(CARTPOLE), _paint_cartpole, render_fps=20, render_mode=render_mode)


def mountaincar(render_mode: str | None = None) -> Environment:
    """`ddopg/MountainCar-v0`."""
    from ddopg.envs.tasks.mountaincar.physics import MountainCar

    return Environment(MountainCar(), _paint_mountaincar, render_fps=20, render_mode=render_mode)


def swimmer(render_mode: str | None = None, legacy_inertia: bool = True) -> Environment:
    """`ddopg/Swimmer-v0`; shown at 50 frames a second, twenty times slower than it swims."""
    from ddopg.envs.tasks.swimmer.mujoco_model import Camera
    from ddopg.envs.tasks.swimmer.physics import swimmer

    camera = Camera(legacy_inertia)
    simulation = TaskSimulation(swimmer(legacy_inertia))
    return Environment(simulation, camera.paint, render_fps=50, render_mode=render_mode, close=camera.close)


# Pillow is imported when a picture is asked for: most environments are never looked at.
def _paint_cartpole(state: Any) -> np.ndarray:
    from ddopg.envs.drawing import draw_cartpole

    return draw_cartpole(state)


def _paint_mountaincar(state: Any) -> np.ndarray:
    from ddopg.envs.drawing import draw_mountaincar

    return draw_mountaincar(state)
