"""The command `report`: an HTML report of some runs, written to a file or served while they go on."""

from __future__ import annotations

import shlex
import time

from ddopg import report as pages
from ddopg.cli.options import Report
from ddopg.cli.reproduce import make_recipe
from ddopg.errors import require
from ddopg.report.watching import ADDRESS, SECONDS, LivePage, open_server
from ddopg.support.compilation import keep_compiled_programs

DATE = "%Y-%m-%d %H:%M"


def report(command: Report) -> None:
    """Write one page of all the runs, or serve it."""
    require(len(command.directories) > 0, "give at least one run: ddopg report DIR... -o report.html")
    keep_compiled_programs()
    if command.watch:
        watch(command)
        return
    path = pages.write(command.directories, command.out, time.strftime(DATE), make_recipe)
    print(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)")


def watch(command: Report) -> None:
    """Serve the page on this machine until Ctrl-C."""
    words = ["ddopg", "report", *map(str, command.directories), "--watch"]
    more = {"command": shlex.join(words), "watch": SECONDS}

    def build() -> str:
        return pages.build(command.directories, time.strftime("%Y-%m-%d %H:%M:%S"), make_recipe, more)

    with open_server(LivePage(command.directories, build), command.port) as server:
        print(f"report: http://{ADDRESS}:{server.server_port}/ (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("report: ended")
