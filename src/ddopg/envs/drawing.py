"""What the drawings of all tasks share: Pillow at three times the size, reduced at the end for smooth edges.

Pillow is imported with the first picture: most environments are never looked at.
"""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT = 600, 400
FINE = 3
"""Pixels of the enlarged picture per pixel of the result: the unit of line widths."""

SKY, GROUND, LINE = (243, 246, 248), (214, 221, 226), (120, 133, 143)
BODY, ACCENT, DARK = (41, 92, 133), (217, 84, 50), (45, 55, 62)

Point = tuple[float, float]


class View(NamedTuple):
    """World coordinates in metres, y upwards, to the pixels of the enlarged picture."""

    scale: float  # pixels per metre
    left: float  # world x of the left edge
    bottom: float  # world y of the lower edge

    def __call__(self, point: Point) -> Point:
        """Map one point."""
        x, y = point
        return FINE * self.scale * (x - self.left), FINE * (HEIGHT - self.scale * (y - self.bottom))

    def all(self, points: Iterable[Point]) -> list[Point]:
        """Map several points."""
        return [self(point) for point in points]


def make_picture(draw: Callable[["ImageDraw"], None]) -> np.ndarray:
    """Draw on an empty canvas.

    Args:
        draw: Draws on the enlarged canvas that it is given.

    Returns:
        The picture as an array of shape (HEIGHT, WIDTH, 3), uint8.

    Example:
        >>> from ddopg.envs.drawing import ACCENT, draw_dot, make_picture
        >>> make_picture(lambda canvas: draw_dot(canvas, (900.0, 600.0), 5, ACCENT))[200, 300].tolist()
        [217, 84, 50]
    """
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH * FINE, HEIGHT * FINE), SKY)
    draw(ImageDraw.Draw(image))
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX)).copy()


def place(shape: list[Point], x: float, y: float, angle: float) -> list[Point]:
    """Turn the shape by the angle, then move it."""
    cos, sin = math.cos(angle), math.sin(angle)
    return [(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in shape]


def draw_dot(canvas: "ImageDraw", centre: Point, radius: float, colour: Any) -> None:
    """Draw a disc; the centre is in pixels of the enlarged picture, the radius in pixels of the result."""
    canvas.circle(centre, radius * FINE, colour)
