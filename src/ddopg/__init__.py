"""Data-efficient policy search from few, expensive rollouts: DD-OPG on JAX.

Importing the package registers the tasks with Gymnasium and nothing else; the names below load on first use, so
that the command line answers before JAX is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ddopg import envs
from ddopg._version import __version__

if TYPE_CHECKING:
    from ddopg.agent import DDOPG, Proposal
    from ddopg.algorithm import Info
    from ddopg.artefact import TrainedPolicy, load
    from ddopg.config import Config, preset
    from ddopg.data import Trajectory, make_trajectory
    from ddopg.errors import DDOPGError
    from ddopg.policies import Policy
    from ddopg.presets import load_config
    from ddopg.rollout import evaluate
    from ddopg.state import State

_HOMES = {
    "DDOPG": "agent",
    "Proposal": "agent",
    "Info": "algorithm",
    "State": "state",
    "TrainedPolicy": "artefact",
    "load": "artefact",
    "Config": "config",
    "preset": "config",
    "Trajectory": "data",
    "make_trajectory": "data",
    "DDOPGError": "errors",
    "Policy": "policies",
    "load_config": "presets",
    "evaluate": "rollout",
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
]

envs.register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ddopg' has no attribute {name!r}")
    return getattr(import_module(f"ddopg.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
