"""The files beside the run store: the incumbent, and tables and a picture made from the store for other programs.

`policy.safetensors` (the incumbent), `progress.csv` (a row per rollout), `evaluation.csv` (a row per evaluation of
the incumbent), `learning_curve.png`. Nothing is ever read back from them to go on with a run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddopg.algorithm import Info
from ddopg.artefact import write_atomically
from ddopg.rows import Evaluation

POLICY = "policy.safetensors"
PROGRESS = "progress.csv"
EVALUATION = "evaluation.csv"
CURVE = "learning_curve.png"
EVALUATION_COLUMNS = ("steps", "rollout", "mean", "std", "worst", "episodes")


def write_tables(directory: Path, log: Iterable[dict[str, Any]], evaluations: Iterable[Evaluation]) -> None:
    """Both tables, each whole or not at all."""
    names = [name.rstrip("_") for name in Info._fields]
    _write(directory / PROGRESS, names, ([row[name] for name in names] for row in log))
    rows = ([getattr(row, name) for name in EVALUATION_COLUMNS] for row in evaluations)
    _write(directory / EVALUATION, EVALUATION_COLUMNS, rows)


def remove_drafts(directory: Path) -> None:
    """What a killed process left half-written."""
    for draft in directory.glob(".*.draft"):
        with suppress(OSError):
            draft.unlink()


def policy_file(source: Path) -> Path:
    """The policy of a run directory, or the file itself."""
    return source / POLICY if source.is_dir() else source


def read_table(path: Path) -> dict[str, list[float]]:
    """The columns of a CSV file of this module; texts become NaN."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [_number(row[name]) for row in rows] for name in (rows[0] if rows else {})}


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
