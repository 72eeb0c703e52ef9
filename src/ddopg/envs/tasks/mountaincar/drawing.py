"""The picture of a mountaincar."""

from typing import TYPE_CHECKING

import numpy as np

from ddopg.envs.drawing import (
    ACCENT,
    BODY,
    DARK,
    FINE,
    GROUND,
    LINE,
    SKY,
    WIDTH,
    View,
    draw_dot,
    make_picture,
    place,
)
from ddopg.envs.tasks.mountaincar import physics

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw


def paint(state: physics.State) -> np.ndarray:
    """Draw the state. The hill is the physics' own formula; the flag stands at the goal."""
    view = View(scale=WIDTH / 4.2, left=-2.1, bottom=-0.35)
    a, b = physics.CART_HALF_SIZE
    cart = [(-a, -b), (a, -b), (a, b), (-a, b)]
    places = [physics.EDGE * i / 200 for i in range(-210, 211)]
    ground = [(x, physics.hill(x)) for x in places]

    def draw(canvas: "ImageDraw") -> None:
        _draw_flag(canvas, view, physics.GOAL, physics.hill(physics.GOAL))
        canvas.polygon(view.all([*ground, (3.0, -1.0), (-3.0, -1.0)]), GROUND)
        canvas.line(view.all(ground), LINE, 2 * FINE, joint="curve")
        canvas.polygon(view.all(place(cart, state.x, state.y, state.angle)), BODY)
        nose = place([(0.6 * a, 0.0)], state.x, state.y, state.angle)[0]
        draw_dot(canvas, view(nose), 4, SKY)

    return make_picture(draw)


def _draw_flag(canvas: "ImageDraw", view: View, x: float, y: float) -> None:
    top = y + 0.55
    canvas.line(view.all([(x, y - 0.02), (x, top)]), DARK, 2 * FINE)
    canvas.polygon(view.all([(x, top), (x + 0.24, top - 0.08), (x, top - 0.16)]), ACCENT)
