"""Accelerations of a planar chain of three equal links in a fluid, in closed form, as MuJoCo has them.

Written with the links' *absolute* angles θ₁, θ₂, θ₃ and rates w: the centre of mass then decouples and a
symmetric 3×3 system remains. u = (cos θ, sin θ) points along a link, n = (−sin θ, cos θ) across it. Link
centres are p_i = o + Σ_j c_ij u_j around the torso frame's origin o, which lies 0.5 m *behind* the torso
link: the rows of c are (1, 0, 0), (½, −½, 0), (½, −1, −½), so the whole body's centre is
o + ⅔ u₁ − ½ u₂ − ⅙ u₃. Every fraction below follows from these.
"""

import math
from typing import NamedTuple

from ddopg.envs.base import Ops, Scalar

LENGTH = 1.0  # between the centres of a capsule's caps
RADIUS = 0.1
DENSITY = 1000.0
FLUID_DENSITY = 4000.0
VISCOSITY = 0.1
JOINT_LIMIT = math.radians(100)

# MuJoCo's default soft limits: solref = (time constant, damping ratio), solimp = (from, to, width, ½, 2).
_TIME_CONSTANT, _DAMPING_RATIO = 0.02, 1.0
_IMPEDANCE_FROM, _IMPEDANCE_TO, _IMPEDANCE_WIDTH = 0.9, 0.95, 0.001
_STIFFNESS = 1 / (_IMPEDANCE_TO * _TIME_CONSTANT * _DAMPING_RATIO) ** 2
_DAMPING = 2 / (_IMPEDANCE_TO * _TIME_CONSTANT)

Pair = tuple[Scalar, Scalar]
Triple = tuple[Scalar, Scalar, Scalar]


class State(NamedTuple):
    """MuJoCo's qpos and qvel."""

    x: Scalar  # the torso frame's origin
    y: Scalar
    heading: Scalar
    bend2: Scalar  # the joints torso–mid and mid–back
    bend3: Scalar
    vx: Scalar
    vy: Scalar
    turn: Scalar  # rates of heading, bend2 and bend3
    rate2: Scalar
    rate3: Scalar


class Link(NamedTuple):
    """Inertia of one link and the coefficients (a, b) of its fluid forces −(a|v| + b) v."""

    mass: float
    inertia: float  # about an axis across the link
    axial_inertia: float
    along: tuple[float, float]
    across: tuple[float, float]
    around: tuple[float, float]
    joint_weight: float  # inverse inertia felt at a joint of the straight chain: MuJoCo's dof_invweight0


class _Symmetric(NamedTuple):
    """A symmetric 3×3 matrix."""

    a11: Scalar
    a12: Scalar
    a13: Scalar
    a22: Scalar
    a23: Scalar
    a33: Scalar


def link(legacy_inertia: bool) -> Link:
    """Inertials of a capsule, or of the cylinder r/2 longer at each end that MuJoCo 1.50 put in its place.

    The fluid acts on the box of equal inertia, whose sides are s_i = √(6 (I_j + I_k − I_i) / m).
    """
    mass, inertia, axial = _long_cylinder() if legacy_inertia else _capsule()
    length, width = math.sqrt(6 * (2 * inertia - axial) / mass), math.sqrt(6 * axial / mass)
    mean = (length + 2 * width) / 3
    linear, angular = 3 * math.pi * mean * VISCOSITY, math.pi * mean**3 * VISCOSITY
    inverse = _inverse_inertia(mass, inertia, 1.0, 1.0, 1.0)
    return Link(
        mass,
        inertia,
        axial,
        along=(FLUID_DENSITY / 2 * width * width, linear),
        across=(FLUID_DENSITY / 2 * length * width, linear),
        around=(FLUID_DENSITY / 64 * width * (length**4 + width**4), angular),
        joint_weight=inverse.a11 - 2 * inverse.a12 + inverse.a22,
    )


