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

__all__ = [
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
