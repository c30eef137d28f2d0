"""TCP ports of this machine that nobody else takes."""

from __future__ import annotations

import socket
import sys

HOST = "127.0.0.1"


class Port:
    """
    A free port, kept for its owner until `release`.

    A socket stays bound to it without listening, so no other program is handed this port while its server is down, and
    who connects meanwhile is refused. Servers bind beside it since they and it set SO_REUSEADDR (Linux; elsewhere the
    port is only free at first).
    """

    def __init__(self) -> None:
        self._reservation = bound_socket(0)
        self.number: int = self._reservation.getsockname()[1]
        if sys.platform != "linux":
            self._reservation.close()

    def release(self) -> None:
        """Give the port back. May be called twice."""
        self._reservation.close()


def bound_socket(port: int) -> socket.socket:
    """A socket bound to *port* of the loopback address (0 = a free one), not listening."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound
