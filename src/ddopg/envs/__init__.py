"""The paper's three benchmark tasks, registered with Gymnasium by `register()`.

Light to import: JAX, MuJoCo, Box2D and Pillow are loaded when an environment, or `JAX`, is asked for.
"""

from typing import TYPE_CHECKING, Any

from ddopg.envs.base import PYTHON, Ops, Task, initial_observation

if TYPE_CHECKING:
    from ddopg.envs.jax_ops import JAX
    from ddopg.envs.tasks.cartpole.physics import CARTPOLE
    from ddopg.envs.tasks.swimmer.physics import SWIMMER

__all__ = [
    "CARTPOLE",
    "ENVS",
    "JAX",
    "PYTHON",
    "SWIMMER",
    "Ops",
    "Task",
    "initial_observation",
    "register",
    "swimmer",
]

ENVS = {
    "cartpole": ("ddopg/Cartpole-v0", 100),
    "mountaincar": ("ddopg/MountainCar-v0", 500),
    "swimmer": ("ddopg/Swimmer-v0", 1000),
}
"""Short name → (Gymnasium id, time limit in steps)."""


def register() -> None:
    """Make the ids known to Gymnasium. Calling it again changes nothing."""
    import gymnasium

    for name, (identifier, limit) in ENVS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, f"ddopg.envs.factories:{name}", max_episode_steps=limit)


_LAZY = {
    "CARTPOLE": "ddopg.envs.tasks.cartpole.physics",
    "JAX": "ddopg.envs.jax_ops",
    "SWIMMER": "ddopg.envs.tasks.swimmer.physics",
}


def __getattr__(name: str) -> Any:
    """Load `JAX` and the tasks on first use."""
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
