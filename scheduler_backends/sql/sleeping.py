"""A sleep on sockets that any thread, and any signal handler, can end."""

from __future__ import annotations

import contextlib
import math
import select
import socket
from collections.abc import Iterable
from typing import Final

# Seconds. A handler may close all descriptors, and ours may be somebody else's then: nothing would wake the sleeper.
_LONGEST: Final = 2.0


class Sleeper:
    """One thread sleeps; any may wake it, also before it sleeps."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> None:
        """Until *seconds* have passed, one of *descriptors* can be read, or somebody wakes. May end early."""
        poll = select.poll()  # select itself takes no descriptor above 1,023
        for descriptor in (self._woken.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(math.ceil(min(max(seconds, 0.0), _LONGEST) * 1_000))
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4_096)

    def wake(self) -> None:
        """End the present or next sleep."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; or closed
            self._waker.send(b"!")

    def close(self) -> None:
        """Let go of the sockets. Nobody may be asleep."""
        self._woken.close()
        self._waker.close()
