"""The tasks, a folder each: physics.py, drawing.py, and in `__init__.py` the record `SPEC`.

To add one, copy a folder and add its name to `FOLDERS`. A task imports only `ddopg.envs` at its top, to stay light:
JAX, MuJoCo, Box2D and Pillow are loaded when an environment is made or looked at.
"""

from importlib import import_module

from ddopg.envs.base import TaskSpec

FOLDERS = (
    "cartpole",
    "mountaincar",
    "swimmer",
    "swingup",
)

TASKS: dict[str, TaskSpec] = {
    spec.name: spec for spec in (import_module(f"{__name__}.{folder}").SPEC for folder in FOLDERS)
}
"""Short name → what the package knows of the task."""
