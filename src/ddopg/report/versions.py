"""The versions of the packages that make the page."""

from __future__ import annotations

import platform
from importlib.metadata import version

from ddopg._version import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "gymnasium", "mujoco")


def read_versions() -> dict[str, str]:
    """Read the versions of the packages that make the page; a run records only that of ddopg."""
    found = {"ddopg": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in PACKAGES}
