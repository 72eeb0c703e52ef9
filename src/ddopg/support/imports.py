"""Imports that wait: something to do after an import, and objects that are imported when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def after_import(name: str, act: Callable[[], None]) -> None:
    """Call `act()` as soon as a module has been imported: at once, or at the end of its first import.

    Args:
        name: Of a top-level module, such as `gymnasium`.
        act: What to do then.
    """
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Watch(name, act))


def import_object(home: Any) -> Any:
    """Import what a table names.

    Args:
        home: `module:name`, or the object itself.

    Returns:
        The object.

    Example:
        >>> from ddopg.support.imports import import_object
        >>> import_object("math:sqrt")(9)
        3.0
    """
    if not isinstance(home, str):
        return home
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


class _Watch(MetaPathFinder):
    """Finds one module as everybody would, and acts once after it was executed."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name, self._act = name, act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                execute(module)
                self._act()

            spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
