"""Interruptions: Ctrl-C and SIGTERM stop a run between rollouts or within one, never while a rollout is taken in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated
