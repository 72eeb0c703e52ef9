"""The HTML report while runs go on: served on this machine only, made anew when a run has changed."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from ddopg.errors import ConfigError, DDOPGError, require
from ddopg.storage.database import STORE
from ddopg.storage.guard import log_of

ADDRESS = "127.0.0.1"  # never another one: a report says where runs are stored
SECONDS = 10.0  # from one reload of the page to the next
PATIENCE = 10.0  # seconds that a client may take for a request
NAMES = (
    ADDRESS,
    "localhost",
)  # what a browser may call this machine; another name is a page of somebody else's


class LivePage:
    """The report as text, made anew when asked for after a run has changed.

    Args:
        directories: of the runs.
        build: makes the page.
    """

    def __init__(self, directories: Sequence[Path], build: Callable[[], str]) -> None:
        self._directories, self._build = directories, build
        self._seen: tuple[tuple[int, int], ...] | None = None
        self._page = b""

    def read(self) -> bytes:
        """The page as the runs are now.

        Raises:
            DDOPGError: if a run cannot be read, or holds no rollout yet.
        """
        seen = tuple(_fingerprint(path) for each in self._directories for path in _files_of(each))
        if seen != self._seen:
            self._page = self._build().encode()
            self._seen = seen
        return self._page


@contextmanager
def open_server(page: LivePage, port: int) -> Iterator[HTTPServer]:
    """Listen on this machine; one request at a time, so that one page is made at a time.

    Args:
        page: what is served as `/`.
        port: 0 takes any that is free.

    Yields:
        The server; `serve_forever` serves.

    Raises:
        ConfigError: if the port is out of range, or taken.
    """
    require(0 <= port <= 65_535, f"a port is a number from 0 to 65535, got {port}")
    try:
        server = HTTPServer((ADDRESS, port), _make_handler(page))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"cannot listen on port {port}: {reason}; choose another one with --port, or 0 for any"
        ) from error
    with server:
        yield server


def _make_handler(page: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE
        server_version = "ddopg"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(*self._choose_answer())

        def do_HEAD(self) -> None:
            self._answer(*self._choose_answer())

        def _choose_answer(self) -> tuple[int, bytes]:
            if (self.headers.get("Host") or "").partition(":")[0] not in NAMES:
                return 403, _say("This report is for this machine only.")
            if self.path.partition("?")[0] != "/":
                return 404, _say("The report is at the address without a path.")
            try:
                return 200, page.read()
            except DDOPGError as error:
                return 503, _say(f"{error}. This page tries again.", refresh=True)

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a reload every few seconds is no news."""

    return Handler


def _say(message: str, refresh: bool = False) -> bytes:
    again = f'<meta http-equiv="refresh" content="{SECONDS:.0f}">' if refresh else ""
    text = f'<!doctype html><html lang="en"><meta charset="utf-8">{again}<title>ddopg report</title>'
    return f"{text}<p>{html.escape(message)}</p></html>\n".encode()


def _files_of(directory: Path) -> tuple[Path, Path]:
    return directory / STORE, log_of(directory / STORE)


def _fingerprint(path: Path) -> tuple[int, int]:
    """What differs after something was written; zeros for a file that is not there."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
