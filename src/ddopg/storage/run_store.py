"""The run store: every rollout, the learner's state and its log in one SQLite file, `run.sqlite`.

One transaction per `tell`, and its cost does not grow with what is stored: a rollout is one new row, and the row of
the state is replaced. SQLite writes both into its log; a checkpoint moves them into the file itself, after ten
transactions at the latest. Every row carries a checksum (SHA-256), so a flipped bit is found when the run is opened.
docs/run-format.md describes the file for readers of any kind.
"""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ddopg.core.algorithm import Info
from ddopg.core.policy_building import build_policy
from ddopg.core.state import Proposal, State
from ddopg.core.types import Description, Evaluation, Failure
from ddopg.errors import StoreError, require
from ddopg.policies import Policy
from ddopg.storage import database, reading, rows
from ddopg.storage.codec import encode_state
from ddopg.storage.guard import WRITING, guard_statements
from ddopg.storage.policy_file import require_class, require_same_parameters

CHECKPOINT_WRITES, CHECKPOINT_SECONDS = 10, 1.0
"""After so many transactions, or so long after the last time, what is in the log moves into the file itself."""


class Tip(NamedTuple):
    """Where a store stands: what the next transaction goes on from."""

    rollouts: int
    chain: bytes  # checksum of the last rollout
    state: bytes  # checksum of the state


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
        tip: Tip,
        held: ExitStack,
    ) -> None:
        self.directory, self.path = directory, directory / database.STORE
        self.description = description
        self._connection = connection
        self._tip = tip
        self._writes, self._checkpointed = 0, time.monotonic()  # since the last checkpoint; when that was
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
            database.require_no_run(path)
            connection = held.enter_context(closing(database.create(path)))
            with guard_statements(path, WRITING, connection):
                connection.executemany("INSERT INTO run VALUES (?, ?)", texts.items())
                connection.execute("INSERT INTO state VALUES (?, ?)", (content, rows.digest(b"", content)))
                connection.execute("COMMIT")
            database.checkpoint(connection)
            database.sync_directory(directory)
            tip = Tip(0, b"", rows.digest(b"", content))
            return cls(directory, description, connection, tip, held.pop_all())

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
                require_class("the run", about.own_policy, network, about.policy_home)
                policy = build_policy(about.problem, about.config, network)
                require_same_parameters("the run", about.parameters, policy)
                state, chain = reading.fetch_state(connection, about, network)
                (checksum,) = connection.execute("SELECT checksum FROM state").fetchone()
            database.checkpoint(connection)
            tip = Tip(state.memory.size, chain, checksum)
            return cls(directory, about, connection, tip, held.pop_all()), state

    def save_state(self, state: State) -> None:
        """Proposals were handed out: they can be told by another process, or after a crash."""
        content = encode_state(state)
        tip = Tip(state.memory.size, self._tip.chain, rows.digest(self._tip.chain, content))
        self._require_together(tip.rollouts == self._tip.rollouts)
        with self._transaction():
            self._replace_state(content, tip)
        self._tip = tip

    def tell(self, proposal: Proposal, state: State, info: Info) -> None:
        """The newest rollout of the memory, the state after it and its row of the log: one transaction."""
        number, value = state.memory.size, float(state.memory.returns[-1])
        row = rows.rollout_to_row(number, proposal, state.memory.trajectories[-1], value, info)
        content, chain = encode_state(state), rows.digest(self._tip.chain, *row)
        tip = Tip(number, chain, rows.digest(chain, content))
        self._require_together(tip.rollouts == self._tip.rollouts + 1)
        with self._transaction():
            self._insert("rollout", (*row, chain))
            self._replace_state(content, tip)
        self._tip = tip

    def add_evaluation(self, row: Evaluation) -> None:
        """The incumbent was evaluated."""
        with self._transaction():
            self._insert("evaluation", (*row, rows.digest(*row)))

    def add_failure(self, failure: Failure) -> None:
        """A rollout could not be used."""
        with self._transaction():
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

    def _replace_state(self, content: bytes, tip: Tip) -> None:
        """Only what this writer wrote last is replaced; the checksum covers that of the last rollout too."""
        replaced = self._connection.execute(
            "UPDATE state SET content = ?, checksum = ? WHERE checksum = ?",
            (content, tip.state, self._tip.state),
        )
        self._require_together(replaced.rowcount == 1)

    def _require_together(self, together: bool) -> None:
        """An interruption that could wait no longer may have come between the disk and the learner."""
        require(
            together,
            f"{self.path} is not where this learner left it: a write was interrupted, or another program has written "
            f"there. Nothing was written now; go on with DDOPG.resume({str(self.directory)!r})",
            StoreError,
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with database.transaction(self._connection, self.path):
            yield
        self._writes += 1
        now = time.monotonic()
        if self._writes >= CHECKPOINT_WRITES or now - self._checkpointed >= CHECKPOINT_SECONDS:
            database.checkpoint(self._connection)
            self._writes, self._checkpointed = 0, time.monotonic()
