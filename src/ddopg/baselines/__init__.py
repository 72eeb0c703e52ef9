"""The rivals, and DD-OPG among them, behind one small interface.

An *algorithm* is a settings record and a generator of checkpoints (`KINDS`). A *method* is a name for an algorithm
with settings, the same for all tasks or chosen for some (`METHODS`). To add a rival, write one file with a record
`SPEC` and add a line to `METHODS`. Light to import: what an algorithm needs is loaded when it is asked for.
May import the agent and everything below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ddopg.baselines import tuned, zoo
from ddopg.baselines.settings import (
    ARSSettings,
    CMAESSettings,
    OptunaSettings,
    PGPESettings,
    PPOSettings,
    RandomSettings,
    ReinforceSettings,
    SACSettings,
    TQCSettings,
    TRPOSettings,
    TurboSettings,
)
from ddopg.config import Config, preset
from ddopg.errors import MissingPackageError, unknown
from ddopg.support.imports import import_object
from ddopg.support.presets import is_file, load_config
from ddopg.support.records import from_dict

if TYPE_CHECKING:
    from ddopg.baselines.base import Checkpoint


class AlgorithmSpec(NamedTuple):
    """An algorithm: its generator of checkpoints, and what it can be told.

    Example:
        >>> from ddopg.baselines import KINDS
        >>> KINDS["cmaes"].learn, KINDS["cmaes"].packages
        ('ddopg.baselines.search:cma_es', ('cma',))
    """

    learn: str | Callable[[Any, int, Any], Iterator[Checkpoint]]
    """learn(env, seed, settings): an endless generator of `Checkpoint`s. The function, or where it is, as
    `module:function`: then its packages are imported when it is asked for."""
    settings: type
    """A frozen dataclass; every field has a default."""
    packages: tuple[str, ...] = ()
    """Modules that it needs and that may be missing."""


class Method(NamedTuple):
    """A name of the benchmark: an algorithm with settings, for all tasks or chosen for some.

    Example:
        >>> from ddopg.baselines import METHODS
        >>> METHODS["cmaes"].kind, METHODS["cmaes"].settings_for("swimmer").scaling
        ('cmaes', 'none')
    """

    kind: str
    """A key of `KINDS`; or where an `AlgorithmSpec` is, as `module:name`: worker processes find that, too."""
    settings: Any = None
    """For all tasks; the algorithm's defaults if None."""
    by_task: dict[str, Any] = {}  # noqa: RUF012
    """Task → settings that were chosen for it."""

    def settings_for(self, env: str) -> Any:
        """Choose the settings for a task: its own, or those for all.

        Args:
            env: Short name of the task, or any Gymnasium id.

        Returns:
            The settings record.
        """
        chosen = self.by_task.get(env, self.settings)
        return find_algorithm(self.kind).settings() if chosen is None else chosen


OWN = "@"  # between an algorithm and the name of a policy class of the user's own
EXTRA = "baselines"  # what installs the packages of all algorithms
_SB3 = ("stable_baselines3", "sb3_contrib", "torch")

KINDS = {
    "ddopg": AlgorithmSpec("ddopg.baselines.own:ddopg", Config),
    "reinforce": AlgorithmSpec("ddopg.baselines.reinforce:reinforce", ReinforceSettings),
    "ppo": AlgorithmSpec("ddopg.baselines.sb3:ppo", PPOSettings, _SB3),
    "trpo": AlgorithmSpec("ddopg.baselines.sb3:trpo", TRPOSettings, _SB3),
    "sac": AlgorithmSpec("ddopg.baselines.sb3:sac", SACSettings, _SB3),
    "sac-sbx": AlgorithmSpec("ddopg.baselines.sbx:sac", SACSettings, ("sbx", *_SB3)),
    "tqc-sbx": AlgorithmSpec("ddopg.baselines.sbx:tqc", TQCSettings, ("sbx", *_SB3)),
    "cmaes": AlgorithmSpec("ddopg.baselines.search:cma_es", CMAESSettings, ("cma",)),
    "ars": AlgorithmSpec("ddopg.baselines.search:ars", ARSSettings),
    "random": AlgorithmSpec("ddopg.baselines.search:random_search", RandomSettings),
    "pgpe": AlgorithmSpec("ddopg.baselines.evolution:pgpe", PGPESettings, ("evosax",)),
    "turbo": AlgorithmSpec("ddopg.baselines.bayesian:turbo", TurboSettings, ("botorch", "torch")),
    "optuna-gp": AlgorithmSpec(
        "ddopg.baselines.optuna_gp:optuna_gp", OptunaSettings, ("optuna", "scipy", "torch")
    ),
}
"""Name of an algorithm, as in the records of a benchmark → the algorithm."""

TUNE_CONTROLLERS = ("ddopg", "cmaes", "ars", "random", "pgpe", "turbo", "optuna-gp")
"""Algorithms that take a controller in the place of their own policy class: `own_kind`."""

