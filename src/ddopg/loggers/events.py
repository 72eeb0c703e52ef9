"""TensorBoard's event files, written with tensorboardX.

Its `SummaryWriter` hands events to a thread, where an error is lost; here they are written at once with its parts.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ddopg.loggers.base import ROLLOUT, Values, list_hyperparameters, require_installed, scalars

FILES = "events.out.tfevents.*"
METRICS = ("eval/mean_reward", "rollout/ep_rew_mean", "ddopg/incumbent")  # of the table of hyperparameters


class TensorBoardLogger:
    """Writes one event per rollout, with all its values, into event files of TensorBoard.

    Args:
        directory: What `tensorboard --logdir` is given, or a directory below it.

    Raises:
        MissingPackageError: tensorboardX is not installed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import ddopg
        >>> from ddopg.loggers import Logging, TensorBoardLogger
        >>> agent = ddopg.DDOPG("cartpole", seed=16)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     _ = agent.learn(total_episodes=3, callback=Logging(TensorBoardLogger(directory)))
        ...     len(list(Path(directory).glob("events.out.tfevents.*")))
        1
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        require_installed("tensorboardX", "TensorBoard's event files need tensorboardX", "tensorboard")
        self.directory = Path(directory)
        self._writer: Any = None

    def begin(self, about: Mapping[str, Any]) -> int:
        """Find the last rollout in all event files. A new file is begun when there is something to write.

        Args:
            about: What the run is about; see `Logger.begin`.

        Returns:
            The number of the last rollout that is already there.
        """
        files = sorted(self.directory.glob(FILES))
        self._about, self._number, self._writer = about, len(files), None
        return max(
            (rollout for file in files for event in read_events(file) for rollout in _find_rollouts(event)),
            default=0,
        )

    def write(self, values: Values, step: int) -> None:
        """Write all values of the step as one event: there are no halves of it.

        Args:
            values: Name → number or text.
            step: Environment steps so far.
        """
        from tensorboardX.proto.summary_pb2 import Summary

        found = (Summary.Value(tag=name, simple_value=value) for name, value in scalars(values).items())
        if self._writer is None:
            self._open()
        self._add(Summary(value=found), step)

    def close(self) -> None:
        """Close the file, if one was begun."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> None:
        """Begin a file for this part of the run; the first one has the settings."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.summary import hparams

        self.directory.mkdir(parents=True, exist_ok=True)
        # The name has the time in seconds: only with its number it is never one that is there.
        self._writer = EventsWriter(str(self.directory / "events"), f".{self._number}")
        if self._number == 0:
            experiment, session, _ = hparams(list_hyperparameters(self._about), dict.fromkeys(METRICS, 0.0))
            self._add(experiment, 0)
            self._add(session, 0)
        self._number += 1

    def _add(self, summary: Any, step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()


def make(directory: Path, project: str) -> TensorBoardLogger:
    """Make the logger of a run; the project does not matter."""
    return TensorBoardLogger(directory)


def read_events(path: Path) -> Iterator[Any]:
    """Read the whole events of a file: length (8 bytes), its checksum (4), the event, its checksum (4), and so on."""
    from tensorboardX.proto.event_pb2 import Event

    with path.open("rb") as file:
        while len(head := file.read(12)) == 12:
            (length,) = struct.unpack("<Q", head[:8])
            data = file.read(length + 4)
            if len(data) < length + 4:
                return
            yield Event.FromString(data[:length])


def _find_rollouts(event: Any) -> list[int]:
    return [int(value.simple_value) for value in event.summary.value if value.tag == ROLLOUT]
