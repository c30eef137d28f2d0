"""Tells systemd how a service is doing, where systemd asked to be told."""

from __future__ import annotations

import os
import socket

_TIMEOUT = 0.5  # seconds: a listener that does not read must not hold up a supervisor


def notify(*states: str) -> bool:
    """
    Send *states*, such as "READY=1" or "WATCHDOG=1" (sd_notify(3)); does nothing where $NOTIFY_SOCKET is not set.

    False where they could not be sent: telling is a courtesy, and a worker does not end for want of a listener.
    """
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
