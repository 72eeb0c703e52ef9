"""A nursery of processes that are killed, seen from the test."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.traps import ROOT

KILLED = -signal.SIGKILL


class Life(NamedTuple):
    """How a process ended."""

    code: int
    said: str
    seconds: float

    @property
    def killed(self):
        return self.code == KILLED


class Nursery:
    """Starts `ddopg` in processes that are forked from one that has imported everything; see `tests.killed.Order`."""

    def __init__(self, process, place):
        self._process, self._said = process, place / "said"
        self.lives = self.deaths = 0

    def live(self, arguments, **death):
        """One life: of a process that is killed, or of one that comes to its end without a traceback."""
        self._said.unlink(missing_ok=True)
        order = {"arguments": [*map(str, arguments)], "said": str(self._said), **death}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code, seconds = json.loads(self._process.stdout.readline())
        life = Life(code, self._said.read_text(errors="replace") if self._said.exists() else "", seconds)
        assert "Traceback" not in life.said, life.said
        self.lives, self.deaths = self.lives + 1, self.deaths + life.killed
        return life

    def finish(self, arguments, **options):
        """A life that nothing ends but its work."""
        life = self.live(arguments, **options)
        assert life.code == 0, life.said
        return life


@contextmanager
def open_nursery(place: Path):
    command = [sys.executable, "-W", "ignore", "-m", "tests.killed"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield Nursery(process, place)
        process.stdin.close()
