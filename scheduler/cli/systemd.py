"""Tells systemd how a service is doing, where systemd asked to be told."""

from __future__ import annotations

import os
import socket


def notify(*states: str) -> None:
    """Send *states*, such as "READY=1" or "WATCHDOG=1" (sd_notify(3)). Does nothing where $NOTIFY_SOCKET is not set."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto("\n".join(states).encode(), address)
    except OSError:
        return  # telling is a courtesy, and a worker does not end for want of a listener
