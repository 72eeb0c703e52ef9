"""The command `report`: one page of some runs."""

from __future__ import annotations

import time

from ddopg import report as pages
from ddopg.cli.options import Report
from ddopg.cli.reproduce import make_recipe
from ddopg.errors import require
from ddopg.support.compilation import keep_compiled_programs


def report(command: Report) -> None:
    """Write one page of all the runs."""
    require(len(command.directories) > 0, "give at least one run: ddopg report DIR... -o report.html")
    keep_compiled_programs()
    path = pages.write(command.directories, command.out, time.strftime("%Y-%m-%d %H:%M"), make_recipe)
    print(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)")
