"""Tune two PID controllers of a two-joint arm in MuJoCo, which must hold a position under gravity. No JAX here.

    python examples/tune_pid.py [ROLLOUTS]

Each rollout is one move of two seconds. In the place of the simulator there could be a real arm.
"""

import sys

import gymnasium as gym
import mujoco
import numpy as np

import ddopg
from ddopg.controllers import Loop, Parameter, pid

MODEL = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
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
DT, STEPS, TARGET = 0.02, 100, np.array([0.8, -0.5])


class Arm(gym.Env):
    """Two links of 0.5 m and 1 kg each in the vertical plane; torques of at most 20 and 10 N m."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)  # two angles, two velocities
    action_space = gym.spaces.Box(np.array([-20.0, -10.0]), np.array([20.0, 10.0]), dtype=np.float64)

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(MODEL)
        self.data = mujoco.MjData(self.model)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = 0.05 * self.np_random.standard_normal(2)
        return self._see(), {}

    def step(self, torques):
        self.data.ctrl[:] = torques
        mujoco.mj_step(self.model, self.data, nstep=round(DT / self.model.opt.timestep))
        miss, speeds = self.data.qpos - TARGET, self.data.qvel
        cost = np.sum(miss**2) + 0.01 * np.sum(speeds**2) + 1e-4 * np.sum(self.data.ctrl**2)
        return self._see(), -float(cost), False, False, {}

    def _see(self):
        return np.concatenate([self.data.qpos, self.data.qvel])


arm = pid(
    4,
    [Loop(measured=0, setpoint=TARGET[0]), Loop(measured=1, setpoint=TARGET[1])],
    dt=DT,
    low=[-20.0, -10.0],
    high=[20.0, 10.0],
    kp=Parameter("kp", 8.0, bounds=(1.0, 200.0), unit="N m/rad"),
    ki=Parameter("ki", 1.0, bounds=(0.1, 200.0), unit="N m/(rad s)"),
    kd=Parameter("kd", 0.5, bounds=(0.05, 10.0), unit="N m s/rad"),
)

if __name__ == "__main__":
    rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    result = ddopg.tune_controller(Arm(), arm, rollouts, horizon=STEPS, seed=0)
    print(f"first rollout, your start: {result.history[0][1]:.1f}")
    returns = ddopg.evaluate(result.trained, Arm(), episodes=10)
    print(f"tuned, 10 fresh rollouts:  {returns.mean():.1f}, worst {returns.min():.1f}")
    result.trained.save("arm.safetensors")
    for name, value in result.parameters.items():
        print(f"  {name:<6} = {value:.4g}")
