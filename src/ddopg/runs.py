"""The run store: every rollout, the learner's state and its log in one SQLite file, `run.sqlite`.

One transaction per `tell`, and its cost does not grow with what is stored: a rollout is one new row, small parts of
the state are written anew, and of a large array only the blocks that changed. Every row carries a seal (SHA-256), so
a flipped bit is found when the run is opened. docs/run-format.md describes the file for readers of any kind.
"""

from __future__ import annotations

import sqlite3
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddopg import algorithm, leaves, rows, tables
from ddopg._version import __version__
from ddopg.algorithm import Info
from ddopg.artefact import policy_for, require_class
from ddopg.data import Trajectory
from ddopg.envs.gym_adapter import Problem
from ddopg.errors import ArtefactError, StoreError, require
from ddopg.evidence import numbers_per_pair
from ddopg.improve import first_memory
from ddopg.leaves import Leaf
from ddopg.memory import check_pairs
from ddopg.policies import Policy
from ddopg.rows import Description, Evaluation, Failure
from ddopg.state import Proposal, State
from ddopg.stored import ROLLOUTS, damage, described

IN_ROLLOUTS = frozenset(
    {"memory.trajectories", "memory.returns"}
)  # parts of the state that are rows of their own
LARGE = 2**16  # bytes; larger arrays are stored as a snapshot and a log of changed blocks


class _Logged(NamedTuple):
    """What is known of a large array in the file."""

    seal: bytes
    bytes_of_changes: int


