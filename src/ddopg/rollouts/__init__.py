"""Playing policies: step by step, as compiled programs, in local processes, on Ray; one wire format for all.

May import `core`, `envs` and `support`. Nothing here is written to disk. The public names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddopg.rollouts.playing import evaluate, rollout
    from ddopg.rollouts.scheduling import Here, Locally, OnRay, Together
    from ddopg.rollouts.together import rollout_together

_HOMES = {
    "rollout": "playing",
    "evaluate": "playing",
    "Here": "scheduling",
    "Locally": "scheduling",
    "OnRay": "scheduling",
    "Together": "scheduling",
    "rollout_together": "together",
}

__all__ = ["Here", "Locally", "OnRay", "Together", "evaluate", "rollout", "rollout_together"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ddopg.rollouts' has no attribute {name!r}")
    return getattr(import_module(f"ddopg.rollouts.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
