"""Loggers: views of a run as CSV, for TensorBoard, Weights & Biases and MLflow, behind one small interface.

`agent.learn(…, callback=Logging(TensorBoardLogger("logs")))`. A logger of your own has the three methods of `Logger`.
Light to import: the command line takes the names of its option `--log` from the table `LOGGERS`. May import the
callbacks, `storage`, `rollouts` and what these import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddopg.loggers.base import Logger, Values, is_installed, scalars
from ddopg.support.imports import import_object

if TYPE_CHECKING:
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

LOGGERS: dict[str, str | Callable[[Path, str], Logger]] = {
    "csv": "ddopg.loggers.tables:make",
    "tensorboard": "ddopg.loggers.events:make",
    "wandb": "ddopg.loggers.weights_and_biases:make",
    "mlflow": "ddopg.loggers.mlflow_runs:make",
}
"""Name on the command line → `module:function`, or the function: of a run directory and a project, makes a logger."""

_HOMES = {
    "CsvLogger": "tables",
    "Logging": "callback",
    "MlflowLogger": "mlflow_runs",
    "TensorBoardLogger": "events",
    "WandbLogger": "weights_and_biases",
}


def loggers_for(names: Sequence[str], directory: Path, project: str) -> list[Logger]:
    """Make the loggers of a run. None of them is begun.

    Args:
        names: Keys of `LOGGERS`; without any, TensorBoard's where tensorboardX is installed. The tables (csv) are
            always among them.
        directory: The directory of the run.
        project: Project of Weights & Biases, or experiment of MLflow.

    Returns:
        The loggers, each once.

    Raises:
        MissingPackageError: The package of a named logger is not installed.

    Example:
        >>> from pathlib import Path
        >>> from ddopg.loggers import loggers_for
        >>> [type(logger).__name__ for logger in loggers_for(["csv"], Path("runs"), "mine")]
        ['CsvLogger']
    """
    usual = ("tensorboard",) if is_installed("tensorboardX") else ()
    wanted = dict.fromkeys(("csv", *(names or usual)))
    return [import_object(LOGGERS[name])(directory, project) for name in wanted]


def __getattr__(name: str) -> Any:
    """Load the callback and the loggers on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_object(f"{__name__}.{_HOMES[name]}:{name}")
