"""The picture of a swimmer, where MuJoCo's renderer does not work."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ddopg.envs.drawing import ACCENT, BODY, DARK, FINE, GROUND, WIDTH, Point, View, draw_dot, make_picture
from ddopg.envs.tasks.swimmer.chain import RADIUS, State

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw


def paint(state: State) -> np.ndarray:
    """Draw the state from above, with a grid of metres. The camera follows the torso frame's origin."""
    view = View(scale=WIDTH / 6, left=state.x - 3, bottom=state.y - 2)
    joints = _locate_joints(state)

    def draw(canvas: "ImageDraw") -> None:
        _draw_grid(canvas, view, state.x, state.y)
        for tail, colour in ((2, BODY), (1, BODY), (0, ACCENT)):
            ends = view.all(joints[tail : tail + 2])
            canvas.line(ends, colour, round(2 * RADIUS * view.scale * FINE))
            for end in ends:
                draw_dot(canvas, end, RADIUS * view.scale, colour)
        draw_dot(canvas, view((state.x, state.y)), 3, DARK)

    return make_picture(draw)


def _draw_grid(canvas: "ImageDraw", view: View, x: float, y: float) -> None:
    for i in range(-4, 5):
        across, up = math.floor(x) + i, math.floor(y) + i
        canvas.line(view.all([(across, y - 3), (across, y + 3)]), GROUND, FINE)
        canvas.line(view.all([(x - 4, up), (x + 4, up)]), GROUND, FINE)


def _locate_joints(state: State) -> list[Point]:
    """Find head, neck, waist and tail."""
    along = state.heading
    x, y = state.x + 1.5 * math.cos(along), state.y + 1.5 * math.sin(along)
    points = [(x, y)]
    for bend in (0.0, state.bend2, state.bend3):
        along += bend
        x, y = x - math.cos(along), y - math.sin(along)
        points.append((x, y))
    return points
