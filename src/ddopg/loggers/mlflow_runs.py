"""MLflow: a run of theirs for a run of ours, found again by its id."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddopg.loggers.base import ROLLOUT, Mark, Values, list_hyperparameters, require_installed, scalars

MARK = "mlflow.json"


class MlflowLogger:
    """Logs where MLflow is set to (MLFLOW_TRACKING_URI), by default to `mlflow.db` in the working directory.

    Args:
        directory: The directory of the run. `mlflow.json` in it keeps the id of the run there, in which a resumed run
            goes on; if that is gone, a new one gets everything. Without a directory only this object knows the id.
        experiment: The experiment in which the run appears.
        tracking_uri: Where to log, instead of MLFLOW_TRACKING_URI.

    Raises:
        MissingPackageError: mlflow is not installed.

    Example:
        >>> import ddopg
        >>> from ddopg.loggers import Logging, MlflowLogger
        >>> logger = MlflowLogger("runs/mine", tracking_uri="sqlite:///mlflow.db")  # doctest: +SKIP
        >>> ddopg.DDOPG("cartpole").learn(total_episodes=3, callback=Logging(logger))  # doctest: +SKIP
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        experiment: str = "ddopg",
        tracking_uri: str | None = None,
    ) -> None:
        require_installed("mlflow", "logging to MLflow needs mlflow-skinny", "mlflow")
        self.experiment, self.tracking_uri = experiment, tracking_uri
        self._mark = Mark(None if directory is None else Path(directory) / MARK)
        self._client: Any = None
        self._run = ""

    def begin(self, about: Mapping[str, Any]) -> int:
        """Begin or resume the run there.

        Args:
            about: What the run is about; see `Logger.begin`.

        Returns:
            The number of the last rollout that is already there.
        """
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(self.tracking_uri)
        known = self._mark.read().get("run")
        if known is not None and self._exists(known):
            self._run = known
            self._client.update_run(known, status="RUNNING")
        else:
            self._run = self._create(about)
            self._mark.keep(run=self._run)
        history = self._client.get_metric_history(self._run, ROLLOUT)
        return max((int(point.value) for point in history), default=0)

    def write(self, values: Values, step: int) -> None:
        """Log all numbers of the step in one batch.

        Args:
            values: Name → number or text.
            step: Environment steps so far.
        """
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in scalars(values).items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """Mark the run there as finished."""
        if self._client is not None and self._run:
            self._client.set_terminated(self._run)

    def _exists(self, run: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            self._client.get_run(run)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise
        return True

    def _create(self, about: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        found = self._client.get_experiment_by_name(self.experiment)
        place = found.experiment_id if found else self._client.create_experiment(self.experiment)
        name = f"{about.get('environment') or 'run'} seed {about.get('seed')}"
        run = self._client.create_run(place, run_name=name).info.run_id
        params = [Param(key, str(value)) for key, value in list_hyperparameters(about).items()]
        self._client.log_batch(run, params=params)
        return run


def make(directory: Path, project: str) -> MlflowLogger:
    """Make the logger of a run; the project is the experiment."""
    return MlflowLogger(directory, project)