METHODS = {
    "ddopg": Method("ddopg", preset("default")),
    "ddopg-trajectory": Method("ddopg", preset("trajectory")),
    "ddopg-paper": Method("ddopg", preset("paper")),
    "ddopg-released": Method("ddopg", preset("released")),
    "reinforce-paper": Method("reinforce", ReinforceSettings()),
    "reinforce-tuned": Method("reinforce", tuned.REINFORCE, tuned.REINFORCE_BY_TASK),
    "ppo-paper": Method("ppo", PPOSettings()),
    "ppo-tuned": Method("ppo", tuned.PPO, tuned.PPO_BY_TASK),
    "trpo-paper": Method("trpo", TRPOSettings()),
    "trpo-tuned": Method("trpo", tuned.TRPO, tuned.TRPO_BY_TASK),
    "sac": Method("sac", SACSettings()),
    "sac-tuned": Method("sac", tuned.SAC, tuned.SAC_BY_TASK),
    "sac-zoo": Method("sac-sbx", SACSettings(), zoo.SAC_BY_TASK),
    "tqc-zoo": Method("tqc-sbx", TQCSettings(), zoo.TQC_BY_TASK),
    "cmaes": Method("cmaes", tuned.CMAES, tuned.CMAES_BY_TASK),
    "cmaes-mlp": Method("cmaes", tuned.CMAES_MLP),
    "ars": Method("ars", tuned.ARS, tuned.ARS_BY_TASK),
    "ars-v1": Method("ars", tuned.ARS_V1),
    "ars-mlp": Method("ars", tuned.ARS_MLP),
    "random": Method("random", tuned.RANDOM, tuned.RANDOM_BY_TASK),
    "random-mlp": Method("random", tuned.RANDOM_MLP),
    "pgpe": Method("pgpe", PGPESettings()),
    "turbo": Method("turbo", TurboSettings()),
    "optuna-gp": Method("optuna-gp", OptunaSettings()),
}
"""Name → what is run. `docs/benchmark.md` says what each is."""


def find_method(name: str) -> Method:
    """Find a method.

    Args:
        name: A key of `METHODS`, or a preset file: DD-OPG with its settings.

    Returns:
        The method.

    Raises:
        UnknownNameError: There is none; the message has the nearest names.

    Example:
        >>> from ddopg import baselines
        >>> baselines.find_method("ars").settings.directions
        2
    """
    if is_file(name):
        return Method("ddopg", load_config(name))
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def own_kind(policy: str, kind: str = "ddopg") -> str:
    """Name an algorithm that learns a policy class of the user's own.

    Args:
        policy: where the class is, as `module:name`; the module is imported where a job of it runs.
        kind: the algorithm, DD-OPG or one of `TUNE_CONTROLLERS`.

    Returns:
        A name for `find_algorithm` and `load_learner`.

    Example:
        >>> from ddopg import baselines
        >>> baselines.own_kind("poles:balance")
        'ddopg@poles:balance'
    """
    return kind + OWN + policy


def find_algorithm(kind: str) -> AlgorithmSpec:
    """Find an algorithm.

    Args:
        kind: A key of `KINDS`, or `module:name` of an `AlgorithmSpec`, which is imported.

    Returns:
        The algorithm.

    Raises:
        UnknownNameError: There is none of that name; the message has the nearest names.

    Example:
        >>> from ddopg import baselines
        >>> baselines.find_algorithm("ddopg").settings.__name__
        'Config'
    """
    if kind in KINDS:
        return KINDS[kind]
    if OWN in kind:
        return find_algorithm(kind.partition(OWN)[0])
    if ":" not in kind:
        raise unknown("algorithm", kind, KINDS)
    return import_object(kind)


def load_learner(kind: str) -> Callable[..., Iterator[Checkpoint]]:
    """Import the generator function of an algorithm.

    Args:
        kind: As in `find_algorithm`.

    Returns:
        learn(env, seed, settings), an endless generator of checkpoints.

    Example:
        >>> from itertools import islice
        >>> import gymnasium as gym
        >>> from ddopg import baselines
        >>> learn = baselines.load_learner("random")
        >>> settings = baselines.find_method("random").settings_for("cartpole")
        >>> [c.steps for c in islice(learn(gym.make("ddopg/Cartpole-v0"), 0, settings), 2)][0]
        0
    """
    learn: Callable[..., Iterator[Checkpoint]] = import_object(find_algorithm(kind).learn)
    policy = kind.partition(OWN)[2]
    if not policy:
        return learn
    from ddopg.policies import import_policy

    return partial(learn, network=import_policy(policy))


def check_packages(kind: str) -> None:
    """Refuse an algorithm whose packages are not installed.

    Args:
        kind: As in `find_algorithm`.

    Raises:
        MissingPackageError: One of them is missing; the message says how to get it.

    Example:
        >>> from ddopg import baselines
        >>> baselines.check_packages("random")
    """
    for package in find_missing_packages(kind):
        raise MissingPackageError(f"{kind} needs {package}", EXTRA)


def find_missing_packages(kind: str) -> list[str]:
    """List the packages that an algorithm needs and that are not installed.

    Args:
        kind: As in `find_algorithm`.

    Returns:
        Names of modules.

    Example:
        >>> from ddopg import baselines
        >>> baselines.find_missing_packages("random")
        []
    """
    return [package for package in find_algorithm(kind).packages if find_spec(package) is None]


def read_settings(kind: str, values: dict[str, Any]) -> Any:
    """Turn plain values into the settings record of an algorithm.

    Args:
        kind: As in `find_algorithm`.
        values: Field name → value, as JSON has them.

    Returns:
        The record; fields that are left out have their defaults.

    Raises:
        ConfigError: A name that is no field, or a value that is refused.

    Example:
        >>> from ddopg import baselines
        >>> baselines.read_settings("cmaes", {"hidden": [8]}).hidden
        (8,)
    """
    return from_dict(values, find_algorithm(kind).settings)
