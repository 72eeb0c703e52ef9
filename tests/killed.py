"""A training process that can kill itself in a transaction: `python -m tests.killed FATAL NOTES ARGUMENTS`.

It dies by SIGKILL before its FATAL-th SQL statement (0: never); if FATAL is negative, inside a statement of a
transaction, after that many steps of SQLite's machine. Every commit that has returned is noted in the file NOTES as
the number of rollouts that must be there from now on; a death inside a transaction is noted in NOTES.torn.
"""

import os
import signal
import sqlite3
import sys

from ddopg.cli.main import main
from ddopg.storage import database as tables


def die(connection):
    if connection.in_transaction:
        note(f"{Fatal.notes}.torn", "torn")
    os.kill(os.getpid(), signal.SIGKILL)


def note(path, text):
    with open(path, "a") as file:
        file.write(f"{text}\n")


class Fatal(sqlite3.Connection):
    """A real connection that counts."""

    fatal, statements, opcodes, notes = 0, 0, 0, ""

    def execute(self, sql, *values):
        Fatal.statements += 1
        if Fatal.statements == Fatal.fatal:
            die(self)
        if Fatal.fatal < 0 and Fatal.statements == 1:
            super().set_progress_handler(self.count, 1)
        result = super().execute(sql, *values)
        if sql == "COMMIT":
            (rollouts,) = super().execute("SELECT count(*) FROM rollout").fetchone()
            note(Fatal.notes, rollouts)
        return result

    def set_progress_handler(self, handler, steps):
        """The limit of a store has to give way to the one that counts."""
        if Fatal.fatal >= 0:
            super().set_progress_handler(handler, steps)

    def count(self):
        Fatal.opcodes += self.in_transaction
        if Fatal.opcodes == -Fatal.fatal:
            die(self)


class Sqlite:
    """The module sqlite3, whose connections are fatal ones."""

    def __getattr__(self, name):
        return getattr(sqlite3, name)

    @staticmethod
    def connect(*arguments, **options):
        return sqlite3.connect(*arguments, factory=Fatal, **options)


if __name__ == "__main__":
    Fatal.fatal, Fatal.notes = int(sys.argv[1]), sys.argv[2]
    tables.sqlite3 = Sqlite()
    print("started", flush=True)
    sys.exit(main(sys.argv[3:]))
