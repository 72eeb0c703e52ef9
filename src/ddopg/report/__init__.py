"""`ddopg report`: runs become one self-contained page. First the data (store → plain values), then the page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddopg.errors import ArtefactError, require
from ddopg.report.groups import grouped, summary
from ddopg.report.history import Recipe, story_of
from ddopg.report.page import document
from ddopg.report.section import cross_section
from ddopg.report.versions import versions
from ddopg.storage.reading import Reading, read_run
from ddopg.support.files import write_atomically

MOST_SECTIONS = 12  # runs whose surrogate the page can compute: about 100 kB each


def write(directories: Sequence[Path], path: Path, made: str, recipe: Recipe) -> Path:
    """Read the runs, write the page whole or not at all; `made` says when, `recipe` how to get a run again."""
    require(
        path.suffix.lower() in (".html", ".htm"),
        f"the page must be called something.html, got {path.name!r}",
        ArtefactError,
    )
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
    words = ["report", *map(str, directories), "-o", str(path)]
    text = document(collected(readings, made, recipe) | {"command": f"ddopg {shlex.join(words)}"})
    return write_atomically(path, text.encode(), "choose a writable place with -o")


def collected(readings: Sequence[Reading], made: str, recipe: Recipe) -> dict[str, Any]:
    """Everything that the page shows, as plain values."""
    runs = [
        story_of(reading, recipe) | {"section": cross_section(reading) if i < MOST_SECTIONS else _left_out()}
        for i, reading in enumerate(readings)
    ]
    return {
        "made": made,
        "versions": versions(),
        "groups": [summary(readings, members) for members in grouped(readings)],
        "runs": runs,
    }


def _left_out() -> dict[str, str]:
    return {
        "missing": f"Only the first {MOST_SECTIONS} runs of a page carry their surrogate, so that it stays small. "
        "Name this run earlier, or make a page of its own."
    }