def accelerations(body: Link, state: State, torques: Pair, ops: Ops) -> tuple[Scalar, Scalar, Triple]:
    """(ẍ, ÿ) of the torso frame's origin and the three ẇ.

    Σ_k (m s_jk cos(θ_j−θ_k) + δ_jk I) ẇ_k = Σ_i d_ij n_j·F_i + T_j + m Σ_k s_jk sin(θ_k−θ_j) w_k²,
    where d is c minus its column means, s = dᵀd, F are the fluid's forces and T all torques.
    """
    theta1, theta2 = state.heading, state.heading + state.bend2
    theta3 = theta2 + state.bend3
    cosines = (ops.cos(theta1), ops.cos(theta2), ops.cos(theta3))
    sines = (ops.sin(theta1), ops.sin(theta2), ops.sin(theta3))
    rates = (state.turn, state.turn + state.rate2, state.turn + state.rate2 + state.rate3)
    forces_x, forces_y, drag = _fluid(body, (state.vx, state.vy), rates, cosines, sines, ops)
    loads = _loads(body.mass, rates, cosines, sines, forces_x, forces_y)
    inverse = _inverse_inertia(body.mass, body.inertia, *_relative_cosines(cosines, sines))
    joint2, joint3 = torques
    turning = (loads[0] + drag[0] - joint2, loads[1] + drag[1] + joint2 - joint3, loads[2] + drag[2] + joint3)
    spin = _limited(body, state, inverse, _times(inverse, turning), ops)
    total = 3 * body.mass
    ax = (forces_x[0] + forces_x[1] + forces_x[2]) / total
    ay = (forces_y[0] + forces_y[1] + forces_y[2]) / total
    back_x, back_y = _origin(rates, spin, cosines, sines)
    return ax - back_x, ay - back_y, spin


def _fluid(
    body: Link, velocity: Pair, rates: Triple, cosines: Triple, sines: Triple, ops: Ops
) -> tuple[Triple, Triple, Triple]:
    """x and y components of the force on each link's centre, and the torque on each link."""
    vx, vy = velocity
    w1, w2, w3 = rates
    n1x, n2x, n3x = -sines[0] * w1, -sines[1] * w2, -sines[2] * w3
    n1y, n2y, n3y = cosines[0] * w1, cosines[1] * w2, cosines[2] * w3
    f1 = _drag(body, vx + n1x, vy + n1y, cosines[0], sines[0], ops)
    f2 = _drag(body, vx + (n1x - n2x) / 2, vy + (n1y - n2y) / 2, cosines[1], sines[1], ops)
    f3 = _drag(body, vx + (n1x - n3x) / 2 - n2x, vy + (n1y - n3y) / 2 - n2y, cosines[2], sines[2], ops)
    a, b = body.around
    absolute = ops.absolute
    torques = (-(a * absolute(w1) + b) * w1, -(a * absolute(w2) + b) * w2, -(a * absolute(w3) + b) * w3)
    return (f1[0], f2[0], f3[0]), (f1[1], f2[1], f3[1]), torques


def _drag(body: Link, vx: Scalar, vy: Scalar, cos: Scalar, sin: Scalar, ops: Ops) -> Pair:
    """Fluid force on one link, from its centre's velocity along and across the link."""
    along, across = cos * vx + sin * vy, cos * vy - sin * vx
    p = -(body.along[0] * ops.absolute(along) + body.along[1]) * along
    q = -(body.across[0] * ops.absolute(across) + body.across[1]) * across
    return cos * p - sin * q, sin * p + cos * q


def _loads(m: float, rates: Triple, cosines: Triple, sines: Triple, fx: Triple, fy: Triple) -> Triple:
    """Σ_i d_ij n_j·F_i + m Σ_k s_jk sin(θ_k−θ_j) w_k²: lever arms of the fluid and centrifugal terms."""
    (c1, c2, c3), (s1, s2, s3) = cosines, sines
    e1, e2, e3 = m * rates[0] * rates[0], m * rates[1] * rates[1], m * rates[2] * rates[2]
    sin12, sin13, sin23 = s2 * c1 - c2 * s1, s3 * c1 - c3 * s1, s3 * c2 - c3 * s2
    g1x, g1y = (2 * fx[0] - fx[1] - fx[2]) / 6, (2 * fy[0] - fy[1] - fy[2]) / 6
    g2x, g2y = (fx[0] - fx[2]) / 2, (fy[0] - fy[2]) / 2
    g3x, g3y = (fx[0] + fx[1] - 2 * fx[2]) / 6, (fy[0] + fy[1] - 2 * fy[2]) / 6
    return (
        c1 * g1y - s1 * g1x + sin12 * e2 / 4 + sin13 * e3 / 12,
        c2 * g2y - s2 * g2x - sin12 * e1 / 4 + sin23 * e3 / 4,
        c3 * g3y - s3 * g3x - sin13 * e1 / 12 - sin23 * e2 / 4,
    )


