"""Two arms in MuJoCo for controllers to be tuned on: no network is needed, a PID or a movement primitive will do.

They are registered with Gymnasium, and are not among the tasks with a physics of their own.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

PERIOD = 0.02  # s per step of the environment
STEPS = 4  # of the simulation in it

TORQUES = (20.0, 10.0)
TARGET = (0.8, -0.5)  # rad

AXES = ("0 0 1", "0 1 0", "1 0 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
LENGTHS = (0.15, 0.2, 0.15, 0.2, 0.1, 0.1, 0.05)
SEVEN_TORQUES = (60.0, 60.0, 30.0, 30.0, 10.0, 10.0, 5.0)
GOAL, PILLAR, RADIUS = (0.45, 0.55, 0.35), (0.6, 0.2), 0.15

_OPTIONS = '<option timestep="0.005" integrator="implicitfast"/>'
_TWO_JOINTS = f"""
<mujoco>
  {_OPTIONS}
  <default><joint type="hinge" axis="0 -1 0" damping="0.3"/><geom type="capsule" size="0.03" mass="1"/></default>
  <worldbody>
    <body>
      <joint name="shoulder"/><geom fromto="0 0 0 0.5 0 0"/>
      <body pos="0.5 0 0"><joint name="elbow"/><geom fromto="0 0 0 0.5 0 0"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>
</mujoco>
"""


class Arm(gym.Env):
    """What both arms share: torques in, angles and velocities out, episodes that never end by themselves."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, model: str, torques: tuple[float, ...], scatter: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(model)
        self.data = mujoco.MjData(self.model)
        limit = np.array(torques)
        self.action_space = gym.spaces.Box(-limit, limit, dtype=np.float64)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * len(torques),), np.float64)
        self._scatter = scatter

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Begin near the angles 0, at rest."""
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self._scatter * self.np_random.standard_normal(self.model.nq)
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Hold the torques for a fiftieth of a second."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=STEPS)
        return self._see(), -float(self.cost()), False, False, {}

    def cost(self) -> float:
        """What the present state costs."""
        raise NotImplementedError

    def _see(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])


class TwoJointArm(Arm):
    """Two links of 0.5 m and 1 kg each in the vertical plane, which must hold a position under gravity."""

    def __init__(self) -> None:
        super().__init__(_TWO_JOINTS, TORQUES, scatter=0.05)

    def cost(self) -> float:
        """Squared distance to the target, and a little for speed and torque."""
        miss, speeds, torques = self.data.qpos - TARGET, self.data.qvel, self.data.ctrl
        return np.sum(miss**2) + 0.01 * np.sum(speeds**2) + 1e-4 * np.sum(torques**2)


class SevenJointArm(Arm):
    """Seven joints, standing upright: the hand must go around a pillar to a goal."""

    def __init__(self) -> None:
        super().__init__(write_chain(), SEVEN_TORQUES, scatter=0.02)

    def cost(self) -> float:
        """Squared distance of the hand to the goal, how deep it is in the pillar, and a little for speed."""
        hand = self.data.site("hand").xpos
        to_goal = np.sum((hand - GOAL) ** 2)
        inside = max(0.0, RADIUS - float(np.linalg.norm(hand[:2] - PILLAR)))
        return to_goal + 20 * inside + 0.002 * np.sum(self.data.qvel**2)


def write_chain() -> str:
    """Write the model of seven links on top of each other, in the words of MuJoCo."""
    bodies = '<site name="hand" pos="0 0 0.05"/>'
    below = (0.0, *LENGTHS)
    for joint in reversed(range(len(AXES))):
        bodies = (
            f'<body pos="0 0 {below[joint]}"><joint name="{joint}" axis="{AXES[joint]}"/>'
            f'<geom fromto="0 0 0 0 0 {LENGTHS[joint]}" mass="{8 * LENGTHS[joint]}"/>{bodies}</body>'
        )
    motors = "".join(f'<motor joint="{joint}"/>' for joint in range(len(AXES)))
    defaults = (
        '<joint type="hinge" damping="1" armature="0.05"/><geom type="capsule" size="0.03" contype="0"/>'
    )
    return (
        f"<mujoco>{_OPTIONS}<default>{defaults}</default><worldbody>{bodies}</worldbody>"
        f"<actuator>{motors}</actuator></mujoco>"
    )
