"""A Ray cluster that is there already; ddopg, in the same version, must be installed on its nodes.

Ray runs the code of anyone who can reach it, here and there: trust your cluster, and who is on its network.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ddopg.errors import ConfigError, MissingPackageError
from ddopg.rollouts.workers import ONE_THREAD, Function, Message, name_of, named
from ddopg.support.signals import shielded

PATIENCE = 0.2  # seconds that a signal may have to wait


class Cluster:
    """Work on the cluster at that address, one CPU each; as many `places` as it has CPUs, if not given."""

    def __init__(self, function: Function, address: str, places: int | None = None) -> None:
        self._ray = ray = check(address)
        self._own = not ray.is_initialized()
        if self._own:
            with _explained(address), _own_signals():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        self.places = places or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Ray's own retries would hide deaths: who gives the work decides what they mean.
        task = ray.remote(num_cpus=1, max_retries=0, runtime_env={"env_vars": ONE_THREAD})
        self._task, self._name = task(carry_out), name_of(function)
        self._running: dict[Any, int] = {}

    def submit(self, key: int, content: bytes) -> None:
        """Give the work to the cluster; it waits there for a free CPU."""
        self._running[self._task.remote(self._name, content)] = key

    def wait(self) -> Message:
        """What is finished first; there is no progress on the way."""
        errors, found = self._ray.exceptions, list[Any]()
        while not found:
            with shielded():  # Ray takes every signal for Ctrl-C; so they come between two looks
                found, _ = self._ray.wait(list(self._running), num_returns=1, timeout=PATIENCE)
        (ready,) = found
        key = self._running.pop(ready)
        try:
            return Message(key, "done", self._ray.get(ready))
        except errors.RayTaskError as error:
            return Message(key, "failed", f"{error}\n".encode())
        except errors.RayError as error:
            return Message(key, "died", f"{error}\n".encode())

    def close(self) -> None:
        """End what is under way, and leave the cluster, unless the caller was connected before."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._own:
            self._ray.shutdown()


def carry_out(name: str, content: bytes) -> bytes:
    """What runs on a node."""
    return named(name)(content, lambda share: None)


def check(address: str) -> Any:
    """The package, if it is installed and somebody answers at the address."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("--ray needs the package ray", "ray") from error
    with _explained(address):
        _knock(address)
    return ray


def _knock(address: str) -> None:
    """Ask at HOST:PORT whether anybody is there: Ray itself would try for minutes before it says no."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()


@contextmanager
def _explained(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot reach a Ray cluster at {address!r}: {error}; start one with ray start"
        ) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts its own handler for SIGTERM; what was there before stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
