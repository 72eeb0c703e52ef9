"""Interruptions: Ctrl-C, SIGTERM and time limits stop a rollout, or a run between two, never the taking in of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ddopg.errors import require

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end; handled like Ctrl-C, with its own exit code."""


@contextmanager
def shielded() -> Iterator[None]:
    """A signal that comes during the block takes effect at its end. Outside the main thread none comes anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def termination_raises() -> Iterator[None]:
    """Within the block, SIGTERM raises `Terminated` where the main thread stands."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


class TimeUp(BaseException):
    """The time of a rollout is over. Not an Exception: what the environment catches must not hide it."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise `TimeUp` where the main thread stands if the block takes longer, and again until it ends.

    It reaches Python code and calls that a signal ends, such as sleeping or reading; not a computation that never
    comes back to Python.
    """
    if seconds is None:
        yield
        return
    require(
        hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread(),
        "a time limit in the same process works in the main thread on Unix only; use isolate=True (--isolate)",
    )
    before = signal.signal(signal.SIGALRM, _time_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)


def _time_up(number: int, frame: FrameType | None) -> None:
    raise TimeUp


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated
