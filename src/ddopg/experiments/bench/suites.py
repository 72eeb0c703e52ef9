"""Suites: tasks that are run together, each with a budget, evaluation episodes and the returns that give it a scale.

Light to import: no environment is made here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ddopg.envs.tasks import TASKS
from ddopg.errors import unknown


@dataclass(frozen=True)
class SuiteTask:
    """One task of a suite."""

    env: str
    """Name or Gymnasium id."""
    budget: int
    """Environment steps of a run."""
    episodes: int
    """Fresh episodes per evaluation: 100, or 20 where they are long."""
    solved: float
    """Mean return that counts as solved."""
    nothing: float
    """Mean return of the action 0 at every step: score 0."""
    best: float
    """The largest return possible, or else the best one known at about this budget: score 1."""
    controller: str = ""
    """A controller, as `module:name`, that the methods of `baselines.TUNE_CONTROLLERS` tune here, in the place of a
    policy of their own. Score 0 is then the controller's start."""


def _take_own(name: str, budget: int, episodes: int) -> SuiteTask:
    """A task of the package, whose own record knows its returns."""
    spec = TASKS[name]
    assert spec.solved is not None
    assert spec.references is not None
    return SuiteTask(name, budget, episodes, spec.solved, *spec.references)


_CONTROLLERS = "ddopg.experiments.bench.controllers"

# `nothing` of tasks that are not ours was measured here with seeds 0, 1, …: 300 episodes of Pendulum, Reacher,
# LunarLander and the inverted pendulums (standard errors of 1 to 3 %), 30 of Hopper (± 10), 8 of
# HalfCheetah (-0.04 ± 0.3), BipedalWalker (± 0.03) and Swimmer (5 ± 5, taken as 0). MountainCar: 0 for certain.
# `solved` is Gymnasium's threshold; where there is none, or it lies above `best`, it is ours.
# Sources of `best`, for the scale only: Z = trained agents of RL-Zoo, one tuned run each; T = learning curves of
# TD3's authors, on the v1 tasks; M = results of MR.Q's authors.
SMALL_BUDGET = (
    _take_own("cartpole", 10_000, 100),
    _take_own("mountaincar", 50_000, 100),
    _take_own("swimmer", 100_000, 100),  # long, but compiled, and starts alone scatter its returns by 70
    _take_own("swingup", 20_000, 100),
    # CMA-ES on products of observations, with all the rollouts it wanted; lucky starts give more (Z). Ours: -200.
    SuiteTask("Pendulum-v1", 10_000, 100, solved=-200, nothing=-1216, best=-146),
    SuiteTask("MountainCarContinuous-v0", 20_000, 20, solved=90, nothing=0, best=95),  # TRPO at 10k (Z)
    SuiteTask("InvertedPendulum-v5", 10_000, 20, solved=950, nothing=25, best=1000),  # the largest possible
    # Upright and at rest.
    SuiteTask("InvertedDoublePendulum-v5", 20_000, 20, solved=9100, nothing=87, best=9360),
    SuiteTask("Reacher-v5", 20_000, 100, solved=-6, nothing=-11.8, best=-4.8),  # TD3 at 20k (T). Ours: -6
    # TRPO at 60k (Z, v2).
    SuiteTask("LunarLanderContinuous-v3", 50_000, 20, solved=200, nothing=-135, best=265),
    SuiteTask("Swimmer-v5", 100_000, 20, solved=325, nothing=0, best=353),  # TRPO at 100k (Z). Ours: 325
    SuiteTask("Hopper-v5", 100_000, 20, solved=2000, nothing=159, best=2630),  # TRPO at 100k (Z). Ours: 2000
    SuiteTask("HalfCheetah-v5", 100_000, 20, solved=4800, nothing=0, best=5544),  # MR.Q at 50k (M)
    SuiteTask("BipedalWalker-v3", 100_000, 20, solved=300, nothing=-92, best=325),  # TQC at 100k (Z)
    # `nothing` is the start, 300 episodes; `best` the best of 11 to 20 runs of ddopg, CMA-ES and Optuna each, rounded
    # up; `solved` what benchmarks/controllers.py counts as tuned.
    SuiteTask("ddopg/TwoJointArm-v0", 6_000, 20, -15, -101, -9, controller=f"{_CONTROLLERS}:two_loops"),
    SuiteTask("ddopg/SevenJointArm-v0", 10_000, 20, -15, -104, -10, controller=f"{_CONTROLLERS}:movement"),
)

SUITES: dict[str, Sequence[SuiteTask]] = {"small-budget": SMALL_BUDGET}
"""Name → tasks of the suite."""


def find_suite(name: str, envs: Collection[str] = ()) -> list[SuiteTask]:
    """Find the tasks of a suite.

    Args:
        name: of the suite.
        envs: take only these of its tasks; all, if there are none.

    Returns:
        The tasks, in the order of the suite.

    Raises:
        UnknownNameError: if there is no such suite, or it has no such task.

    Example:
        >>> [(task.env, task.budget) for task in find_suite("small-budget", ["mountaincar", "cartpole"])]
        [('cartpole', 10000), ('mountaincar', 50000)]
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    tasks = {task.env: task for task in SUITES[name]}
    for env in envs:
        if env not in tasks:
            raise unknown(f"task of the suite {name}", env, tasks)
    return [task for task in tasks.values() if not envs or task.env in envs]