class RunStore:
    """The one writer of a run; `create` begins one, `resume` goes on with one. Without a writer, an onlooker."""

    description: Description

    def __init__(
        self, directory: Path, writer: tables.SoleWriter | None, connection: sqlite3.Connection
    ) -> None:
        self.directory, self.path = directory, directory / tables.STORE
        self._connection, self._writer = connection, writer
        self._leaves: dict[str, Leaf] = {}
        self._logged: dict[str, _Logged] = {}
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
                written = store._write_state(state, 0)
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
            written = self._write_state(state, state.memory.size, self._chain)
        self._accept(*written)

    def tell(self, proposal: Proposal, state: State, info: Info) -> None:
        """The newest rollout of the memory, the state after it and its row of the log: one transaction."""
        number, value = state.memory.size, state.memory.returns[-1]
        row = rows.rollout_row(number, proposal, state.memory.trajectories[-1], value, info)
        seal = rows.seal_of(self._chain, *row)
        with tables.transaction(self._connection, self.path):
            self._insert("rollout", (*row, seal))
            written = self._write_state(state, number, seal)
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

    def _accept(self, found: dict[str, Leaf], logged: dict[str, _Logged], chain: bytes) -> None:
        """Remember what the file holds now: only after the commit."""
        self._leaves, self._logged, self._chain = found, logged, chain

    def _write_state(
        self, state: State, number: int, chain: bytes = b""
    ) -> tuple[dict[str, Leaf], dict[str, _Logged], bytes]:
        """Write what differs from the last state; the seal covers all of it."""
        found = leaves.flatten(state, IN_ROLLOUTS)
        logged: dict[str, _Logged] = {}
        for name in sorted(self._leaves.keys() - found.keys()):
            self._connection.execute("DELETE FROM change WHERE name = ?", (name,))
            self._connection.execute("DELETE FROM state WHERE name = ?", (name,))
        for name, leaf in found.items():
            if isinstance(leaf, np.ndarray) and leaf.nbytes > LARGE:
                logged[name] = self._write_large(name, leaf, number)
            elif name not in self._leaves or not rows.same(leaf, self._leaves[name]):
                self._put(name, leaf)
        seal = _seal_of_state(chain, found, logged)
        self._upsert("seal", "seal", "", seal)
        return found, logged, chain

    def _write_large(self, name: str, new: np.ndarray, number: int) -> _Logged:
        old, known = self._leaves.get(name), self._logged.get(name)
        change = rows.changed_blocks(old, new) if known and isinstance(old, np.ndarray) else None
        if change is None or known is None or known.bytes_of_changes + sum(map(len, change)) > new.nbytes:
            self._put(name, new)
            return _Logged(rows.seal_of(rows.to_bytes(new)), 0)
        if not change[0]:
            return known
        self._insert("change", (name, number, *change))
        grown = known.bytes_of_changes + sum(map(len, change))
        return _Logged(rows.seal_of(known.seal, *change), grown)

    def _put(self, name: str, leaf: Leaf) -> None:
        self._connection.execute("DELETE FROM change WHERE name = ?", (name,))
        self._upsert(name, *rows.leaf_row(leaf))

    def _upsert(self, name: str, kind: str, shape: str, value: Any) -> None:
        self._connection.execute(
            "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, "
            "shape = excluded.shape, value = excluded.value",
            (name, kind, shape, value),
        )

    def read_state(self, network: Policy | None) -> State:
        """Everything, checked; `description` was read before."""
        description = self.description
        policy = policy_for(description.problem, description.config, network)
        require(policy.size <= rows.MOST_NUMBERS, f"a policy of {policy.size} parameters", ArtefactError)
        trajectories, returns, lengths, chain = self._read_rollouts(description.problem, policy.size)
        stored = {name: rest for name, *rest in self._rows("SELECT * FROM state")}
        seal = stored.pop("seal")[2]
        found: dict[str, Leaf] = {}
        logged: dict[str, _Logged] = {}
        for name, row in stored.items():
            found[name], log = self._read_leaf(name, *row)
            if log:
                logged[name] = log
        rows.check_seal(seal, _seal_of_state(chain, found, logged), "the state")
        given = {
            "memory.trajectories": trajectories,
            "memory.returns": returns,
            "like:search": first_memory(policy.size, description.config),
        }
        try:
            state = leaves.build(State, found, given)
        except ArtefactError as error:
            raise ArtefactError(
                f"{error} in the learner's state; the run was written by version {description.version} of ddopg, "
                f"this is {__version__}: use that version to go on"
            ) from error
        expected = algorithm.init(policy, description.config, state.seed if state.seed >= 0 else 0)
        rows.check_state(state, found, leaves.flatten(expected, IN_ROLLOUTS), lengths)
        check_pairs(state.memory, numbers_per_pair(description.config, description.problem.horizon))
        self._sealed("evaluation", "rollout"), self._sealed("failure", "number")
        self._accept(found, logged, chain)
        return state

    def _read_rollouts(
        self, problem: Problem, size: int
    ) -> tuple[tuple[Trajectory, ...], tuple[float, ...], list[int], bytes]:
        """The memory's trajectories and returns, the lengths of those that were asked for, and the last seal."""
        found = list(rows.rollouts_of(self._connection.execute(ROLLOUTS), problem, size))
        chain = found[-1][1] if found else b""
        lengths = [one.trajectory.length for one, _ in found if one.proposal >= 0]
        return tuple(one.trajectory for one, _ in found), tuple(one.value for one, _ in found), lengths, chain

    def _read_leaf(self, name: str, kind: str, shape: str, value: Any) -> tuple[Leaf, _Logged | None]:
        leaf = rows.leaf_of(kind, shape, value)
        if not isinstance(leaf, np.ndarray) or leaf.nbytes <= LARGE:
            return leaf, None
        known, leaf = _Logged(rows.seal_of(rows.to_bytes(leaf)), 0), leaf.copy()
        query = "SELECT positions, blocks FROM change WHERE name = ? ORDER BY rollout"
        for positions, blocks in self._connection.execute(query, (name,)):
            at = rows.from_bytes(positions, "int32", (len(positions) // 4,))
            flat = leaf.reshape(-1, leaf.shape[-1])
            flat[at] = rows.from_bytes(blocks, leaf.dtype.name, (len(at), leaf.shape[-1]))
            grown = known.bytes_of_changes + len(positions) + len(blocks)
            known = _Logged(rows.seal_of(known.seal, positions, blocks), grown)
        return leaf, known


def _seal_of_state(chain: bytes, found: dict[str, Leaf], logged: dict[str, _Logged]) -> bytes:
    parts = (
        (name, *((logged[name].seal,) if name in logged else rows.leaf_row(found[name]))) for name in found
    )
    return rows.seal_of(chain, *(part for parts_of_one in sorted(parts) for part in parts_of_one))


def _close(connection: sqlite3.Connection, writer: tables.SoleWriter | None) -> None:
    connection.close()
    if writer is not None:
        writer.release()
