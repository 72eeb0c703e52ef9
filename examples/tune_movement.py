"""A movement of a seven-joint arm in MuJoCo: its hand goes around a wall to a goal. 28 parameters.

    python examples/tune_movement.py [ROLLOUTS]

Every joint follows a sum of four bumps over time by PD control (a movement primitive); their heights are tuned. Each
rollout is one movement of two seconds. The start is to stand still.
"""

import sys

import gymnasium as gym
import mujoco
import numpy as np

import ddopg
from ddopg.controllers import Parameter, movement_primitive

AXES = "0 0 1", "0 1 0", "1 0 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0"
LENGTHS = 0.15, 0.2, 0.15, 0.2, 0.1, 0.1, 0.05
TORQUES = 60.0, 60.0, 30.0, 30.0, 10.0, 10.0, 5.0
GOAL, WALL, RADIUS = np.array([0.45, 0.55, 0.35]), np.array([0.6, 0.2]), 0.15
STEPS = 100  # of 0.02 s


def write_model():
    """A chain of seven links that stands upright, in the words of MuJoCo."""
    bodies = ""
    for axis, length, below in reversed([*zip(AXES, LENGTHS, (0.0, *LENGTHS), strict=False)]):
        mass = 8 * length
        bodies = (
            f'<body pos="0 0 {below}"><joint axis="{axis}"/><geom fromto="0 0 0 0 0 {length}" mass="{mass}"/>'
            f"{bodies}</body>"
        )
    site = '<site name="hand" pos="0 0 0.05"/>'
    bodies = bodies.replace("</body>", site + "</body>", 1)
    motors = "".join(f'<motor joint="{i}"/>' for i in range(len(AXES)))
    for i in range(len(AXES)):
        bodies = bodies.replace("<joint axis", f'<joint name="{i}" axis', 1)
    return f"""<mujoco>
      <option timestep="0.005" integrator="implicitfast"/>
      <default>
        <joint type="hinge" damping="1" armature="0.05"/><geom type="capsule" size="0.03" contype="0"/>
      </default>
      <worldbody>{bodies}</worldbody><actuator>{motors}</actuator>
    </mujoco>"""


class SevenJoints(gym.Env):
    """Observations are seven angles and seven velocities; a reward for the way of the hand, at each step."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (14,), np.float64)
    action_space = gym.spaces.Box(-np.array(TORQUES), np.array(TORQUES), dtype=np.float64)

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(write_model())
        self.data = mujoco.MjData(self.model)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = 0.02 * self.np_random.standard_normal(7)
        return self._see(), {}

    def step(self, torques):
        self.data.ctrl[:] = torques
        mujoco.mj_step(self.model, self.data, nstep=4)
        hand = self.data.site("hand").xpos
        to_goal = np.linalg.norm(hand - GOAL)
        into_wall = max(0.0, RADIUS - np.linalg.norm(hand[:2] - WALL))  # a pillar
        cost = to_goal**2 + 20 * into_wall + 0.002 * np.sum(self.data.qvel**2)
        return self._see(), -float(cost), False, False, {}

    def _see(self):
        return np.concatenate([self.data.qpos, self.data.qvel])


movement = movement_primitive(
    14,
    positions=range(7),
    velocities=range(7, 14),
    duration=STEPS,
    bumps=4,
    weight=Parameter("angle", 0.0, bounds=(-1.6, 1.6), unit="rad"),
    stiffness=Parameter("stiffness", 60.0, fixed=True, unit="N m/rad"),
    damping=Parameter("damping", 6.0, fixed=True, unit="N m s/rad"),
)

if __name__ == "__main__":
    rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    result = ddopg.tune_controller(SevenJoints(), movement, rollouts, horizon=STEPS, seed=0)
    print(f"first rollout, standing still: {result.history[0][1]:.1f}")
    returns = ddopg.evaluate(result.trained, SevenJoints(), episodes=10)
    print(f"tuned, 10 fresh rollouts:      {returns.mean():.1f}, worst {returns.min():.1f}")
    result.trained.save("movement.safetensors")
