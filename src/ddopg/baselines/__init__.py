"""The rivals, and DD-OPG among them, behind one small interface.

A *kind* of learner is a settings record and a generator of checkpoints; a *method* is a name for a kind with
settings, one for all tasks or one per task. Light to import: a learner's packages are loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ddopg.baselines import tuned
from ddopg.baselines.settings import (
    ARSSettings,
    CMAESSettings,
    PPOSettings,
    RandomSettings,
    ReinforceSettings,
    SACSettings,
    TRPOSettings,
)
from ddopg.config import Config, preset
from ddopg.errors import MissingPackageError, unknown
from ddopg.support.presets import is_file, load_config
from ddopg.support.records import from_dict


class Kind(NamedTuple):
    """A learner: where its generator of checkpoints is, and what it can be told."""

    home: str  # module:function
    settings: type
    packages: tuple[str, ...] = ()


class Method(NamedTuple):
    """A kind with settings."""

    kind: str
    settings: Any
    by_task: dict[str, Any] = {}  # noqa: RUF012  settings chosen for single tasks, where they differ

    def settings_for(self, env: str) -> Any:
        """The task's own settings, or those for all."""
        return self.by_task.get(env, self.settings)


EXTRA = "baselines"  # what installs the packages of all kinds
_SB3 = ("stable_baselines3", "sb3_contrib", "torch")

KINDS = {
    "ddopg": Kind("own:ddopg", Config),
    "reinforce": Kind("reinforce:reinforce", ReinforceSettings),
    "ppo": Kind("sb3:ppo", PPOSettings, _SB3),
    "trpo": Kind("sb3:trpo", TRPOSettings, _SB3),
    "sac": Kind("sb3:sac", SACSettings, _SB3),
    "cmaes": Kind("search:cma_es", CMAESSettings, ("cma",)),
    "ars": Kind("search:ars", ARSSettings),
    "random": Kind("search:random_search", RandomSettings),
}

METHODS = {
    "ddopg": Method("ddopg", preset("default")),
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
    "cmaes": Method("cmaes", tuned.CMAES, tuned.CMAES_BY_TASK),
    "cmaes-mlp": Method("cmaes", tuned.CMAES_MLP),
    "ars": Method("ars", tuned.ARS, tuned.ARS_BY_TASK),
    "ars-v1": Method("ars", tuned.ARS_V1),
    "ars-mlp": Method("ars", tuned.ARS_MLP),
    "random": Method("random", tuned.RANDOM, tuned.RANDOM_BY_TASK),
    "random-mlp": Method("random", tuned.RANDOM_MLP),
}
"""Name → what is run. `docs/benchmark.md` says what each is."""


def method(name: str) -> Method:
    """The method of that name; DD-OPG with the settings of a preset file, if the name is that of one."""
    if is_file(name):
        return Method("ddopg", load_config(name))
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def learner(kind: str) -> Callable[..., Any]:
    """The generator function of a kind, imported now."""
    module, _, name = _kind(kind).home.partition(":")
    return getattr(import_module(f"ddopg.baselines.{module}"), name)


def check_packages(kind: str) -> None:
    """Raise a `MissingPackageError` unless all that the kind needs is installed."""
    for package in missing_packages(kind):
        raise MissingPackageError(f"{kind} needs {package}", EXTRA)


def missing_packages(kind: str) -> list[str]:
    """Packages that the kind needs and that are not installed."""
    return [package for package in _kind(kind).packages if find_spec(package) is None]


def settings_from(kind: str, values: dict[str, Any]) -> Any:
    """The settings record of a kind from plain values, checked."""
    return from_dict(values, _kind(kind).settings)


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise unknown("kind of learner", name, KINDS)
    return KINDS[name]
