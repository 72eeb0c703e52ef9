"""The run store: every rollout, the learner's state and its log in one SQLite file, `run.sqlite`.

One transaction per `tell`, and its cost does not grow with what is stored: a rollout is one new row, and the row of
the state is replaced. Every row carries a checksum (SHA-256), so a flipped bit is found when the run is opened.
docs/run-format.md describes the file for readers of any kind.
"""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from ddopg.core.algorithm import Info
from ddopg.core.state import Proposal, State
from ddopg.core.types import Description, Evaluation, Failure
from ddopg.errors import StoreError, require
from ddopg.policies import Policy
from ddopg.storage import database, reading, rows
from ddopg.storage.codec import encode_state
from ddopg.storage.guard import WRITING, guard_statements
from ddopg.storage.policy_file import require_class


class RunStore:
    """The one writer of a run; `create` begins one, `resume` goes on with one.

    Attributes:
        directory: of the run.
        path: the file.
        description: what the run is about.
    """

    def __init__(
        self,
        directory: Path,
        description: Description,
        connection: sqlite3.Connection,
        chain: bytes,
        held: ExitStack,
    ) -> None:
        self.directory, self.path = directory, directory / database.STORE
        self.description = description
        self._connection = connection
        self._chain = chain  # checksum of the last rollout
        self._close = weakref.finalize(self, held.close)  # the connection, then the lock

    @classmethod
    def create(cls, directory: Path, description: Description, state: State) -> RunStore:
        """Begin a run in a directory that holds none.

        Args:
            directory: made if it is not there.
            description: what the run is about.
            state: the learner before its first rollout.

        Raises:
            StoreError: where there is a run already, another process is at work, or nothing can be written.
        """
        texts, content = rows.description_to_rows(description), encode_state(state)
        with ExitStack() as held:
            held.callback(database.lock_directory(directory, create=True).release)
            path = directory / database.STORE
            require(
                database.is_empty(path),
                f"{directory} already holds a run; go on with ddopg resume {directory}, or choose another one",
                StoreError,
            )
            connection = held.enter_context(closing(database.create(path)))
            with guard_statements(path, WRITING, connection):
                connection.executemany("INSERT INTO run VALUES (?, ?)", texts.items())
                connection.execute("INSERT INTO state VALUES (?, ?)", _state_row(content, b""))
                connection.execute("COMMIT")
            database.sync_directory(directory)
            return cls(directory, description, connection, b"", held.pop_all())

    @classmethod
    def resume(cls, directory: Path, network: Policy | None = None) -> tuple[RunStore, State]:
        """Open a run, check everything that is in it, and take the place of its writer.

        Args:
            directory: of the run.
            network: the policy class, where the run was begun with the user's own.

        Raises:
            ArtefactError: for a run that is damaged, or of another version.
            StoreError: where another process is at work.
        """
        with ExitStack() as held:
            held.callback(database.lock_directory(directory, create=False).release)
            path = directory / database.STORE
            connection = held.enter_context(closing(database.open_existing(path)))
            with reading.report_damage(path, connection):
                about = reading.fetch_description(connection)
                require_class(str(path), about.own_policy, network)
                state, chain = reading.fetch_state(connection, about, network)
            return cls(directory, about, connection, chain, held.pop_all()), state

    def save_state(self, state: State) -> None:
        """Proposals were handed out: they can be told by another process, or after a crash."""
        content = encode_state(state)
        with database.transaction(self._connection, self.path):
            self._replace_state(content, self._chain)

    def tell(self, proposal: Proposal, state: State, info: Info) -> None:
        """The newest rollout of the memory, the state after it and its row of the log: one transaction."""
        number, value = state.memory.size, float(state.memory.returns[-1])
        row = rows.rollout_to_row(number, proposal, state.memory.trajectories[-1], value, info)
        content, chain = encode_state(state), rows.digest(self._chain, *row)
        with database.transaction(self._connection, self.path):
            self._insert("rollout", (*row, chain))
            self._replace_state(content, chain)
        self._chain = chain

    def add_evaluation(self, row: Evaluation) -> None:
        """The incumbent was evaluated."""
        with database.transaction(self._connection, self.path):
            self._insert("evaluation", (*row, rows.digest(*row)))

    def add_failure(self, failure: Failure) -> None:
        """A rollout could not be used."""
        with database.transaction(self._connection, self.path):
            (number,) = self._connection.execute("SELECT count(*) + 1 FROM failure").fetchone()
            row = (number, *failure)
            self._insert("failure", (*row, rows.digest(*row)))

    def evaluations(self) -> list[Evaluation]:
        """All of them, in order."""
        with reading.report_damage(self.path, self._connection):
            return reading.fetch_evaluations(self._connection)

    def failures(self) -> list[Failure]:
        """All of them, in order."""
        with reading.report_damage(self.path, self._connection):
            return reading.fetch_failures(self._connection)

    def log(self) -> list[dict[str, Any]]:
        """What each `tell` reported, in order."""
        with reading.report_damage(self.path, self._connection):
            return reading.fetch_log(self._connection)

    def close(self) -> None:
        """Let others in. What was told is already safe."""
        self._close()

    def _insert(self, table: str, row: tuple) -> None:
        self._connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def _replace_state(self, content: bytes, chain: bytes) -> None:
        self._connection.execute("UPDATE state SET content = ?, checksum = ?", _state_row(content, chain))


def _state_row(content: bytes, chain: bytes) -> tuple[bytes, bytes]:
    """The row of the table `state`; its checksum covers that of the last rollout too."""
    return content, rows.digest(chain, content)
