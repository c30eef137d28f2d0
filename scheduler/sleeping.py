"""A sleep on descriptors that any thread, and any signal handler, can end."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Iterable
from typing import Final

# Seconds. A handler may close all descriptors, and another file may then have the numbers of ours: nothing would end
# the sleep.
_LONGEST_SLEEP: Final = 2.0
_SHORTEST_POLL: Final = 0.001  # seconds: the unit of poll()


class Sleeper:
    """One thread sleeps; any thread and any signal handler may wake it, also before it sleeps."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> None:
        """Sleep until *seconds* have passed, one of *descriptors* is readable, or `wake` is called. May end early."""
        if 0.0 < seconds < _SHORTEST_POLL:
            time.sleep(seconds)
            return
        poll = select.poll()  # select() takes no descriptor above 1,023
        for descriptor in (self._woken.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(math.ceil(min(max(seconds, 0.0), _LONGEST_SLEEP) * 1_000))
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4_096)

    def wake(self) -> None:
        """End the present or next sleep."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; or closed
            self._waker.send(b"!")

    def close(self) -> None:
        """Close the sockets. Nobody may be asleep."""
        self._woken.close()
        self._waker.close()
