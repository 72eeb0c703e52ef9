"""The controllers of the suite's two controller tasks: PID of a two-joint arm, a movement of a seven-joint arm."""

from ddopg.controllers import Loop, Parameter, movement_primitive, pid
from ddopg.envs.arms import PERIOD, TARGET, TORQUES

two_loops = pid(
    4,
    [Loop(measured=0, setpoint=TARGET[0]), Loop(measured=1, setpoint=TARGET[1])],
    dt=PERIOD,
    low=[-limit for limit in TORQUES],
    high=TORQUES,
    kp=Parameter("kp", 8.0, bounds=(1.0, 200.0), unit="N m/rad"),
    ki=Parameter("ki", 1.0, bounds=(0.1, 200.0), unit="N m/(rad s)"),
    kd=Parameter("kd", 0.5, bounds=(0.05, 10.0), unit="N m s/rad"),
)

movement = movement_primitive(
    14,
    positions=range(7),
    velocities=range(7, 14),
    duration=100,
    bumps=4,
    weight=Parameter("angle", 0.0, bounds=(-1.6, 1.6), unit="rad"),
    stiffness=Parameter("stiffness", 60.0, fixed=True, unit="N m/rad"),
    damping=Parameter("damping", 6.0, fixed=True, unit="N m s/rad"),
)
