"""A nursery of processes that are killed, seen from the test."""

import json
import os
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

    @property
    def pid(self):
        """Of the process that forks."""
        return self._process.pid

    def live(self, arguments, **death):
        """One life: of a process that is killed, or of one that comes to its end without a traceback."""
        self._said.unlink(missing_ok=True)
        code, seconds = self._order(arguments=[*map(str, arguments)], said=str(self._said), **death)
        life = Life(code, self._said.read_text(errors="replace") if self._said.exists() else "", seconds)
        assert "Traceback" not in life.said, life.said
        self.lives, self.deaths = self.lives + 1, self.deaths + life.killed
        return life

    def shell(self, command):
        """A command where the processes live: they may have mounts of their own."""
        code, _ = self._order(shell=command)
        assert code == 0, command

    def finish(self, arguments, **options):
        """A life that nothing ends but its work."""
        life = self.live(arguments, **options)
        assert life.code == 0, life.said
        return life

    def _order(self, **order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def count_kills(most):
    """How many kills a test makes: all of them, or the share of them that the variable KILLS says."""
    return max(4, round(most * float(os.environ.get("KILLS", "1"))))


@contextmanager
def open_nursery(place: Path, *prefix):
    command = [*prefix, sys.executable, "-W", "ignore", "-m", "tests.killed"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield Nursery(process, place)
        process.stdin.close()
