"""The health port, which serves a process's status over HTTP: /live, /ready and, if requested, /metrics."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Status
from scheduler.errors import ConfigError
from scheduler.logs import printable

_log = logging.getLogger(__name__)
_TIMEOUT = 5.0  # seconds that a client may keep a connection open
_CONNECTIONS = 64  # at a time, each with a thread; further ones are closed without a response
_LOG_INTERVAL = 60.0  # seconds between two log lines about failures of one kind


@contextmanager
def serve_health(options: WorkerOptions, status: Callable[[], Status]) -> Iterator[int | None]:
    """Serve the result of *status* on the health port within the block. Yield the port, None if no port is set."""
    if options.health_port is None:
        yield None
        return
    host = options.health_host

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            now = status()
            path = self.path.partition("?")[0]
            if path in ("/live", "/ready"):
                good = now.live if path == "/live" else now.ready
                self._respond(200 if good else 503, "application/json", json.dumps(asdict(now)) + "\n")
            elif path == "/metrics" and options.metrics:
                self._respond(200, "text/plain; version=0.0.4", metrics_text(now))
            else:
                self._respond(404, "text/plain", "known: /live /ready" + (" /metrics\n" if options.metrics else "\n"))

        def _respond(self, code: int, content_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden signature
            """Log nothing: probes come every second."""

    try:
        server = _Server((host, options.health_port), Handler)
    except (OSError, OverflowError, TypeError, UnicodeError) as error:  # TypeError: a name that IDNA cannot encode
        raise ConfigError("health_port", f"cannot listen on {host}:{options.health_port}: {error}") from error
    thread = threading.Thread(target=server.serve_forever, name="scheduler-health", daemon=True)
    thread.start()
    port = int(server.server_address[1])
    _log.info("Health is served on http://%s:%d/ready", host, port)
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_TIMEOUT)


def metrics_text(status: Status) -> str:
    """Return *status* in the text format of Prometheus."""
    gauges = {
        "ready": int(status.ready),
        "held_jobs": status.held,
        "stuck_threads": status.stuck,
        "outage_seconds": status.outage,
    }
    lines = [f"scheduler_worker_{name} {value:g}\n" for name, value in gauges.items()]
    lines += [f'scheduler_worker_events_total{{event="{name}"}} {n}\n' for name, n in sorted(status.counts.items())]
    return "".join(lines)


class _Server(ThreadingHTTPServer):
    """HTTP server that limits the number of connections and their time, and rate-limits its log lines."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._open: dict[socket.socket, float] = {}  # when each was accepted, by time.monotonic()
        self._lock = threading.Lock()  # guards _open
        self._failures = FailureLog()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve the request on a new thread, unless there are too many connections."""
        with self._lock:
            full = len(self._open) >= _CONNECTIONS
            if not full:
                self._open[request] = time.monotonic()
        if full:
            self._failures.add("TooManyConnections", f"more than {_CONNECTIONS} at a time; the others are closed")
            super().shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection after its request."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Shut down connections that last too long, which ends their threads. Called twice a second."""
        oldest = time.monotonic() - _TIMEOUT
        with self._lock:
            for request in (request for request, since in self._open.items() if since < oldest):
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the overridden signature
        """Log the failure. The standard library would print a traceback."""
        error = sys.exception()
        self._failures.add(type(error).__name__, str(error))


class FailureLog:
    """Log of the health port's failures, with at most one line a minute for each kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both; nothing is logged under it
        self._last: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()

    def add(self, kind: str, message: str) -> None:
        """Log the failure, or count it for the next line about its kind."""
        now = time.monotonic()
        with self._lock:
            if now - self._last.get(kind, -_LOG_INTERVAL) < _LOG_INTERVAL:
                self._unlogged[kind] += 1
                return
            self._last[kind] = now
            more = self._unlogged.pop(kind, 0)
        since = f" ({more} more since the last such line)" if more else ""
        _log.warning("The health port failed to respond: %s: %s%s", kind, printable(message), since)
