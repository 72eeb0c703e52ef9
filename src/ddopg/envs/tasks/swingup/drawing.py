"""The picture of a swing-up: that of the cartpole."""

import math

import numpy as np

from ddopg.envs.tasks.cartpole import physics as cartpole
from ddopg.envs.tasks.cartpole.drawing import paint as paint_cartpole
from ddopg.envs.tasks.swingup import physics


def paint(state: physics.State) -> np.ndarray:
    """Draw the state as one of the cartpole; the sizes of cart, pole and track are the same."""
    px, py = state.x - cartpole.HALF_LENGTH * state.sin, cartpole.HALF_LENGTH * state.cos
    angle = math.atan2(state.sin, state.cos)
    return paint_cartpole(
        cartpole.State(state.x, state.v, px, py, angle, qx=0.0, qy=0.0, rate=state.rate, quiet=0.0)
    )
