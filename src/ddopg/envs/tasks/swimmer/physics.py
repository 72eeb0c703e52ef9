"""Swimmer: a chain of three links in a fluid, moved by two motors, 1 ms per step.

The reward is the speed of the torso frame's origin, a point 0.5 m behind the head link, and an episode of
1000 steps is one second: folding up quickly pays more than swimming. Both follow the original task.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ddopg.envs.base import Ops, Scalar, Task
from ddopg.envs.tasks.swimmer.chain import Link, State, accelerations, link

TORQUE_LIMIT = 50.0
STEP = 0.001


def draw(generator: np.random.Generator) -> np.ndarray:
    """qpos ~ 0.01 N(0, I₅), then qvel ~ 0.1 N(0, I₅)."""
    position, velocity = 0.01 * generator.standard_normal(5), 0.1 * generator.standard_normal(5)
    return np.concatenate([position, velocity, position[:2], [0.0]])


def start(observation: Sequence[Scalar], ops: Ops) -> State:
    """qpos and qvel are the first ten numbers of the observation; the last three repeat some of them."""
    return State(*(observation[i] for i in range(10)))


def step(body: Link, state: State, action: Sequence[Scalar], ops: Ops) -> State:
    """Semi-implicit Euler: velocities first, positions with the new velocities."""
    x, y, heading, bend2, bend3, vx, vy, turn, rate2, rate3 = state
    torques = tuple(ops.clip(action[i], -TORQUE_LIMIT, TORQUE_LIMIT) for i in range(2))
    ax, ay, (a1, a2, a3) = accelerations(body, state, torques, ops)
    vx, vy, turn = vx + STEP * ax, vy + STEP * ay, turn + STEP * a1
    rate2, rate3 = rate2 + STEP * (a2 - a1), rate3 + STEP * (a3 - a2)
    x, y, heading = x + STEP * vx, y + STEP * vy, heading + STEP * turn
    return State(x, y, heading, bend2 + STEP * rate2, bend3 + STEP * rate3, vx, vy, turn, rate2, rate3)


def observe(state: State, ops: Ops) -> Any:
    """(qpos, qvel, x, y, 0)."""
    return ops.stack([*state, state.x, state.y, ops.constant(0.0, state.x)])


def reward(state: State, action: Sequence[Scalar], ops: Ops) -> Scalar:
    """ẋ − 0.005 |a / 50|² with the unclipped action."""
    a, b = action[0] / TORQUE_LIMIT, action[1] / TORQUE_LIMIT
    return state.vx - 0.005 * (a * a + b * b)


def terminated(state: State, ops: Ops) -> Scalar:
    """Never."""
    return ops.constant(0.0, state.x) > 0.0


def swimmer(legacy_inertia: bool = True) -> Task:
    """The task with MuJoCo 1.50's capsule inertia, which the original used, or with the exact one.

    Always one of the same two records, so that compiled programs are found again.
    """
    return SWIMMER if legacy_inertia else SWIMMER_EXACT


def _task(body: Link) -> Task:
    return Task(
        name="swimmer",
        horizon=1000,
        observation_size=13,
        action_size=2,
        action_bound=(TORQUE_LIMIT, TORQUE_LIMIT),
        draw=draw,
        start=start,
        step=partial(step, body),
        observe=observe,
        reward=reward,
        terminated=terminated,
    )


SWIMMER = _task(link(legacy_inertia=True))
SWIMMER_EXACT = _task(link(legacy_inertia=False))
