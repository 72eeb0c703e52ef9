"""JAX's persistent compilation cache: the second run of a program starts without compiling it again."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache directory, unless JAX was told another place.

    `DDOPG_CACHE` names the directory; empty, it turns the cache off.
    """
    place = os.environ.get("DDOPG_CACHE")
    place = _default() if place is None else place
    if not place or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        Path(place).mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # A home that cannot be written costs a few seconds of compiling, nothing more.
    jax.config.update("jax_compilation_cache_dir", place)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _default() -> str:
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in a container: no cache
        return ""
    return str(Path(base) / "ddopg" / "compiled")
