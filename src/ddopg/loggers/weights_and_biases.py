"""Weights & Biases: a run of theirs for a run of ours, found again by its id."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddopg.loggers.base import ROLLOUT, Mark, Values, require_installed, scalars

MARK = "wandb.json"
PATIENCE = 120.0  # seconds at the end of a run for what is not uploaded yet; `wandb sync` uploads it later


class WandbLogger:
    """Logs to Weights & Biases, or beside the run in `wandb/` where it is offline (`mode="offline"`, WANDB_MODE).

    Args:
        directory: The directory of the run. `wandb.json` in it keeps the id of the run there, in which a resumed run
            goes on. Without a directory only this object knows the id.
        project: The project in which the run appears.
        **options: Those of `wandb.init`.

    Raises:
        MissingPackageError: wandb is not installed.

    Example:
        >>> import ddopg
        >>> from ddopg.loggers import Logging, WandbLogger
        >>> logger = WandbLogger("runs/mine", project="poles", mode="offline")  # doctest: +SKIP
        >>> ddopg.DDOPG("cartpole").learn(total_episodes=3, callback=Logging(logger))  # doctest: +SKIP
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, project: str = "ddopg", **options: Any
    ) -> None:
        require_installed("wandb", "logging to Weights & Biases needs wandb", "wandb")
        self.directory = None if directory is None else Path(directory)
        self.project, self.options = project, options
        self._mark = Mark(None if self.directory is None else self.directory / MARK)
        self._run: Any = None

    def begin(self, about: Mapping[str, Any]) -> int:
        """Begin or resume the run there. Online, the server says how far the log has come; offline, our file does.

        Args:
            about: What the run is about; see `Logger.begin`.

        Returns:
            The number of the last rollout that is already there.
        """
        import wandb

        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
        known = self._mark.read()
        # The terminal is ours, and a lost network must not hold up the end for ever.
        settings = wandb.Settings(console="off", finish_timeout=PATIENCE)
        options = {"settings": settings, **self.options}
        self._run = wandb.init(
            project=self.project,
            dir=None if self.directory is None else str(self.directory),
            id=known.get("id"),
            resume="allow",
            config=dict(about),
            **options,
        )
        self._mark.keep(id=self._run.id)
        return int(known.get("rollout", 0) if self._run.offline else self._run.summary.get(ROLLOUT) or 0)

    def write(self, values: Values, step: int) -> None:
        """Log the numbers; the step there is the number of environment steps.

        Args:
            values: Name → number or text.
            step: Environment steps so far.
        """
        self._run.log(scalars(values), step=step)
        self._mark.keep(rollout=values[ROLLOUT])

    def close(self) -> None:
        """End the run there, with what is not uploaded yet."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def make(directory: Path, project: str) -> WandbLogger:
    """Make the logger of a run."""
    return WandbLogger(directory, project)
