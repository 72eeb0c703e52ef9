"""The files beside the run store: the incumbent, and tables and a picture for other programs.

`policy.safetensors` (the incumbent), `progress.csv` (a row per rollout), `evaluation.csv` (a row per evaluation of
the incumbent), `learning_curve.png`. Nothing is ever read back from them to go on with a run.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddopg.core.types import Evaluation
from ddopg.storage.rows import LOG_COLUMNS
from ddopg.support.files import write_atomically

Row = Mapping[str, Any]  # column → value

POLICY = "policy.safetensors"
PROGRESS = "progress.csv"
EVALUATION = "evaluation.csv"
CURVE = "learning_curve.png"
PROGRESS_COLUMNS = LOG_COLUMNS
EVALUATION_COLUMNS = ("steps", "rollout", "mean", "std", "worst", "episodes")
END = "\r\n"  # of a row


def write_tables(directory: Path, log: Iterable[Row], evaluations: Iterable[Evaluation]) -> None:
    """Both tables, each whole or not at all."""
    for name, columns, rows in (
        (PROGRESS, PROGRESS_COLUMNS, log),
        (EVALUATION, EVALUATION_COLUMNS, (evaluation._asdict() for evaluation in evaluations)),
    ):
        cells = ([row.get(column, math.nan) for column in columns] for row in rows)  # NaN: not logged then
        text = "".join(map(_line, cells))
        write_atomically(directory / name, (_header(columns) + text).encode())


def append_row(path: Path, cells: Sequence[Any]) -> None:
    """One row more, in one piece, there for every reader when this returns."""
    with path.open("ab", buffering=0) as file:
        file.write(_line(cells).encode())


def continue_table(path: Path, columns: Sequence[str], up_to: float = math.inf) -> int:
    """Make the table ready for more rows: whole rows up to that rollout stay, others go. The rollout of the last."""
    text = path.read_bytes().decode(errors="replace") if path.exists() else ""
    header, *lines = text.split(END)[:-1] or [""]  # what follows the last end of a row is torn
    kept: list[str] = []
    reached = 0
    for line in lines if header + END == _header(columns) else []:
        row = dict(zip(columns, next(csv.reader([line]), []), strict=False))
        rollout = _number(row.get("rollout", ""))
        if not reached < rollout <= up_to:
            break
        kept.append(line + END)
        reached = int(rollout)
    write_atomically(path, (_header(columns) + "".join(kept)).encode())
    return reached


def remove_drafts(directory: Path) -> None:
    """What a killed process left half-written."""
    for draft in directory.glob(".*.draft"):
        with suppress(OSError):
            draft.unlink()


def find_policy_file(source: Path) -> Path:
    """The policy of a run directory, or the file itself."""
    return source / POLICY if source.is_dir() else source


def read_table(path: Path) -> dict[str, list[float]]:
    """The columns of a CSV file of this module; texts become NaN."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [_number(row[name]) for row in rows] for name in (rows[0] if rows else {})}


def _header(columns: Sequence[str]) -> str:
    return ",".join(columns) + END


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=END).writerow(cells)
    return text.getvalue()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
