"""Pools, where work is done side by side: in local processes, or on a Ray cluster.

A pool takes requests, bytes, under a key, and gives back one message after the other: `progress`, and at last `done`,
`failed` (the function raised) or `died` (its process did). What comes first is given first.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Work runs side by side, so each piece takes one thread; in local processes, what the user has set stays."""

DIED = "died"  # a kind of message besides those of `support.processes`


class Message(NamedTuple):
    """What a pool has to say about a piece of work."""

    key: int
    kind: str  # progress, done, failed or died
    content: bytes  # a share of the work as text, the result, a traceback, or how the process ended


class Pool(Protocol):
    """Something that works; `places` pieces of work make sense at the same time."""

    places: int

    def submit(self, key: int, content: bytes) -> None:
        """Begin a piece of work."""

    def wait(self) -> Message:
        """Wait for the next message; there must be work under way."""

    def close(self) -> None:
        """End it all, whatever is being done."""
