"""The tasks, a folder each: physics.py, drawing.py, and in `__init__.py` the record `SPEC`.

To add one, copy a folder and add a line to `TASKS`. It may import `ddopg.envs` and must stay light to import: JAX,
MuJoCo, Box2D and Pillow are loaded when an environment is made or looked at.
"""

from ddopg.envs.tasks import cartpole, mountaincar, swimmer

TASKS = {
    spec.name: spec
    for spec in (
        cartpole.SPEC,
        mountaincar.SPEC,
        swimmer.SPEC,
    )
}
"""Short name → what the package knows of the task."""
