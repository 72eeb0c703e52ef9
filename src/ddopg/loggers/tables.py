"""The tables `progress.csv` and `evaluation.csv`, a row at a time, while the run goes on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
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
    """Writes both tables into a directory: what the run store gives at the end, byte for byte, but at once.

    Args:
        directory: Where `progress.csv` and `evaluation.csv` are, or will be.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import ddopg
        >>> from ddopg.loggers import CsvLogger, Logging
        >>> agent = ddopg.DDOPG("cartpole", seed=16)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     _ = agent.learn(total_episodes=3, callback=Logging(CsvLogger(directory)))
        ...     lines = (Path(directory) / "progress.csv").read_text().splitlines()
        >>> len(lines), lines[0].split(",")[:2]
        (4, ['rollout', 'steps'])
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def begin(self, about: Mapping[str, Any]) -> int:
        """Find the last whole row and remove what a kill left of another one.

        Args:
            about: What the run is about; see `Logger.begin`.

        Returns:
            The number of the last rollout that is already there.
        """
        reached = continue_table(self.directory / PROGRESS, PROGRESS_COLUMNS)
        continue_table(self.directory / EVALUATION, EVALUATION_COLUMNS, reached)
        return reached

    def write(self, values: Values, step: int) -> None:
        """Write the rows of a rollout, the evaluation first: a row of `progress.csv` says that all of it is there.

        Args:
            values: Name → number or text.
            step: Environment steps so far.
        """
        if EVALUATED["mean"] in values:
            append_row(self.directory / EVALUATION, _pick(values, step, EVALUATION_COLUMNS))
        append_row(self.directory / PROGRESS, _pick(values, step, PROGRESS_COLUMNS))

    def close(self) -> None:
        """Do nothing: no file is kept open."""


def _pick(values: Values, step: int, columns: Sequence[str]) -> list[Any]:
    """The cells of a row; what is not among the values is NaN."""
    names = (EVALUATED.get(column, f"{OWN}{column}") for column in columns)
    cells = [values.get(name, math.nan) for name in names]
    cells[columns.index("steps")] = step
    return cells


def make(directory: Path, project: str) -> CsvLogger:
    """Make the logger of a run; the project does not matter."""
    return CsvLogger(directory)
