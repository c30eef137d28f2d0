"""Serves a process's status by HTTP: /live, /ready and, when asked for, /metrics."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from scheduler.cli.status import Status
from scheduler.errors import ConfigError
from scheduler.logs import printable

_log = logging.getLogger(__name__)
_TIMEOUT = 5.0  # seconds that a client may keep a connection, whatever it sends
_CONNECTIONS = 64  # at a time, each with a thread; more are closed unanswered
_EVERY = 60.0  # seconds between two lines about failures of one kind


class HealthPort:
    """Answers 200 or 503 with the status as JSON. One daemon thread accepts; `close` ends it."""

    def __init__(self, host: str, port: int, status: Callable[[], Status], *, metrics: bool) -> None:
        class Answer(BaseHTTPRequestHandler):
            timeout = _TIMEOUT

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                now = status()
                path = self.path.partition("?")[0]
                if path in ("/live", "/ready"):
                    good = now.live if path == "/live" else now.ready
                    self._answer(200 if good else 503, "application/json", now.to_json() + "\n")
                elif path == "/metrics" and metrics:
                    self._answer(200, "text/plain; version=0.0.4", now.metrics_text())
                else:
                    self._answer(404, "text/plain", "known: /live /ready" + (" /metrics\n" if metrics else "\n"))

            def _answer(self, code: int, kind: str, text: str) -> None:
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden signature
                """Probes every second are not worth a line."""

        try:
            self._server = _server_class(host)((host, port), Answer)
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigError("health_port", f"cannot listen on {host}:{port}: {error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="scheduler-health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """Bounded in connections and in the time of each; its failures are log lines, at most one a minute and kind."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, float] = {}  # when each was accepted, by time.monotonic()
        self._lock = threading.Lock()  # guards _open
        self._reports = Reports()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve it on a thread of its own, if there are not too many."""
        with self._lock:
            full = len(self._open) >= _CONNECTIONS
            if not full:
                self._open[request] = time.monotonic()
        if full:
            self._reports.report(
                "TooManyConnections", f"more than {_CONNECTIONS} at a time; some are closed unanswered"
            )
            super().shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection. Called however it ended."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second: end what has lasted too long, which ends its thread's wait."""
        oldest = time.monotonic() - _TIMEOUT
        with self._lock:
            late = [request for request, since in self._open.items() if since < oldest]
            for request in late:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the overridden signature
        """Log it; the standard library's own prints a traceback."""
        error = sys.exception()
        self._reports.report(type(error).__name__, str(error))


class Reports:
    """Failures of the health port, logged at most once a minute and kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both; nothing is logged under it
        self._last: dict[str, float] = {}
        self._more: dict[str, int] = {}

    def report(self, kind: str, message: str) -> None:
        """Log it, or count it for the next line about its kind."""
        now = time.monotonic()
        with self._lock:
            if now - self._last.get(kind, -_EVERY) < _EVERY:
                self._more[kind] = self._more.get(kind, 0) + 1
                return
            self._last[kind] = now
            more = self._more.pop(kind, 0)
        since = f" ({more} more since the last such line)" if more else ""
        _log.warning("The health port failed to answer: %s: %s%s", kind, printable(message), since)


def _server_class(host: str) -> type[_Server]:
    if ":" not in host:
        return _Server

    class Server6(_Server):
        address_family = socket.AF_INET6

    return Server6
