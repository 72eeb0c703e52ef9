"""Cartpole as Box2D steps it: h = 0.05 s, constraints at the old angle, then position corrections.

A pole hinged on a cart must stay within 0.2 rad while the cart stays within 2.4 m. Two properties of the
original decide every return and are kept: a reset moves the cart but not the pole, so the first step snaps
the pole onto the cart and turns it by up to 0.19 rad; and bodies at rest for half a second are put to
sleep, which sets all velocities to zero.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddopg.envs.base import Ops, Scalar, Task

CART_MASS = 1.0
CART_WIDTH = 4 / math.sqrt(12)
CART_HEIGHT = 3 / math.sqrt(12)
POLE_MASS = 0.1
POLE_WIDTH = 0.1
HALF_LENGTH = 0.5  # l: from the hinge to the pole's centre of mass
FORCE_LIMIT = 10.0
TRACK_LIMIT = 2.4
ANGLE_LIMIT = 0.2
RESET_RANGE = np.array([0.12, 0.2, 0.01, 0.2])

_STEP = 0.05
_GRAVITY = 10.0
_CART_INERTIA = CART_MASS * (CART_WIDTH**2 + CART_HEIGHT**2) / 12
_POLE_INERTIA = POLE_MASS * ((2 * HALF_LENGTH) ** 2 + POLE_WIDTH**2) / 12
_HINGE_INERTIA = _POLE_INERTIA + POLE_MASS * HALF_LENGTH**2
_TOTAL_MASS = CART_MASS + POLE_MASS
_TOTAL_INERTIA = _TOTAL_MASS * _HINGE_INERTIA
_K_LINEAR = 1 / CART_MASS + 1 / POLE_MASS  # inverse masses as the hinge correction sees them
_K_CART = (CART_HEIGHT / 2) ** 2 / _CART_INERTIA
_JOINT_TOLERANCE = 0.005  # metres: Box2D's linear slop
_TOLERATED = _JOINT_TOLERANCE**2
_MORE_CORRECTIONS = 2  # of at most three position sweeps the first always runs
_SLEEP_SPEED = 0.01  # m/s
_SLEEP_RATE = math.radians(2)  # rad/s
_SLOW, _SLOW_RATE = _SLEEP_SPEED**2, _SLEEP_RATE**2
_SLEEP_STEPS = 10  # half a second


class State(NamedTuple):
    """Cart and pole as two bodies; the hinge between them is a constraint, not a coordinate."""

    x: Scalar  # cart
    v: Scalar
    px: Scalar  # the pole's centre of mass, height measured from the hinge
    py: Scalar
    angle: Scalar  # from upright, counter-clockwise positive: leaning towards −x
    qx: Scalar  # velocity of the pole's centre of mass
    qy: Scalar
    rate: Scalar
    quiet: Scalar  # steps since a body last moved perceptibly


def draw(generator: np.random.Generator) -> np.ndarray:
    """x, ẋ, angle, rate ~ U(−r, r), r = (0.12, 0.2, 0.01, 0.2), in the float32 values Box2D would hold."""
    return generator.uniform(-RESET_RANGE, RESET_RANGE).astype(np.float32).astype(np.float64)


def start(observation: Sequence[Scalar], ops: Ops) -> State:
    """The pole is left behind: its foot stays at x = 0 and its centre at rest, whatever the cart got."""
    x, v, angle, rate = (observation[i] for i in range(4))
    zero = ops.constant(0.0, x)
    px, py = -HALF_LENGTH * ops.sin(angle), HALF_LENGTH * ops.cos(angle)
    return State(x, v, px, py, angle, zero, zero, rate, quiet=zero)


def step(state: State, action: Sequence[Scalar], ops: Ops) -> State:
    """Velocities from the constrained momentum balance, positions from them, then 1–3 hinge corrections."""
    force = ops.clip(action[0], -FORCE_LIMIT, FORCE_LIMIT)
    sweep = _correct(_move(state, force, ops), ops)
    for _ in range(_MORE_CORRECTIONS):
        too_loose = sweep.error > _TOLERATED
        sweep = ops.apply_if(too_loose, lambda s: _correct(s.state, ops), sweep)
    return _sleep(sweep.state, ops)


def observe(state: State, ops: Ops) -> Any:
    """(x, ẋ, angle, rate)."""
    return ops.stack([state.x, state.v, state.angle, state.rate])


def reward(state: State, action: Sequence[Scalar], ops: Ops) -> Scalar:
    """10 − (1 − cos angle) − 10⁻⁵ a² with the unclipped action; the terminating step pays 0."""
    alive = 10 - (1 - ops.cos(state.angle)) - 1e-5 * action[0] * action[0]
    return ops.where(terminated(state, ops), ops.constant(0.0, state.angle), alive)


def terminated(state: State, ops: Ops) -> Scalar:
    """|x| > 2.4 or |angle| > 0.2."""
    return (ops.absolute(state.x) > TRACK_LIMIT) | (ops.absolute(state.angle) > ANGLE_LIMIT)


def _move(s: State, force: Scalar, ops: Ops) -> State:
    """Solve for v′, w′ with the hinge rigid at the *old* angle θ, then integrate with the new velocities.

    [m_c + m_p, −m_p l cos θ; −m_p l cos θ, I + m_p l²] (v′, w′) =
    (m_c v + h F + m_p q_x,  I w − m_p l (cos θ q_x + sin θ q_y)).
    """
    x, v, px, py, angle, qx, qy, rate, quiet = s
    sin, cos = HALF_LENGTH * ops.sin(angle), HALF_LENGTH * ops.cos(angle)
    qy = qy - _STEP * _GRAVITY
    coupling = -POLE_MASS * cos
    along = CART_MASS * v + _STEP * force + POLE_MASS * qx
    around = _POLE_INERTIA * rate - POLE_MASS * (cos * qx + sin * qy)
    determinant = _TOTAL_INERTIA - coupling * coupling
    v = (_HINGE_INERTIA * along - coupling * around) / determinant
    rate = (_TOTAL_MASS * around - coupling * along) / determinant
    qx, qy = v - cos * rate, -sin * rate
    x, angle = x + _STEP * v, angle + _STEP * rate
    return State(x, v, px + _STEP * qx, py + _STEP * qy, angle, qx, qy, rate, quiet)


class _Sweep(NamedTuple):
    state: State
    error: Scalar  # squared, as the sweep found it: this is what Box2D compares with its tolerance


def _correct(s: State, ops: Ops) -> _Sweep:
    """One position sweep: the impulse −K⁻¹e that closes the hinge error e moves cart, pole and angle.

    The cart's own inertia and arm (0, h_c/2) count in K, although the slider then puts its height and
    angle back: Box2D treats the joints one after the other.
    """
    x, v, px, py, angle, qx, qy, rate, quiet = s
    ax, ay = HALF_LENGTH * ops.sin(angle), -HALF_LENGTH * ops.cos(angle)  # centre of mass → hinge
    ex, ey = px + ax - x, py + ay
    kxx = _K_LINEAR + _K_CART + ay * ay / _POLE_INERTIA
    kxy = -ax * ay / _POLE_INERTIA
    kyy = _K_LINEAR + ax * ax / _POLE_INERTIA
    determinant = kxx * kyy - kxy * kxy
    jx, jy = (kxy * ey - kyy * ex) / determinant, (kxy * ex - kxx * ey) / determinant
    x, px, py = x - jx / CART_MASS, px + jx / POLE_MASS, py + jy / POLE_MASS
    angle = angle + (ax * jy - ay * jx) / _POLE_INERTIA
    return _Sweep(State(x, v, px, py, angle, qx, qy, rate, quiet), ex * ex + ey * ey)


def _sleep(s: State, ops: Ops) -> State:
    """After ten steps with both bodies slower than 0.01 m/s and 2°/s every velocity becomes 0."""
    x, v, px, py, angle, qx, qy, rate, quiet = s
    pole_speed = qx * qx + qy * qy
    moving = (v * v > _SLOW) | (pole_speed > _SLOW) | (rate * rate > _SLOW_RATE)
    zero = ops.constant(0.0, x)
    quiet = ops.where(moving, zero, quiet + 1)
    awake = State(x, v, px, py, angle, qx, qy, rate, quiet)
    return ops.apply_if(quiet >= _SLEEP_STEPS, lambda state: _stop(state, zero), awake)


def _stop(s: State, zero: Scalar) -> State:
    return State(s.x, zero, s.px, s.py, s.angle, zero, zero, zero, zero)


CARTPOLE = Task(
    name="cartpole",
    horizon=100,
    observation_size=4,
    action_size=1,
    action_bound=(FORCE_LIMIT,),
    draw=draw,
    start=start,
    step=step,
    observe=observe,
    reward=reward,
    terminated=terminated,
)
