"""Settings of JAX for our programs: the persistent cache of compiled ones, and the precision they compute in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax

from ddopg.errors import ArtefactError
from ddopg.support.files import write_atomically

P = ParamSpec("P")
T = TypeVar("T")


def in_float32(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function compute as if float64 were not switched on, so that a run is the same in every program."""

    @wraps(function)
    def compute(*arguments: P.args, **options: P.kwargs) -> T:
        with jax.enable_x64(False):
            return function(*arguments, **options)

    return compute


def keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache directory, unless JAX was told another place.

    `DDOPG_CACHE` names the directory; empty, it turns the cache off. Each Python has a folder in it: JAX finds the
    programs of another one under the same names, compresses them otherwise from 3.14 on, and warns of each.
    """
    given = os.environ.get("DDOPG_CACHE")
    parent = _default() if given is None else given
    place = os.path.join(parent, f"python{sys.version_info.major}.{sys.version_info.minor}")
    if not parent or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        Path(place).mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # A home that cannot be written costs a few seconds of compiling, nothing more.
    _write_programs_whole()
    jax.config.update("jax_compilation_cache_dir", place)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _write_programs_whole() -> None:
    """Let JAX write a compiled program whole or not at all.

    JAX writes it in place, and never again if the file is there: what a kill or a full disk left of it would be
    compiled anew, with a warning, at every start from then on.
    """
    with suppress(ImportError, AttributeError):  # parts of JAX that may change; then it does what it does
        module = import_module("jax._src.lru_cache")
        cache, suffix = module.LRUCache, module._CACHE_SUFFIX
        if not hasattr(cache.put, "__wrapped__"):
            cache.put = _put_whole(cache.put, suffix)


def _put_whole(put: Callable[..., None], suffix: str) -> Callable[..., None]:
    """Make the method `put` of JAX's cache write a new file at once, under the name that JAX looks for.

    A cache whose size is limited, or that has not the parts that are known here, keeps its own way.
    """

    @wraps(put)
    def write(cache: Any, key: str, value: bytes) -> None:
        place = getattr(cache, "path", None)
        if place is None or getattr(cache, "eviction_enabled", True):
            put(cache, key, value)
            return
        path = Path(place) / f"{key}{suffix}"
        if not path.exists():
            with suppress(ArtefactError):  # a full disk costs a few seconds of compiling, nothing more
                write_atomically(path, value, tidy=False)

    return write


def _default() -> str:
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in a container: no cache
        return ""
    return str(Path(base) / "ddopg" / "compiled")
