"""Processes that are killed: `python -m tests.killed` forks one for each line that it reads, and says how it ended.

A line is an order in JSON: the arguments of `ddopg` and how the process is to die (see `Order`), or a command of the
shell. Everything is imported once, before the first fork; JAX starts in each process anew, as threads do not survive
a fork.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from importlib import import_module
from typing import NamedTuple

from ddopg.cli.main import main
from ddopg.storage import database as tables

MODULES = ("train", "robot", "policy", "report", "backup", "bench", "tune", "learning_curve")
FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "sqlite3.connect"}
LOOK = 0.002  # seconds between two looks at a process


class Order(NamedTuple):
    """A process to be started, and the death it is to die; the first of several that comes."""

    arguments: list[str]
    said: str  # the file for what it prints
    notes: str = ""  # a line for each commit that has returned: how many rollouts must be there from now on
    statement: int = 0  # before which SQL statement it dies; 0: never
    opcode: int = 0  # after how many steps of SQLite's machine inside a transaction
    event: int = 0  # before which opening of a file to write, renaming, removal, and so on
    after: float | None = None  # seconds after which it is killed from outside
    noted: bool = False  # these seconds are counted from the next note
    cwd: str = "."
    variables: dict[str, str] | None = None  # of its environment, added to ours
    grace: float = 0.0  # seconds until `ddopg tune` gives up a trial for dead; 0: the package's own


class Fatal(sqlite3.Connection):
    """A real connection that counts, and kills its process. A death inside a transaction is noted in NOTES.torn."""

    order = Order([], "")
    statements, opcodes = 0, 0

    def execute(self, sql, *values):
        Fatal.statements += 1
        if Fatal.statements == self.order.statement:
            self.die()
        if self.order.opcode and Fatal.statements == 1:
            super().set_progress_handler(self.count, 1)
        result = super().execute(sql, *values)
        if sql == "COMMIT" and self.order.notes:
            (rollouts,) = super().execute("SELECT count(*) FROM rollout").fetchone()
            note(self.order.notes, rollouts)
        return result

    def set_progress_handler(self, handler, steps):
        """The limit of a store has to give way to the one that counts."""
        if not self.order.opcode:
            super().set_progress_handler(handler, steps)

    def count(self):
        Fatal.opcodes += self.in_transaction
        if Fatal.opcodes == self.order.opcode:
            self.die()

    def die(self):
        if self.in_transaction and self.order.notes:
            note(f"{self.order.notes}.torn", "torn")
        os.kill(os.getpid(), signal.SIGKILL)


class Sqlite:
    """The module sqlite3, whose connections are fatal ones."""

    def __getattr__(self, name):
        return getattr(sqlite3, name)

    @staticmethod
    def connect(*arguments, **options):
        return sqlite3.connect(*arguments, factory=Fatal, **options)


def note(path, text):
    with open(path, "a") as file:
        file.write(f"{text}\n")


def count_file_events(fatal):
    """From now on, the process dies before its `fatal`-th change of a file system."""
    met = 0

    def hook(name, arguments):
        nonlocal met
        met += name in FILE_EVENTS or (name == "open" and is_writing(arguments[2]))
        if met == fatal:
            met += 1  # killing is an event too
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def is_writing(flags):
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def live(order):
    """The life of the process, in the process itself."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, path in ((0, os.devnull), (1, order.said), (2, order.said)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), descriptor)
    os.chdir(order.cwd)
    os.environ.update(order.variables or {})
    tempfile.tempdir = None  # looked for anew
    Fatal.order = order
    tables.sqlite3 = Sqlite()
    if order.grace:
        storages = import_module("ddopg.experiments.tuning.storages")
        storages.HEARTBEAT, storages.GRACE = 1, order.grace
    if order.event:
        count_file_events(order.event)
    return main(order.arguments)


def watch(pid, order):
    """Wait for the end of a process, and kill it when its time has come. Returns its exit code."""
    written, due = size_of(order.notes), None
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if due is None and order.after is not None and (not order.noted or size_of(order.notes) > written):
            due = time.monotonic() + order.after
        if due is not None and time.monotonic() >= due:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        time.sleep(LOOK)


def size_of(path):
    return os.path.getsize(path) if path and os.path.exists(path) else 0


def serve():
    for module in MODULES:
        import_module(f"ddopg.cli.{module}")
    print("ready", flush=True)
    for line in sys.stdin:
        what, began = json.loads(line), time.monotonic()
        if "shell" in what:
            print(
                json.dumps([subprocess.run(what["shell"], shell=True, check=False).returncode, 0]), flush=True
            )
            continue
        order = Order(**what)
        pid = os.fork()
        if not pid:
            code = 70
            try:
                code = live(order)
            except BaseException:
                traceback.print_exc()
            sys.exit(code)
        code = watch(pid, order)
        print(json.dumps([code, time.monotonic() - began]), flush=True)


if __name__ == "__main__":
    serve()
