"""Controllers: policies whose parameters have names, units, a start and bounds. Imports policies and parameters only.

`controller` makes one of your own function; the others are ready-made, or go around one. `READY_MADE` are those that
need nothing but the sizes of a problem: `policy.controller` of a configuration, `ddopg train ENV --policy NAME`.
"""

from collections.abc import Callable

from ddopg.controllers.black_box import black_box, returns_only, theta_of
from ddopg.controllers.declared import controller
from ddopg.controllers.feedback import gain_scheduled, linear_feedback
from ddopg.controllers.limits import low_passed, rate_limited
from ddopg.controllers.movement import movement_primitive
from ddopg.controllers.oscillator import for_planar_robot, oscillator
from ddopg.controllers.pid import Loop, pid
from ddopg.parameters import Parameter
from ddopg.policies import Policy

READY_MADE: dict[str, Callable[[int, tuple[float, ...], tuple[float, ...]], Policy]] = {
    "oscillator": for_planar_robot
}
"""Name in the configuration (`policy.controller`) → policy class of (observation size, low, high) of a problem."""

NEEDS: dict[str, str] = {
    "gain_scheduled": "which observation the gains follow, and at which points",
    "linear_feedback": "gains to start with, and a change of them that matters",
    "movement_primitive": "which observations are positions and velocities, and how long the movement takes",
    "pid": "which observations are measured, their set-points, the time step and gains to start with",
}
"""Ready-made controllers that cannot be chosen by their name alone → what else has to be said."""

__all__ = [
    "NEEDS",
    "READY_MADE",
    "Loop",
    "Parameter",
    "black_box",
    "controller",
    "for_planar_robot",
    "gain_scheduled",
    "linear_feedback",
    "low_passed",
    "movement_primitive",
    "oscillator",
    "pid",
    "rate_limited",
    "returns_only",
    "theta_of",
]
