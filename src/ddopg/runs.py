"""A run directory: what a training run leaves behind, written while it goes.

`config.json` (how to repeat it), `progress.csv` (a row per rollout), `evaluation.csv` (a row per evaluation of the
incumbent), `policy.safetensors` (the incumbent), `learning_curve.png`.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from ddopg.algorithm import Info
from ddopg.errors import ArtefactError

POLICY = "policy.safetensors"
EVALUATION = ("steps", "rollout", "mean", "std", "worst", "episodes")


class RunDirectory:
    """The writer: one method per file."""

    def __init__(self, path: Path, description: dict[str, Any]) -> None:
        self.path = path
        if (path / POLICY).exists():
            raise ArtefactError(
                f"{path} already holds a policy; choose another directory with --out, or remove this one"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "config.json").write_text(json.dumps(description, indent=2) + "\n")
            self._start("progress.csv", Info._fields)
            self._start("evaluation.csv", EVALUATION)
        except OSError as error:
            raise ArtefactError(
                f"cannot write into {path}: {error.strerror or error}; choose a writable directory with --out"
            ) from error

    @property
    def policy(self) -> Path:
        """Where the incumbent is kept."""
        return self.path / POLICY

    @property
    def curve(self) -> Path:
        """Where the picture is drawn."""
        return self.path / "learning_curve.png"

    def rollout(self, info: Info) -> None:
        """One rollout happened."""
        self._append("progress.csv", info)

    def evaluation(self, info: Info, returns: np.ndarray) -> None:
        """The incumbent was evaluated on fresh episodes."""
        row = (info.steps, info.rollout, returns.mean(), returns.std(), returns.min(), len(returns))
        self._append("evaluation.csv", row)

    def _start(self, name: str, header: tuple[str, ...]) -> None:
        with (self.path / name).open("w", newline="") as file:
            csv.writer(file).writerow(field.rstrip("_") for field in header)

    def _append(self, name: str, row: tuple) -> None:
        with (self.path / name).open("a", newline="") as file:
            csv.writer(file).writerow(row)


def policy_file(source: Path) -> Path:
    """The policy of a run directory, or the file itself."""
    return source / POLICY if source.is_dir() else source


def read_table(path: Path) -> dict[str, list[float]]:
    """The columns of a CSV file of this module; texts become NaN."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [_number(row[name]) for row in rows] for name in (rows[0] if rows else {})}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
