"""What a simulated task is: a record of pure functions over interchangeable arithmetic.

The physics of each task is written once, against the few operations in `Ops`. With `PYTHON` it runs on
plain floats (float64, the quickest way to step one environment); with `ddopg.envs.jax_ops.JAX` the same
lines run under jit, scan and vmap. This module never imports JAX, so that `gym.make` stays quick.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import gymnasium

State = Any  # a NamedTuple of scalars, one per task; every field a float or a traced scalar
Scalar = Any  # float in Python, a (traced) array of shape () in JAX


class Ops(NamedTuple):
    """The arithmetic in which the back-ends differ. (+ − × ÷, comparisons, & and | are the same in both.)"""

    sin: Callable[[Scalar], Scalar]
    cos: Callable[[Scalar], Scalar]
    absolute: Callable[[Scalar], Scalar]
    clip: Callable[[Scalar, float, float], Scalar]
    where: Callable[[Scalar, Scalar, Scalar], Scalar]
    constant: Callable[[float, Scalar], Scalar]
    """constant(value, like): the value in the type of `like`, so that a scan's carry keeps its type."""
    apply_if: Callable[[Scalar, Callable[[State], State], State], State]
    """apply_if(condition, function, state): function(state) where the condition holds, else the state."""
    stack: Callable[[Sequence[Scalar]], Any]


class Task(NamedTuple):
    """A simulator without memory. Hashable by its functions' identity: fit for a static jit argument."""

    name: str
    horizon: int
    observation_size: int
    action_size: int
    action_bound: tuple[float, ...]
    """Largest sensible |action| per dimension; the physics clips there, nothing else does."""
    draw: Callable[[np.random.Generator], np.ndarray]
    """The observation a reset shows, float64."""
    start: Callable[[Sequence[Scalar], Ops], State]
    """The state belonging to such an initial observation, hidden parts included."""
    step: Callable[[State, Sequence[Scalar], Ops], State]
    """One time step under the given, unclipped action."""
    observe: Callable[[State, Ops], Any]
    reward: Callable[[State, Sequence[Scalar], Ops], Scalar]
    """Paid for the state *after* the step and the unclipped action."""
    terminated: Callable[[State, Ops], Scalar]
    """Whether the state after the step ends the episode. Time limits are not the task's business."""


class TaskSpec(NamedTuple):
    """All that the rest of the package knows of a task. Each folder of `ddopg.envs.tasks` holds one, named `SPEC`.

    Example:
        >>> from ddopg.envs.tasks import TASKS
        >>> TASKS["cartpole"].id, TASKS["cartpole"].horizon, TASKS["cartpole"].entry_point
        ('ddopg/Cartpole-v0', 100, 'ddopg.envs.tasks.cartpole:make')
    """

    name: str
    """The short name, as on the command line."""
    id: str
    """The id under which Gymnasium knows the environment."""
    horizon: int
    """Time limit in steps, which `gymnasium.make` puts on."""
    make: Callable[..., "gymnasium.Env"]
    """make(render_mode=None, **options): the environment without its time limit. A function of the module, not a
    lambda: Gymnasium finds it by its name."""
    solved: float | None = None
    """Mean return on fresh episodes that counts as solved; None if nothing is called solved."""
    references: tuple[float, float] | None = None
    """Mean returns of doing nothing and of the best policy known: 0 and 1 of the normalised score."""

    @property
    def entry_point(self) -> str:
        """Where `make` is, as `module:function`. Unlike the function itself, text can be written into a data set."""
        return f"{self.make.__module__}:{self.make.__name__}"


def initial_observation(task: Task, seed: int) -> np.ndarray:
    """Compute the observation that `env.reset(seed=seed)` returns for the task's environment.

    Args:
        task: The simulator, such as `ddopg.envs.CARTPOLE`.
        seed: The seed of the reset.

    Returns:
        The observation, float64, of shape (O,).

    Example:
        >>> import gymnasium as gym
        >>> from ddopg.envs import CARTPOLE, initial_observation
        >>> observation, _ = gym.make("ddopg/Cartpole-v0").reset(seed=3)
        >>> bool((initial_observation(CARTPOLE, 3) == observation).all())
        True
    """
    from gymnasium.utils.seeding import np_random

    generator, _ = np_random(seed)
    return task.draw(generator)


def _clip(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value


PYTHON = Ops(
    sin=math.sin,
    cos=math.cos,
    absolute=abs,
    clip=_clip,
    where=lambda condition, yes, no: yes if condition else no,
    constant=lambda value, like: value,
    apply_if=lambda condition, function, state: function(state) if condition else state,
    stack=np.array,
)
