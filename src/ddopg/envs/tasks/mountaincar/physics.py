"""Mountaincar in Box2D itself: a free box on a hilly chain, too weak to climb without swinging.

The task hangs on contacts: numerical dissipation at each change of slope, several chain segments touched at
once, continuous-collision sub-steps. A smooth model of the hill earns returns about 20 off, so this one is
the engine of the original, and follows it bit for bit. There is therefore no compiled version of it.
"""

import math
import platform
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.errors import MissingPackageError

FORCE_LIMIT = 1.0
GOAL = 0.6
EDGE = 2.0  # the hill ends at ±2
CART_HALF_SIZE = (0.2, 0.1)
CART_START = (0.0, 0.05)  # inside the hill: the first step pushes the cart out of it

_STEP, _VELOCITY_SWEEPS, _POSITION_SWEEPS = 0.05, 8, 3
_SEGMENTS = 200


class State(NamedTuple):
    """Where the cart is; its velocities and the contacts live in Box2D."""

    x: float
    y: float
    angle: float


def hill(x: float) -> float:
    """Height of the ground, 1 − cos(πx/2): 0 at x = 0, 2 at x = ±2."""
    return 1 + _wave(x)


def draw(generator: np.random.Generator) -> np.ndarray:
    """x = 0 and ẋ ~ U(−1, 1), in the float32 value Box2D holds."""
    return np.array([0.0, np.float32(generator.uniform(-1, 1))])


class MountainCar:
    """One car on its hill. Every start builds a new world, because Box2D's contact caches outlive a reset."""

    task = None  # not a pure simulator
    observation_size = 2
    action_bound: tuple[float, ...] = (FORCE_LIMIT,)
    draw = staticmethod(draw)

    _world: Any
    _cart: Any

    def __init__(self) -> None:
        self._box2d = _import_box2d()
        places = [2 * EDGE * (i / _SEGMENTS - 0.5) for i in range(_SEGMENTS + 1)]
        self._hill = self._box2d.b2ChainShape(vertices_chain=[(x, _wave(x)) for x in places])
        self._box = self._box2d.b2PolygonShape(box=CART_HALF_SIZE)

    def start(self, observation: Sequence[float]) -> np.ndarray:
        """The cart at x = 0 with the observation's velocity."""
        x, velocity = observation
        if x != CART_START[0]:
            raise ValueError(f"mountaincar always starts at x = 0, got x = {x}; choose the velocity only")
        self._world = world = self._box2d.b2World(gravity=(0, -10))
        world.CreateStaticBody(position=(0, 1)).CreateFixture(shape=self._hill)
        self._cart = cart = world.CreateDynamicBody(position=CART_START)
        cart.CreateFixture(shape=self._box, density=5, friction=0.0005)
        cart.linearVelocity = (velocity, 0)
        return np.array([cart.position.x, cart.linearVelocity.x])

    def step(self, action: Sequence[float]) -> tuple[np.ndarray, float, bool]:
        """Push along the cart's own axis for 0.05 s. Reward −1 + y; ends at x ≥ 0.6 or |x| ≥ 2."""
        cart = self._cart
        force = action[0]
        force = -FORCE_LIMIT if force < -FORCE_LIMIT else FORCE_LIMIT if force > FORCE_LIMIT else force
        cart.ApplyForceToCenter(cart.GetWorldVector((force, 0)), True)
        self._world.Step(_STEP, _VELOCITY_SWEEPS, _POSITION_SWEEPS)
        position = cart.position
        x = position.x
        return np.array((x, cart.linearVelocity.x)), position.y - 1, x >= GOAL or abs(x) >= EDGE

    @property
    def state(self) -> State:
        """The cart's place, for drawing."""
        x, y = self._cart.position
        return State(x, y, self._cart.angle)


def _wave(x: float) -> float:
    return math.sin((x / EDGE - 0.5) * math.pi)


def _import_box2d() -> Any:
    """Box2D, whose generated bindings warn while loading, and crash if the warning is made an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import Box2D
        except ModuleNotFoundError as error:
            raise MissingPackageError("mountaincar needs the package Box2D", remedy=_advise()) from error
    return Box2D


def _advise() -> str:
    """Say where Box2D can be had: it is a dependency only there (pyproject.toml)."""
    here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return (
        f"this is {here}, and Box2D is built for Python 3.11 to 3.13 on Linux and Windows with x86-64 and on macOS: "
        "get it there with pip install Box2D, or take cartpole or swimmer, which do without it"
    )
