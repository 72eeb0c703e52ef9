"""Figures that are computed at once: their numbers in one JSON file, computed again only for other settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddopg.errors import ArtefactError
from ddopg.support.files import replace_when_done


def keep(path: Path, name: str, settings: Any, compute: Callable[[Any], dict[str, Any]]) -> None:
    """Compute the numbers of a figure, unless the file holds those of these settings.

    Args:
        path: of the file.
        name: of the figure.
        settings: a named tuple of plain values.
        compute: from the settings to the numbers, the settings among them.

    Raises:
        ArtefactError: if the file holds something else, or cannot be written.
    """
    if path.exists() and read(path, name)["settings"] == to_plain(settings):
        return
    with replace_when_done(path, "choose a writable directory with --data") as draft:
        draft.touch()  # a place that cannot be written is refused before the work, not after it
        draft.write_text(json.dumps(compute(settings), allow_nan=False) + "\n")


def read(path: Path, name: str) -> dict[str, Any]:
    """Read the numbers of a figure.

    Args:
        path: of the file.
        name: of the figure.

    Raises:
        ArtefactError: if the file does not hold them.
    """
    try:
        found = json.loads(path.read_text())
        if isinstance(found, dict) and "settings" in found:
            return found
    except (ValueError, OSError):
        pass
    raise ArtefactError(
        f"{path} does not hold the data of the figure {name}; remove it, and ddopg figure {name} computes it again"
    )


def to_plain(settings: Any) -> dict[str, Any]:
    """Turn a named tuple of settings into what JSON holds."""
    return json.loads(json.dumps(settings._asdict()))


def round_all(values: Any, digits: int = 3) -> list[float]:
    """Round numbers to what a picture needs.

    Example:
        >>> round_all([0.12345, 2.0])
        [0.123, 2.0]
    """
    return [round(float(value), digits) for value in values]
