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
from ddopg.rollouts.workers import DIED, ONE_THREAD, Message
from ddopg.support.processes import DONE, FAILED, Function, function_name, import_function
from ddopg.support.signals import shielded

PATIENCE = 0.2  # seconds that a signal may have to wait


class RayPool:
    """Work on an existing Ray cluster, one CPU each.

    Args:
        function: what is done with each request.
        address: of the cluster, such as auto or HOST:PORT.
        places: how many pieces of work at a time; as many as the cluster has CPUs, if not given.
    """

    def __init__(self, function: Function, address: str, places: int | None = None) -> None:
        self._ray = ray = require_cluster(address)
        self._own = not ray.is_initialized()
        if self._own:
            with _explain_unreachable(address), _keep_signal_handlers():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        self.places = places or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Ray's own retries would hide deaths: who gives the work decides what they mean.
        task = ray.remote(num_cpus=1, max_retries=0, runtime_env={"env_vars": ONE_THREAD})
        self._task, self._name = task(run_task), function_name(function)
        self._running: dict[Any, int] = {}

    def submit(self, key: int, content: bytes) -> None:
        """Give the work to the cluster; it waits there for a free CPU."""
        self._running[self._task.remote(self._name, content)] = key

    def wait(self) -> Message:
        """Wait for what is finished first; there is no progress on the way."""
        errors, found = self._ray.exceptions, list[Any]()
        while not found:
            with shielded():  # Ray takes every signal for Ctrl-C; so they come between two looks
                found, _ = self._ray.wait(list(self._running), num_returns=1, timeout=PATIENCE)
        (ready,) = found
        key = self._running.pop(ready)
        try:
            return Message(key, DONE, self._ray.get(ready))
        except errors.RayTaskError as error:
            return Message(key, FAILED, f"{error}\n".encode())
        except errors.RayError as error:
            return Message(key, DIED, f"{error}\n".encode())

    def close(self) -> None:
        """End what is under way, and leave the cluster, unless the caller was connected before."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._own:
            self._ray.shutdown()


def run_task(name: str, content: bytes) -> bytes:
    """Run the function of that name; this is what runs on a node."""
    return import_function(name)(content, lambda share: None)


def require_cluster(address: str) -> Any:
    """Import Ray, and refuse an address at which nobody answers.

    Returns:
        The package `ray`.

    Raises:
        MissingPackageError: Ray is not installed.
        ConfigError: there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("rollouts on a Ray cluster (--ray) need the package ray", "ray") from error
    with _explain_unreachable(address):
        _probe(address)
    return ray


def _probe(address: str) -> None:
    """Ask at HOST:PORT whether anybody is there: Ray itself would try for minutes before it says no."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()


@contextmanager
def _explain_unreachable(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot reach a Ray cluster at {address!r}: {error}; start one with ray start"
        ) from error


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Ray puts its own handler for SIGTERM; what was there before stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
