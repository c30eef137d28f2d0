"""Serves a process's status by HTTP: /live, /ready and, when asked for, /metrics."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from scheduler.cli.status import Status
from scheduler.errors import ConfigError

_TIMEOUT = 5.0  # seconds that a client may keep a connection without asking


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
                """Probes every second are no news."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        try:
            self._server = Server((host, port), Answer)
        except (OSError, OverflowError) as error:
            raise ConfigError("health_port", f"cannot listen on {host}:{port}: {error}") from error
        self._server.daemon_threads = True
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
