"""Cartpole swing-up: a hanging pole on a cart, to be swung up and held there, near the middle of the track.

Textbook mechanics of a cart and a thin rod without friction, in Runge–Kutta steps of 0.04 s. The state is what is
observed.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.envs.base import Ops, Scalar, Task
from ddopg.envs.tasks.cartpole.physics import CART_MASS, FORCE_LIMIT, HALF_LENGTH, POLE_MASS, TRACK_LIMIT

GRAVITY = 9.81
RESET_RANGE = 0.1
STEP = 0.04

_MASS = CART_MASS + POLE_MASS
_MOMENT = POLE_MASS * HALF_LENGTH  # m l
_INERTIA = 4 / 3 * POLE_MASS * HALF_LENGTH**2  # J: of a thin rod about its end


class State(NamedTuple):
    """Cart and pole. The angle θ is from upright, counter-clockwise positive: leaning towards −x."""

    x: Scalar
    v: Scalar
    cos: Scalar  # of θ
    sin: Scalar
    rate: Scalar  # θ̇


def draw(generator: np.random.Generator) -> np.ndarray:
    """x, ẋ, θ − π, θ̇ ~ U(−0.1, 0.1): the pole hangs, nearly at rest."""
    x, v, swing, rate = generator.uniform(-RESET_RANGE, RESET_RANGE, 4)
    return np.array([x, v, -math.cos(swing), -math.sin(swing), rate])


def start(observation: Sequence[Scalar], ops: Ops) -> State:
    """The state is the observation."""
    return State(*(observation[i] for i in range(5)))


def step(s: State, action: Sequence[Scalar], ops: Ops) -> State:
    """One step of fourth order for q̈ = f(q, q̇), under a constant force. Positions count from the old ones."""
    h, w = STEP, s.rate
    force = ops.clip(action[0], -FORCE_LIMIT, FORCE_LIMIT)
    a1, b1 = _accelerate(s, ops.constant(0.0, w), w, force, ops)
    a2, b2 = _accelerate(s, h / 2 * w, w + h / 2 * b1, force, ops)
    a3, b3 = _accelerate(s, h / 2 * w + h * h / 4 * b1, w + h / 2 * b2, force, ops)
    a4, b4 = _accelerate(s, h * w + h * h / 2 * b2, w + h * b3, force, ops)
    x = s.x + h * s.v + h * h / 6 * (a1 + a2 + a3)
    v = s.v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    cos, sin = _turn(s, h * w + h * h / 6 * (b1 + b2 + b3), ops)
    return State(x, v, cos, sin, w + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4))


def observe(state: State, ops: Ops) -> Any:
    """(x, ẋ, cos θ, sin θ, θ̇)."""
    return ops.stack(list(state))


def reward(state: State, action: Sequence[Scalar], ops: Ops) -> Scalar:
    """(1 + cos θ)/2 · (1 − (x/2.4)²): 1 for an upright pole in the middle. The terminating step pays 0."""
    upright, place = (1 + state.cos) / 2, state.x / TRACK_LIMIT
    return ops.where(terminated(state, ops), ops.constant(0.0, state.x), upright * (1 - place * place))


def terminated(state: State, ops: Ops) -> Scalar:
    """|x| > 2.4."""
    return ops.absolute(state.x) > TRACK_LIMIT


def _accelerate(s: State, turned: Scalar, rate: Scalar, force: Scalar, ops: Ops) -> tuple[Scalar, Scalar]:
    """Solve for ẍ and θ̈, with θ turned on from that of the state.

    [M + m, −m l cos θ; −m l cos θ, J] (ẍ, θ̈) = (F − m l sin θ θ̇²,  m g l sin θ).
    """
    cos, sin = _turn(s, turned, ops)
    along, around = force - _MOMENT * sin * rate * rate, _MOMENT * GRAVITY * sin
    coupling = _MOMENT * cos
    determinant = _MASS * _INERTIA - coupling * coupling
    return (
        (_INERTIA * along + coupling * around) / determinant,
        (_MASS * around + coupling * along) / determinant,
    )


def _turn(s: State, angle: Scalar, ops: Ops) -> tuple[Scalar, Scalar]:
    """cos and sin of θ + angle."""
    cos, sin = ops.cos(angle), ops.sin(angle)
    return s.cos * cos - s.sin * sin, s.sin * cos + s.cos * sin


SWINGUP = Task(
    name="swingup",
    horizon=250,
    observation_size=5,
    action_size=1,
    action_bound=(FORCE_LIMIT,),
    draw=draw,
    start=start,
    step=step,
    observe=observe,
    reward=reward,
    terminated=terminated,
)
