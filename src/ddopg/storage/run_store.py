"""The run store: every rollout, the learner's state and its log in one SQLite file, `run.sqlite`.

One transaction per `tell`, and its cost does not grow with what is stored: a rollout is one new row, and of the state
what has changed is written anew. Every row carries a seal (SHA-256), so a flipped bit is found when the run is
opened. docs/run-format.md describes the file for readers of any kind.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddopg._version import __version__
from ddopg.core import algorithm
from ddopg.core.algorithm import Info
from ddopg.core.policy_update import init_opt_state
from ddopg.core.problem import Problem, build_policy
from ddopg.core.state import Proposal, State
from ddopg.core.types import Description, Evaluation, Failure, Trajectory
from ddopg.errors import ArtefactError, StoreError, require
from ddopg.policies import Policy
from ddopg.storage import database as tables
from ddopg.storage import leaves, rows
from ddopg.storage.leaves import Leaf
from ddopg.storage.policy_file import require_class
from ddopg.storage.stored import ROLLOUTS, damage, described
from ddopg.support.arrays import array_from_bytes
from ddopg.support.locks import FileLock

NOT_STORED = frozenset({"memory.trajectories", "memory.returns"})
"""Parts of the state that are no leaves of it: rollouts are rows of their own, a memo can be computed again."""
LARGE = 2**16  # bytes; of a larger array the seal of the state covers the seal
Row = tuple[str, str, Any]  # kind, shape and value of a leaf


class RunStore:
    """The one writer of a run; `create` begins one, `resume` goes on with one. Without a writer, an onlooker."""

    description: Description

    def __init__(self, directory: Path, writer: FileLock | None, connection: sqlite3.Connection) -> None:
        self.directory, self.path = directory, directory / tables.STORE
        self._connection, self._writer = connection, writer
        self._stored: dict[str, Row | None] = {}  # leaves of the state in the file; None: to be written anew
        self._chain = b""  # seal of the last rollout
        self._close = weakref.finalize(self, _close, connection, writer)

    @classmethod
    def create(cls, directory: Path, description: Description, state: State) -> RunStore:
        """Begin a run in a directory that holds none."""
        with tables.owned(directory, create=True) as writer:
            path = directory / tables.STORE
            require(
                tables.is_empty(path),
                f"{directory} already holds a run; go on with ddopg resume {directory}, or choose another one",
                StoreError,
            )
            store = cls(directory, writer, tables.create(path))
            with tables.complaints(path, tables.WRITING):
                values = rows.described(description)
                store._connection.executemany("INSERT INTO run VALUES (?, ?)", values.items())
                written = store._write_state(state)
                store._connection.execute("COMMIT")
            store._accept(*written)
            store.description = description
            tables.sync(directory)
        return store

    @classmethod
    def resume(cls, directory: Path, network: Policy | None = None) -> tuple[RunStore, State]:
        """Open a run, check everything that is in it, and take the place of its writer.

        `network` is the policy class, where the run was begun with the user's own.
        """
        with tables.owned(directory, create=False) as writer:
            path = directory / tables.STORE
            store = cls(directory, writer, tables.open_existing(path))
            try:
                with damage(path):
                    store.description = described(store._connection)
                    require_class(str(path), store.description.own_policy, network)
                    state = store.read_state(network)
            except BaseException:
                store.close()
                raise
        return store, state

    def asked(self, state: State) -> None:
        """Proposals were handed out: they can be told by another process, or after a crash."""
        with tables.transaction(self._connection, self.path):
            written = self._write_state(state, self._chain)
        self._accept(*written)

    def tell(self, proposal: Proposal, state: State, info: Info) -> None:
        """The newest rollout of the memory, the state after it and its row of the log: one transaction."""
        number, value = state.memory.size, float(state.memory.returns[-1])
        row = rows.rollout_row(number, proposal, state.memory.trajectories[-1], value, info)
        seal = rows.seal_of(self._chain, *row)
        with tables.transaction(self._connection, self.path):
            self._insert("rollout", (*row, seal))
            written = self._write_state(state, seal)
        self._accept(*written)

    def evaluation(self, row: Evaluation) -> None:
        """The incumbent was evaluated."""
        with tables.transaction(self._connection, self.path):
            self._insert("evaluation", (*row, rows.seal_of(*row)))

    def failure(self, failure: Failure) -> None:
        """A rollout could not be used."""
        with tables.transaction(self._connection, self.path):
            (number,) = self._rows("SELECT count(*) + 1 FROM failure")[0]
            row = (number, *failure)
            self._insert("failure", (*row, rows.seal_of(*row)))

    def evaluations(self) -> list[Evaluation]:
        """All of them, in order."""
        return [rows.evaluation_of(row) for row in self._sealed("evaluation", "rollout")]

    def failures(self) -> list[Failure]:
        """All of them, in order."""
        return [Failure(*row[1:]) for row in self._sealed("failure", "number")]

    def log(self) -> list[dict[str, Any]]:
        """What each `tell` reported, in order."""
        return [rows.info_of(text) for (text,) in self._rows("SELECT info FROM rollout ORDER BY number")]

    def close(self) -> None:
        """Let others in. What was told is already safe."""
        self._close()

    def _rows(self, query: str) -> list[tuple]:
        return self._connection.execute(query).fetchall()

    def _insert(self, table: str, row: tuple) -> None:
        self._connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def _sealed(self, table: str, order: str) -> list[tuple]:
        found = self._rows(f"SELECT * FROM {table} ORDER BY {order}")
        for row in found:
            rows.check_seal(row[-1], rows.seal_of(*row[:-1]), f"{table} {row[0]}")
        return [row[:-1] for row in found]

    def _accept(self, found: dict[str, Row], chain: bytes) -> None:
        """Remember what the file holds now: only after the commit."""
        self._stored, self._chain = {**found}, chain

    def _write_state(self, state: State, chain: bytes = b"") -> tuple[dict[str, Row], bytes]:
        """Write what differs from the last state; the seal covers all of it."""
        found = {name: rows.leaf_row(leaf) for name, leaf in leaves.flatten(state, NOT_STORED).items()}
        if None in self._stored.values():
            self._connection.execute("DELETE FROM change")
        for name in sorted(self._stored.keys() - found.keys()):
            self._connection.execute("DELETE FROM state WHERE name = ?", (name,))
        changed = [
            (name, *row)
            for name, row in found.items()
            if self._stored.get(name) != row or row[0] == "float"  # 0.0 and -0.0 are not the same
        ]
        seal = ("seal", "seal", "", _seal_of_state(chain, {name: _part(row) for name, row in found.items()}))
        self._connection.executemany(
            "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, "
            "shape = excluded.shape, value = excluded.value",
            [*changed, seal],
        )
        return found, chain

    def read_state(self, network: Policy | None) -> State:
        """Everything, checked; `description` was read before."""
        description = self.description
        policy = build_policy(description.problem, description.config, network)
        require(policy.size <= rows.MOST_NUMBERS, f"a policy of {policy.size} parameters", ArtefactError)
        trajectories, returns, lengths, chain = self._read_rollouts(description.problem, policy.size)
        stored = {
            name: (kind, shape, value) for name, kind, shape, value in self._rows("SELECT * FROM state")
        }
        seal = stored.pop("seal")[2]
        changes = self._read_changes()
        read = {name: _changed(rows.leaf_of(*row), changes.get(name, ())) for name, row in stored.items()}
        parts = {name: _part(row, changes.get(name, ())) for name, row in stored.items()}
        rows.check_seal(seal, _seal_of_state(chain, parts), "the state")
        found = {name: leaf for name, leaf in read.items() if not name.startswith("memory.pairs.")}
        given = {
            "memory.trajectories": trajectories,
            "memory.returns": returns,
            "like:opt_state": init_opt_state(policy.size, description.config),
        }
        try:
            state = leaves.build(State, found, given)
        except ArtefactError as error:
            raise ArtefactError(
                f"{error} in the learner's state; the run was written by version {description.version} of ddopg, "
                f"this is {__version__}: use that version to go on"
            ) from error
        expected = algorithm.init(policy, description.config, state.seed if state.seed >= 0 else 0)
        rows.check_state(state, found, leaves.flatten(expected, NOT_STORED), lengths)
        self._sealed("evaluation", "rollout"), self._sealed("failure", "number")
        self._stored, self._chain = {n: None if changes else row for n, row in stored.items()}, chain
        return state

    def _read_rollouts(
        self, problem: Problem, size: int
    ) -> tuple[tuple[Trajectory, ...], np.ndarray, list[int], bytes]:
        """The memory's trajectories and returns, the lengths of those that were asked for, and the last seal."""
        found = list(rows.rollouts_of(self._connection.execute(ROLLOUTS), problem, size))
        chain = found[-1][1] if found else b""
        lengths = [one.trajectory.length for one, _ in found if one.proposal >= 0]
        returns = np.array([one.value for one, _ in found], np.float64)
        return tuple(one.trajectory for one, _ in found), returns, lengths, chain

    def _read_changes(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Changed blocks of large arrays, which runs of early versions have."""
        found: dict[str, list[tuple[bytes, bytes]]] = {}
        for name, *change in self._rows("SELECT name, positions, blocks FROM change ORDER BY rollout"):
            found.setdefault(name, []).append((change[0], change[1]))
        return found


def _part(row: Row, changes: Iterable[tuple[bytes, bytes]] = ()) -> tuple[Any, ...]:
    """What the seal of the state covers of a leaf."""
    value = row[2]
    if type(value) is not bytes or len(value) <= LARGE:
        return row
    seal = rows.seal_of(value)
    for change in changes:
        seal = rows.seal_of(seal, *change)
    return (seal,)


def _changed(leaf: Leaf, changes: Iterable[tuple[bytes, bytes]]) -> Leaf:
    """The array after all changes of its blocks, rows along the last axis."""
    for positions, blocks in changes:
        require(isinstance(leaf, np.ndarray), "a change of what is no array", ArtefactError)
        assert isinstance(leaf, np.ndarray)
        at = array_from_bytes(positions, "int32", (len(positions) // 4,))
        leaf = leaf.copy()
        flat = leaf.reshape(-1, leaf.shape[-1])
        flat[at] = array_from_bytes(blocks, leaf.dtype.name, (len(at), leaf.shape[-1]))
    return leaf


def _seal_of_state(chain: bytes, parts: Mapping[str, tuple[Any, ...]]) -> bytes:
    return rows.seal_of(chain, *(value for name in sorted(parts) for value in (name, *parts[name])))


def _close(connection: sqlite3.Connection, writer: FileLock | None) -> None:
    connection.close()
    if writer is not None:
        writer.release()
