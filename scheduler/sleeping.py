"""A sleep on descriptors that any thread, and any signal handler, can end."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import socket
import time
from collections.abc import Iterable
from typing import Final

# Seconds. A handler may close all descriptors, and another file may then have the numbers of ours: nothing would end
# the sleep.
_LONGEST_SLEEP: Final = 2.0
_SHORTEST_POLL: Final = 0.001  # seconds: the unit of poll()


class Ownership:
    """
    Whether a descriptor is still the one that was opened here.

    A handler may close all descriptors of its process, and the number may then belong to somebody else's file: nothing
    must be read from it or written to it, and it must not be closed. An inotify instance cannot be told from an epoll
    instance so.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._identity = self._present()

    def is_mine(self) -> bool:
        """Return False if the descriptor was closed, or has been given to another file."""
        try:
            return self._present() == self._identity
        except OSError:
            return False

    def _present(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino


class Sleeper:
    """One thread sleeps; any thread and any signal handler may wake it, also before it sleeps."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._own_woken, self._own_waker = (Ownership(end.fileno()) for end in (self._woken, self._waker))

    def check(self) -> None:
        """Raise `OSError` (EBADF) if somebody has closed the sockets."""
        if not (self._own_woken.is_mine() and self._own_waker.is_mine()):
            raise OSError(errno.EBADF, "the descriptors of a waiter were closed")

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> None:
        """
        Sleep until *seconds* have passed, one of *descriptors* is readable, or `wake` is called. May end early.

        Raises `OSError` as `check` does.
        """
        if 0.0 < seconds < _SHORTEST_POLL:
            time.sleep(seconds)
            return
        poll = select.poll()  # select() takes no descriptor above 1,023
        for descriptor in (self._woken.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(math.ceil(min(max(seconds, 0.0), _LONGEST_SLEEP) * 1_000))
        self.check()
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4_096)

    def wake(self) -> None:
        """End the present or next sleep."""
        if self._own_waker.is_mine():
            with contextlib.suppress(OSError):  # full: it wakes anyway; or closed
                self._waker.send(b"!")

    def close(self) -> None:
        """Close the sockets. Nobody may be asleep."""
        for end, own in ((self._woken, self._own_woken), (self._waker, self._own_waker)):
            if own.is_mine():
                end.close()
            else:
                end.detach()
