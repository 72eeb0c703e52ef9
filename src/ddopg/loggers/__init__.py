"""Loggers: views of a run as CSV, for TensorBoard, Weights & Biases and MLflow, behind one tiny interface.

`agent.learn(…, callback=Logging(TensorBoardLogger("logs")))`. A logger of your own has the three methods of `Logger`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ddopg.loggers.base import Logger, Values, is_installed, scalars
from ddopg.loggers.callback import Logging
from ddopg.loggers.events import TensorBoardLogger
from ddopg.loggers.mlflow_runs import MlflowLogger
from ddopg.loggers.tables import CsvLogger
from ddopg.loggers.weights_and_biases import WandbLogger

__all__ = [
    "LOGGERS",
    "CsvLogger",
    "Logger",
    "Logging",
    "MlflowLogger",
    "TensorBoardLogger",
    "Values",
    "WandbLogger",
    "loggers_for",
    "scalars",
]

LOGGERS: dict[str, Callable[[Path, str], Logger]] = {
    "csv": lambda directory, project: CsvLogger(directory),
    "tensorboard": lambda directory, project: TensorBoardLogger(directory),
    "wandb": WandbLogger,
    "mlflow": MlflowLogger,
}
"""Name on the command line → logger of a run directory and a project."""


def loggers_for(names: Sequence[str], directory: Path, project: str) -> list[Logger]:
    """Those named, or else TensorBoard's where it is installed; the tables always. None of them is begun."""
    usual = ("tensorboard",) if is_installed("tensorboardX") else ()
    return [LOGGERS[name](directory, project) for name in dict.fromkeys(("csv", *(names or usual)))]
