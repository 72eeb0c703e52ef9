"""One self-contained page of some runs: first the data are read from the runs, then the page is built from them.

May import `experiments` and everything below it, but not `cli`, which says how to get a run again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddopg.errors import ArtefactError, require
from ddopg.report.groups import group_runs, summarise_group
from ddopg.report.history import Recipe, describe_run
from ddopg.report.page import build_page
from ddopg.report.section import build_section
from ddopg.report.versions import read_versions
from ddopg.storage.reading import Reading, read_run
from ddopg.support.files import write_atomically

MOST_SECTIONS = 12  # runs whose surrogate the page can compute: about 100 kB each


def write(directories: Sequence[Path], path: Path, date: str, recipe: Recipe) -> Path:
    """Read some runs and write their page, whole or not at all.

    Args:
        directories: of the runs, each given once.
        path: of the page, which ends in `.html` or `.htm`.
        date: when the page is made, as text for its head.
        recipe: says for a run how to get it again.

    Returns:
        The path.

    Raises:
        ArtefactError: if a run is given twice, cannot be read or holds no rollout, or the page cannot be written.
    """
    require(
        path.suffix.lower() in (".html", ".htm"),
        f"the page must be called something.html, got {path.name!r}",
        ArtefactError,
    )
    words = ["report", *map(str, directories), "-o", str(path)]
    text = build(directories, date, recipe, {"command": f"ddopg {shlex.join(words)}"})
    return write_atomically(path, text.encode(), "choose a writable place with -o")


def build(directories: Sequence[Path], date: str, recipe: Recipe, more: dict[str, Any]) -> str:
    """Read some runs and build their page.

    Args:
        directories: of the runs, each given once.
        date: when the page is made, as text for its head.
        recipe: says for a run how to get it again.
        more: what else the page is told: `command`, the command line that makes it, and `watch`, the seconds from one
            reload to the next where it is served.

    Returns:
        HTML.

    Raises:
        ArtefactError: if a run is given twice, cannot be read or holds no rollout.
    """
    places = [directory.resolve() for directory in directories]
    for directory, place in zip(directories, places, strict=True):
        require(places.count(place) == 1, f"{directory} is given twice; give every run once", ArtefactError)
    readings = [read_run(directory) for directory in directories]
    for reading in readings:
        require(
            reading.state.memory.size > 0,
            f"{reading.directory} holds no rollout yet; wait for the first one, or leave it out",
            ArtefactError,
        )
    return build_page(collect_data(readings, date, recipe) | more)


def collect_data(readings: Sequence[Reading], date: str, recipe: Recipe) -> dict[str, Any]:
    """Collect everything that the page shows, as plain values.

    Args:
        readings: the runs, as they were read.
        date: when the page is made, as text for its head.
        recipe: says for a run how to get it again.

    Returns:
        What the script of the page reads as JSON.
    """
    runs = [
        describe_run(reading, recipe)
        | {"section": build_section(reading) if i < MOST_SECTIONS else _explain_left_out()}
        for i, reading in enumerate(readings)
    ]
    return {
        "made": date,
        "versions": read_versions(),
        "groups": [summarise_group(readings, members) for members in group_runs(readings)],
        "runs": runs,
    }


def _explain_left_out() -> dict[str, str]:
    return {
        "missing": f"Only the first {MOST_SECTIONS} runs of a page carry their surrogate, so that it stays small. "
        "Name this run earlier, or make a page of its own."
    }
