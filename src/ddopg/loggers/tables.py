"""The tables `progress.csv` and `evaluation.csv`, a row at a time, while the run goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddopg.loggers.base import Values
from ddopg.loggers.naming import EVALUATED, OWN
from ddopg.storage.exports import (
    EVALUATION,
    EVALUATION_COLUMNS,
    PROGRESS,
    PROGRESS_COLUMNS,
    append_row,
    continue_table,
)


class CsvLogger:
    """Both tables in a directory: what `exports` makes of a run store, byte for byte, but at once."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def begin(self, about: Mapping[str, Any]) -> int:
        """Go on after the last whole row; what a kill left of another one is removed."""
        reached = continue_table(self.directory / PROGRESS, PROGRESS_COLUMNS)
        continue_table(self.directory / EVALUATION, EVALUATION_COLUMNS, reached)
        return reached

    def write(self, values: Values, step: int) -> None:
        """The evaluation first: a row of `progress.csv` says that everything of it is there."""
        row = {"steps": step} | {name.removeprefix(OWN): value for name, value in values.items()}
        if EVALUATED["mean"] in values:
            measured = {column: values[name] for column, name in EVALUATED.items()}
            append_row(self.directory / EVALUATION, EVALUATION_COLUMNS, row | measured)
        append_row(self.directory / PROGRESS, PROGRESS_COLUMNS, row)

    def close(self) -> None:
        """Nothing is kept open."""
