"""Interruptions: Ctrl-C, SIGTERM and time limits stop a rollout, or a run between two, never the taking in of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ddopg.errors import require

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LONGEST_HOLD = 30.0  # seconds; a `tell` takes milliseconds, with large networks seconds


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end; handled like Ctrl-C, with its own exit code."""


@contextmanager
def shielded(longest: float = LONGEST_HOLD) -> Iterator[None]:
    """A signal that comes during the block takes effect at its end, but not for ever.

    A second signal, or the end of `longest`, lets it through at once: the block is then left where the main thread
    stands, and a transaction in it is rolled back. Outside the main thread no signal comes anyway; a block inside
    another one belongs to that.

    Args:
        longest: seconds that a signal is held back. A computation that does not come back to Python is waited for.
    """
    held = isinstance(signal.getsignal(signal.SIGINT), _Shield)
    if held or threading.current_thread() is not threading.main_thread():
        yield
        return
    shield = _Shield(longest)
    try:
        yield
    finally:
        shield.lower()


class _Shield:
    """Handles signals in the place of their own handlers, which are put back when it is lowered."""

    def __init__(self, longest: float) -> None:
        self._longest, self._came = longest, 0
        self._alarm: threading.Timer | None = None
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        for number in SIGNALS:
            signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hold the first signal back; the second one, of whatever kind, lets it through."""
        if self._came:
            self._let_through()
            return
        self._came = number
        self._alarm = threading.Timer(self._longest, _signal_main_thread, [number])
        self._alarm.daemon = True
        self._alarm.start()

    def lower(self) -> None:
        """Put the handlers back, and let the signal through that was held back, if any was."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm.join()  # one that is ringing just now still finds this shield
        self._let_through()

    def _let_through(self) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if before and self._came:
            signal.raise_signal(self._came)


def _signal_main_thread(number: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)  # ends its sleep, too
    else:
        signal.raise_signal(number)


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
