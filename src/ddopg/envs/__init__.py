"""The paper's three benchmark tasks, a swing-up, and the Gymnasium side of the package.

Light to import: JAX, MuJoCo, Box2D and Pillow are loaded when an environment, `JAX` or `from_functional` is asked
for. May import `core` and `support`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ddopg.envs.base import PYTHON, Ops, Task, TaskSpec, initial_observation
from ddopg.envs.tasks import TASKS
from ddopg.envs.tasks.cartpole.physics import CARTPOLE
from ddopg.envs.tasks.swimmer.physics import SWIMMER
from ddopg.envs.tasks.swingup.physics import SWINGUP

if TYPE_CHECKING:
    from ddopg.envs.functional import from_functional
    from ddopg.envs.jax_ops import JAX

__all__ = [
    "CARTPOLE",
    "ENVS",
    "JAX",
    "PYTHON",
    "SWIMMER",
    "SWINGUP",
    "TASKS",
    "Ops",
    "Task",
    "TaskSpec",
    "from_functional",
    "initial_observation",
    "register",
]

ENVS = {spec.name: (spec.id, spec.horizon) for spec in TASKS.values()}
"""Short name → (Gymnasium id, time limit in steps)."""

ARMS = (
    ("ddopg/TwoJointArm-v0", "ddopg.envs.arms:TwoJointArm", 100),
    ("ddopg/SevenJointArm-v0", "ddopg.envs.arms:SevenJointArm", 100),
)
"""Gymnasium id, where it is, and time limit: for controllers."""


def register() -> None:
    """Make the ids of all tasks known to Gymnasium. Calling it again changes nothing.

    Example:
        >>> import gymnasium
        >>> from ddopg.envs import register
        >>> register()
        >>> gymnasium.spec("ddopg/Swimmer-v0").max_episode_steps
        1000
    """
    import gymnasium

    tasks = [(spec.id, spec.entry_point, spec.horizon) for spec in TASKS.values()]
    for name, entry_point, horizon in [*tasks, *ARMS]:
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point, max_episode_steps=horizon)


_LATER = {"JAX": "jax_ops", "from_functional": "functional"}  # where JAX is imported


def __getattr__(name: str) -> Any:
    """Load what needs JAX on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ddopg.envs.{_LATER[name]}"), name)
