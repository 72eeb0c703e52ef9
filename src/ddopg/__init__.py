"""Data-efficient policy search from few, expensive rollouts: DD-OPG on JAX.

Importing the package registers the tasks with Gymnasium, as soon as that is imported, and nothing else; the names
below load on first use, so that the command line answers before JAX is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ddopg._version import __version__
from ddopg.support.imports import after_import

if TYPE_CHECKING:
    from ddopg.agent import DDOPG
    from ddopg.config import Config, preset
    from ddopg.controller_tuning import tune_controller
    from ddopg.core.algorithm import Info
    from ddopg.core.state import State
    from ddopg.core.types import Trajectory, make_trajectory
    from ddopg.errors import DDOPGError
    from ddopg.evaluation import evaluate
    from ddopg.policies import Policy
    from ddopg.proposal import Proposal
    from ddopg.storage.policy_file import TrainedPolicy, load
    from ddopg.support.presets import load_config

_HOMES = {
    "DDOPG": "agent",
    "Proposal": "proposal",
    "Info": "core.algorithm",
    "State": "core.state",
    "TrainedPolicy": "storage.policy_file",
    "load": "storage.policy_file",
    "Config": "config",
    "preset": "config",
    "Trajectory": "core.types",
    "make_trajectory": "core.types",
    "DDOPGError": "errors",
    "Policy": "policies",
    "load_config": "support.presets",
    "evaluate": "evaluation",
    "tune_controller": "controller_tuning",
}

__all__ = [
    "DDOPG",
    "Config",
    "DDOPGError",
    "Info",
    "Policy",
    "Proposal",
    "State",
    "TrainedPolicy",
    "Trajectory",
    "__version__",
    "evaluate",
    "load",
    "load_config",
    "make_trajectory",
    "preset",
    "tune_controller",
]

_MODULES = (
    "agent",
    "baselines",
    "callbacks",
    "config",
    "controllers",
    "deploy",
    "envs",
    "errors",
    "evaluation",
    "loggers",
    "minari",
    "numpy_policy",
    "policies",
)
"""Public modules that are there after a bare `import ddopg`, too."""


def _register_tasks() -> None:
    import_module("ddopg.envs").register()


after_import("gymnasium", _register_tasks)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ddopg.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ddopg' has no attribute {name!r}")
    return getattr(import_module(f"ddopg.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
