"""State reports to systemd."""

from __future__ import annotations

import os
import socket

from scheduler.cli.protocol import Status

_TIMEOUT = 0.5  # seconds: a receiver that does not read must not block a supervisor


class ServiceManager:
    """Client of sd_notify(3): sends READY=1 and STOPPING=1 once, WATCHDOG=1 every time. Needs $NOTIFY_SOCKET."""

    def __init__(self) -> None:
        self._sent: set[str] = set()

    def report(self, status: Status, *, started: bool, stopping: bool) -> None:
        """Report *status*. Call it every second."""
        # Availability of the store is not reported: systemd would give up a service that waits for its store.
        once = {state for state, reached in (("READY=1", started), ("STOPPING=1", stopping)) if reached} - self._sent
        if _notify(*once, "WATCHDOG=1", f"STATUS={status.held} jobs held, {status.stuck} threads stuck"):
            self._sent |= once


def _notify(*states: str) -> bool:
    """Send *states* like sd_notify(3). Return False if that failed, which must not end a worker."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return True
    if address.startswith("@"):  # Linux's abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.settimeout(_TIMEOUT)
            connection.sendto("\n".join(states).encode(), address)
    except OSError:
        return False
    return True