def _relative_cosines(cosines: Triple, sines: Triple) -> Triple:
    """cos(θ₂−θ₁), cos(θ₃−θ₁), cos(θ₃−θ₂)."""
    (c1, c2, c3), (s1, s2, s3) = cosines, sines
    return c1 * c2 + s1 * s2, c1 * c3 + s1 * s3, c2 * c3 + s2 * s3


def _inverse_inertia(m: float, inertia: float, cos12: Scalar, cos13: Scalar, cos23: Scalar) -> _Symmetric:
    """Inverse, by cofactors, of m s_jk cos(θ_j−θ_k) + δ_jk I with s = [⅙ ¼ 1/12; ¼ ½ ¼; 1/12 ¼ ⅙]."""
    outer, middle = m / 6 + inertia, m / 2 + inertia
    b12, b13, b23 = m / 4 * cos12, m / 12 * cos13, m / 4 * cos23
    k11, k12, k13 = middle * outer - b23 * b23, b13 * b23 - b12 * outer, b12 * b23 - middle * b13
    scale = 1 / (outer * k11 + b12 * k12 + b13 * k13)
    return _Symmetric(
        k11 * scale,
        k12 * scale,
        k13 * scale,
        (outer * outer - b13 * b13) * scale,
        (b12 * b13 - outer * b23) * scale,
        (outer * middle - b12 * b12) * scale,
    )


def _times(matrix: _Symmetric, vector: Triple) -> Triple:
    a11, a12, a13, a22, a23, a33 = matrix
    x, y, z = vector
    return a11 * x + a12 * y + a13 * z, a12 * x + a22 * y + a23 * z, a13 * x + a23 * y + a33 * z


def _origin(rates: Triple, spin: Triple, cosines: Triple, sines: Triple) -> Pair:
    """Second derivative of ⅔ u₁ − ½ u₂ − ⅙ u₃: how the centre of mass accelerates past the origin."""
    (w1, w2, w3), (a1, a2, a3) = rates, spin
    (c1, c2, c3), (s1, s2, s3) = cosines, sines
    x1, y1 = -s1 * a1 - c1 * w1 * w1, c1 * a1 - s1 * w1 * w1
    x2, y2 = -s2 * a2 - c2 * w2 * w2, c2 * a2 - s2 * w2 * w2
    x3, y3 = -s3 * a3 - c3 * w3 * w3, c3 * a3 - s3 * w3 * w3
    return (4 * x1 - 3 * x2 - x3) / 6, (4 * y1 - 3 * y2 - y3) / 6


def _limited(body: Link, state: State, inverse: _Symmetric, spin: Triple, ops: Ops) -> Triple:
    """The ẇ once a joint beyond ±100° is pushed back; unchanged while both are inside."""
    beyond = (ops.absolute(state.bend2) > JOINT_LIMIT) | (ops.absolute(state.bend3) > JOINT_LIMIT)
    return ops.apply_if(beyond, lambda free: _push_back(body, state, inverse, free, ops), spin)


