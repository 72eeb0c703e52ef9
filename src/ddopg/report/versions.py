"""What made the page."""

from __future__ import annotations

import platform
from importlib.metadata import version

from ddopg._version import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "gymnasium", "mujoco")


def read_versions() -> dict[str, str]:
    """Of what made the page; a run records only the version of ddopg."""
    found = {"ddopg": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in PACKAGES}
