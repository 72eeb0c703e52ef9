"""The picture of a cartpole."""

from typing import TYPE_CHECKING

import numpy as np

from ddopg.envs.drawing import ACCENT, BODY, DARK, FINE, LINE, WIDTH, View, draw_dot, make_picture, place
from ddopg.envs.tasks.cartpole import physics

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw


def paint(state: physics.State) -> np.ndarray:
    """Draw the state. The pole is shown where it is, which right after a reset is not on the cart."""
    view = View(scale=WIDTH / 5.6, left=-2.8, bottom=-1.1)
    half, height = physics.CART_WIDTH / 2, physics.CART_HEIGHT
    cart = [(-half, -height), (half, -height), (half, 0.0), (-half, 0.0)]
    pole = [(-0.05, -0.5), (0.05, -0.5), (0.05, 0.5), (-0.05, 0.5)]

    def draw(canvas: "ImageDraw") -> None:
        _draw_track(canvas, view, level=-height / 2, limit=physics.TRACK_LIMIT)
        canvas.polygon(view.all(place(cart, state.x, 0.0, 0.0)), BODY)
        canvas.polygon(view.all(place(pole, state.px, state.py, state.angle)), ACCENT)
        draw_dot(canvas, view((state.x, 0.0)), 4, DARK)

    return make_picture(draw)


def _draw_track(canvas: "ImageDraw", view: View, level: float, limit: float) -> None:
    canvas.line(view.all([(-limit - 1, level), (limit + 1, level)]), LINE, 3 * FINE)
    for side in (-limit, limit):
        canvas.line(view.all([(side, level - 0.18), (side, level + 0.18)]), ACCENT, 3 * FINE)