def _push_back(body: Link, state: State, inverse: _Symmetric, spin: Triple, ops: Ops) -> Triple:
    """Limit forces f ≥ 0 with (A + R) f + b ≥ 0, of which one or the other is 0, per joint.

    A is the inverse inertia felt at the joints, b the free acceleration less the wanted one. Both are
    measured towards the inside, which is what the signs are for.
    """
    a11, a12, a13, a22, a23, a33 = inverse
    p1, p2, p3 = a12 - a11, a22 - a12, a23 - a13  # ẇ per unit torque of joint 2
    r1, r2, r3 = a13 - a12, a23 - a22, a33 - a23  # and of joint 3
    sign2, out2, b2, soft2 = _limit(body, state.bend2, state.rate2, spin[1] - spin[0], ops)
    sign3, out3, b3, soft3 = _limit(body, state.bend3, state.rate3, spin[2] - spin[1], ops)
    # A joint inside its limits must not feel the other one's force: it drops out of the system.
    coupling = ops.where(out2 & out3, sign2 * sign3 * (r2 - r1), ops.constant(0.0, b2))
    f2, f3 = _complementary(p2 - p1 + soft2, coupling, r3 - r2 + soft3, b2, b3, ops)
    f2, f3 = sign2 * f2, sign3 * f3
    return spin[0] + p1 * f2 + r1 * f3, spin[1] + p2 * f2 + r2 * f3, spin[2] + p3 * f2 + r3 * f3


def _limit(
    body: Link, bend: Scalar, rate: Scalar, free: Scalar, ops: Ops
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Inward sign, whether the joint is out, b = free − wanted inward acceleration, and the softness R.

    Wanted is −B ḋ − K i d for the (negative) distance d; the impedance i grows from 0.9 to 0.95 within
    0.001 rad along two parabolas, and R = (1 − i)/i times the joint's weight.
    """
    sign = ops.where(bend > 0, ops.constant(-1.0, bend), ops.constant(1.0, bend))
    distance = JOINT_LIMIT + sign * bend
    depth = ops.clip(-distance / _IMPEDANCE_WIDTH, 0.0, 1.0)
    rise = ops.where(depth < 0.5, 2 * depth * depth, 1 - 2 * (1 - depth) * (1 - depth))
    impedance = _IMPEDANCE_FROM + (_IMPEDANCE_TO - _IMPEDANCE_FROM) * rise
    wanted = -_DAMPING * sign * rate - _STIFFNESS * impedance * distance
    out = distance < 0
    b = ops.where(out, sign * free - wanted, ops.constant(0.0, bend))
    return sign, out, b, (1 - impedance) / impedance * body.joint_weight


def _complementary(a22: Scalar, a23: Scalar, a33: Scalar, b2: Scalar, b3: Scalar, ops: Ops) -> Pair:
    """The one f ≥ 0 with A f + b ≥ 0 and fᵀ(A f + b) = 0: try both active, else one alone, else none."""
    determinant = a22 * a33 - a23 * a23
    both2, both3 = (a23 * b3 - a33 * b2) / determinant, (a23 * b2 - a22 * b3) / determinant
    zero = ops.constant(0.0, b2)
    only2, only3 = ops.where(b2 < 0, -b2 / a22, zero), ops.where(b3 < 0, -b3 / a33, zero)
    both, without3 = (both2 >= 0) & (both3 >= 0), a23 * only2 + b3 >= 0
    f2 = ops.where(both, both2, ops.where(without3, only2, zero))
    f3 = ops.where(both, both3, ops.where(without3, zero, only3))
    return f2, f3


def _long_cylinder() -> Triple:
    """Mass, transverse and axial inertia of a cylinder of length L + r."""
    length = LENGTH + RADIUS
    mass = DENSITY * math.pi * RADIUS**2 * length
    return mass, mass * (length**2 / 12 + RADIUS**2 / 4), mass * RADIUS**2 / 2


def _capsule() -> Triple:
    """Mass, transverse and axial inertia of a cylinder of length L with two half balls."""
    cylinder, ball = DENSITY * math.pi * RADIUS**2 * LENGTH, DENSITY * 4 / 3 * math.pi * RADIUS**3
    axial = cylinder * RADIUS**2 / 2 + ball * RADIUS**2 * 2 / 5
    across = cylinder * (LENGTH**2 / 12 + RADIUS**2 / 4)
    # Steiner: each half ball's own centre lies 3r/8 beyond the cylinder's end.
    across += ball * (RADIUS**2 * 2 / 5 + LENGTH**2 / 4 + LENGTH * RADIUS * 3 / 8)
    return cylinder + ball, across, axial
