"""Pictures of the tasks, drawn with Pillow at three times their size and then reduced, for smooth edges."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from ddopg.envs.tasks.cartpole import physics as cartpole
from ddopg.envs.tasks.mountaincar import physics as mountaincar
from ddopg.envs.tasks.swimmer import chain

WIDTH, HEIGHT = 600, 400
_FINE = 3

_SKY, _GROUND, _LINE = (243, 246, 248), (214, 221, 226), (120, 133, 143)
_BODY, _ACCENT, _DARK = (41, 92, 133), (217, 84, 50), (45, 55, 62)

Point = tuple[float, float]


class View(NamedTuple):
    """World coordinates in metres, y upwards, to the pixels of the enlarged picture."""

    scale: float  # pixels per metre
    left: float  # world x of the left edge
    bottom: float  # world y of the lower edge

    def __call__(self, point: Point) -> Point:
        """One point."""
        x, y = point
        return _FINE * self.scale * (x - self.left), _FINE * (HEIGHT - self.scale * (y - self.bottom))

    def all(self, points: Iterable[Point]) -> list[Point]:
        """Several points."""
        return [self(point) for point in points]


def draw_cartpole(state: cartpole.State) -> np.ndarray:
    """The pole is drawn where it is, which right after a reset is not on the cart."""
    view = View(scale=WIDTH / 5.6, left=-2.8, bottom=-1.1)
    half, height = cartpole.CART_WIDTH / 2, cartpole.CART_HEIGHT
    cart = [(-half, -height), (half, -height), (half, 0.0), (-half, 0.0)]
    pole = [(-0.05, -0.5), (0.05, -0.5), (0.05, 0.5), (-0.05, 0.5)]

    def paint(canvas: ImageDraw.ImageDraw) -> None:
        _track(canvas, view, level=-height / 2, limit=cartpole.TRACK_LIMIT)
        canvas.polygon(view.all(_placed(cart, state.x, 0.0, 0.0)), _BODY)
        canvas.polygon(view.all(_placed(pole, state.px, state.py, state.angle)), _ACCENT)
        _dot(canvas, view((state.x, 0.0)), 4, _DARK)

    return _picture(paint)


def draw_mountaincar(state: mountaincar.State) -> np.ndarray:
    """The hill is the physics' own formula; the flag stands at the goal."""
    view = View(scale=WIDTH / 4.2, left=-2.1, bottom=-0.35)
    a, b = mountaincar.CART_HALF_SIZE
    cart = [(-a, -b), (a, -b), (a, b), (-a, b)]
    places = [mountaincar.EDGE * i / 200 for i in range(-210, 211)]
    ground = [(x, mountaincar.hill(x)) for x in places]

    def paint(canvas: ImageDraw.ImageDraw) -> None:
        _flag(canvas, view, mountaincar.GOAL, mountaincar.hill(mountaincar.GOAL))
        canvas.polygon(view.all([*ground, (3.0, -1.0), (-3.0, -1.0)]), _GROUND)
        canvas.line(view.all(ground), _LINE, 2 * _FINE, joint="curve")
        canvas.polygon(view.all(_placed(cart, state.x, state.y, state.angle)), _BODY)
        nose = _placed([(0.6 * a, 0.0)], state.x, state.y, state.angle)[0]
        _dot(canvas, view(nose), 4, _SKY)

    return _picture(paint)


def draw_swimmer(state: chain.State) -> np.ndarray:
    """From above, with a metre grid; the camera follows the torso frame's origin."""
    view = View(scale=WIDTH / 6, left=state.x - 3, bottom=state.y - 2)
    joints = _joints(state)

    def paint(canvas: ImageDraw.ImageDraw) -> None:
        _grid(canvas, view, state.x, state.y)
        for tail, colour in ((2, _BODY), (1, _BODY), (0, _ACCENT)):
            ends = view.all(joints[tail : tail + 2])
            canvas.line(ends, colour, round(2 * chain.RADIUS * view.scale * _FINE))
            for end in ends:
                _dot(canvas, end, chain.RADIUS * view.scale, colour)
        _dot(canvas, view((state.x, state.y)), 3, _DARK)

    return _picture(paint)


def _picture(paint: Callable[[ImageDraw.ImageDraw], None]) -> np.ndarray:
    image = Image.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), _SKY)
    paint(ImageDraw.Draw(image))
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX)).copy()


def _placed(shape: list[Point], x: float, y: float, angle: float) -> list[Point]:
    """The shape turned by the angle, then moved."""
    cos, sin = math.cos(angle), math.sin(angle)
    return [(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in shape]


def _dot(canvas: ImageDraw.ImageDraw, centre: Point, radius: float, colour: Any) -> None:
    canvas.circle(centre, radius * _FINE, colour)


def _track(canvas: ImageDraw.ImageDraw, view: View, level: float, limit: float) -> None:
    canvas.line(view.all([(-limit - 1, level), (limit + 1, level)]), _LINE, 3 * _FINE)
    for side in (-limit, limit):
        canvas.line(view.all([(side, level - 0.18), (side, level + 0.18)]), _ACCENT, 3 * _FINE)


def _flag(canvas: ImageDraw.ImageDraw, view: View, x: float, y: float) -> None:
    top = y + 0.55
    canvas.line(view.all([(x, y - 0.02), (x, top)]), _DARK, 2 * _FINE)
    canvas.polygon(view.all([(x, top), (x + 0.24, top - 0.08), (x, top - 0.16)]), _ACCENT)


def _grid(canvas: ImageDraw.ImageDraw, view: View, x: float, y: float) -> None:
    for i in range(-4, 5):
        across, up = math.floor(x) + i, math.floor(y) + i
        canvas.line(view.all([(across, y - 3), (across, y + 3)]), _GROUND, _FINE)
        canvas.line(view.all([(x - 4, up), (x + 4, up)]), _GROUND, _FINE)


def _joints(state: chain.State) -> list[Point]:
    """Head, neck, waist and tail."""
    along = state.heading
    x, y = state.x + 1.5 * math.cos(along), state.y + 1.5 * math.sin(along)
    points = [(x, y)]
    for bend in (0.0, state.bend2, state.bend3):
        along += bend
        x, y = x - math.cos(along), y - math.sin(along)
        points.append((x, y))
    return points
