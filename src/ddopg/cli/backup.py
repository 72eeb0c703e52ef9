"""The command `backup`: one file of a run, also while it goes on."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ddopg.cli.options import Backup
from ddopg.storage.backup import write_backup


def backup(command: Backup) -> None:
    """Write everything that a run holds now into one file."""
    rollouts = write_backup(command.directory, command.target)
    Console().print(
        f"backup: {escape(str(command.target))} ({rollouts:,} rollouts)", highlight=False, soft_wrap=True
    )
