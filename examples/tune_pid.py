"""Tune two PID controllers of a two-joint arm that must hold positions under gravity. No JAX here, and no simulator.

    python examples/tune_pid.py [ROLLOUTS]

The arm is a few lines of physics; in its place there could be a real one. Each rollout is one move of two seconds.
"""

import math
import sys

import gymnasium as gym
import numpy as np

import ddopg
from ddopg.controllers import Loop, Parameter, pid

DT, STEPS, TARGET = 0.02, 100, (0.8, -0.5)


class Arm(gym.Env):
    """Two links of 0.5 m and 1 kg each, with friction, in the vertical plane; torques of at most 20 and 10 N m."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,))  # two angles, two velocities
    action_space = gym.spaces.Box(np.array([-20.0, -10.0]), np.array([20.0, 10.0]), dtype=np.float64)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.angles, self.speeds = 0.05 * self.np_random.standard_normal(2), np.zeros(2)
        return self._see(), {}

    def _see(self):
        return np.concatenate([self.angles, self.speeds]).astype(np.float32)

    def step(self, torques):
        torques = np.asarray(torques, float)
        for _ in range(4):
            self.speeds = self.speeds + DT / 4 * self._accelerations(torques)
            self.angles = self.angles + DT / 4 * self.speeds
        miss = self.angles - TARGET
        cost = float(np.sum(miss**2) + 0.01 * np.sum(self.speeds**2) + 1e-4 * np.sum(torques**2))
        return self._see(), -cost, False, False, {}

    def _accelerations(self, torques):
        (a, b), (u, v) = self.angles, self.speeds
        c = 0.125 * math.cos(b)
        mass = np.array([[0.333 + 2 * c, 0.083 + c], [0.083 + c, 0.083]])
        swing = 0.125 * math.sin(b) * np.array([-v * (2 * u + v), u * u])
        weight = 9.81 * np.array([0.75 * math.cos(a) + 0.25 * math.cos(a + b), 0.25 * math.cos(a + b)])
        return np.linalg.solve(mass, torques - swing - weight - 0.3 * self.speeds)


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
rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 50
result = ddopg.tune_controller(Arm(), arm, rollouts, horizon=STEPS, seed=0)
print(f"first rollout, your start: {result.history[0][1]:.1f}")
returns = ddopg.evaluate(result.trained, Arm(), episodes=10)
print(f"tuned, 10 fresh rollouts:  {returns.mean():.1f}, worst {returns.min():.1f}")
result.trained.save("arm.safetensors")
for name, value in result.parameters.items():
    print(f"  {name:<6} = {value:.4g}")
