"""Preset files: a named preset and what is changed of it, as TOML or JSON. `ddopg tune` writes one, people can too.

preset = "default"              # where it starts from; "default" if left out
[changes]
search.radius = 0.5             # part.field
[note]                          # whatever should be known of it; not read
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ddopg.config import Config, preset
from ddopg.errors import ArtefactError, ConfigError, require, unknown
from ddopg.support.records import change, flatten

LARGEST_FILE = 2**20  # bytes
PARTS = ("preset", "changes", "note")
SUFFIXES = (".json", ".toml")


class PresetFile(NamedTuple):
    """What a file says."""

    preset: str  # where it starts from
    config: Config
    note: dict[str, Any]


def read(path: str | os.PathLike[str]) -> PresetFile:
    """A preset file, every name and value of it checked."""
    values = read_table(Path(path))
    try:
        for name in values:
            if name not in PARTS:
                raise unknown("part of a preset file", name, PARTS)
        start, changes, note = (
            values.get("preset", "default"),
            values.get("changes", {}),
            values.get("note", {}),
        )
        require(isinstance(start, str), f"preset must be a name, got {start!r}")
        require(isinstance(changes, Mapping), f"changes must be a table of names and values, got {changes!r}")
        require(isinstance(note, dict), f"note must be a table, got {note!r}")
        return PresetFile(start, change(preset(start), flatten(changes)), note)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def load_config(path: str | os.PathLike[str]) -> Config:
    """The configuration of a preset file, such as `ddopg tune` writes: for `DDOPG(config=…)`.

    Args:
        path: a .toml or .json file: the name of a preset, and what is changed of it.

    Returns:
        The configuration.

    Raises:
        ConfigError: if a name or a value in it is wrong.
        ArtefactError: if it cannot be read.

    Example:
        >>> _ = Path("mine.toml").write_text('preset = "default"\\n[changes]\\nsearch.radius = 0.5\\n')
        >>> load_config("mine.toml").search.radius
        0.5
    """
    return read(path).config


def is_file(name: str) -> bool:
    """Whether a name means a preset file rather than a preset or a method."""
    return name.endswith(SUFFIXES)


def read_table(path: Path) -> dict[str, Any]:
    """The table that a TOML or JSON file holds."""
    require(
        path.suffix in SUFFIXES,
        f"a file of settings is .toml or .json, got {path}; rename it to what it is",
    )
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ArtefactError(f"cannot read {path}: {error.strerror or error}; check the path") from error
    require(len(data) <= LARGEST_FILE, f"{path} is larger than {LARGEST_FILE} bytes", ArtefactError)
    try:
        values = tomllib.loads(data.decode()) if path.suffix == ".toml" else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not {path.suffix[1:].upper()}: {error}; repair it") from error
    require(isinstance(values, dict), f"{path} must hold a table, got {type(values).__name__}")
    return values
