"""The paper's three benchmark tasks, a swing-up, and the Gymnasium side of the package.

Light to import: JAX, MuJoCo, Box2D and Pillow are loaded when an environment, or `JAX`, is asked for. May import
`core` and `support`.
"""

from typing import TYPE_CHECKING, Any

from ddopg.envs.base import PYTHON, Ops, Task, TaskSpec, initial_observation
from ddopg.envs.tasks import TASKS
from ddopg.envs.tasks.cartpole.physics import CARTPOLE
from ddopg.envs.tasks.swimmer.physics import SWIMMER
from ddopg.envs.tasks.swingup.physics import SWINGUP

if TYPE_CHECKING:
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
    "initial_observation",
    "register",
]

ENVS = {spec.name: (spec.id, spec.horizon) for spec in TASKS.values()}
"""Short name → (Gymnasium id, time limit in steps)."""


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

    for spec in TASKS.values():
        if spec.id not in gymnasium.registry:
            gymnasium.register(spec.id, spec.entry_point, max_episode_steps=spec.horizon)


def __getattr__(name: str) -> Any:
    """Load `JAX` on first use."""
    if name == "JAX":
        from ddopg.envs.jax_ops import JAX

        return JAX
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
