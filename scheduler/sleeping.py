"""A sleep on descriptors that any thread and any signal handler can end."""

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

# Seconds. A job's handler may close all descriptors of the process, and other files may then get the numbers of ours:
# nothing else would end the sleep.
_LONGEST_SLEEP: Final = 2.0
_SHORTEST_POLL: Final = 0.001  # seconds: the unit of poll()


class Ownership:
    """
    Check whether a descriptor still refers to the file that was opened here.

    A job's handler may close all descriptors of its process, and another file may then get the number. That file must
    not be read, written or closed. The check cannot tell an inotify instance from an epoll instance.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._identity = self._present()

    def is_mine(self) -> bool:
        """Return False if the descriptor was closed, or refers to another file."""
        try:
            return self._present() == self._identity
        except OSError:
            return False

    def _present(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino


class Sleeper:
    """Sleep of one thread, which any thread and any signal handler may end, even before it begins."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._own_woken, self._own_waker = (Ownership(end.fileno()) for end in (self._woken, self._waker))

    def check(self) -> None:
        """Raise `OSError` (EBADF) if other code has closed the sockets."""
        if not (self._own_woken.is_mine() and self._own_waker.is_mine()):
            raise OSError(errno.EBADF, "the descriptors of a waiter were closed")

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> None:
        """
        Sleep until *seconds* have passed, one of *descriptors* is readable, or `wake` is called. May end early.

        Raises `OSError` like `check`.
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
        """End the current or next sleep."""
        if self._own_waker.is_mine():
            with contextlib.suppress(OSError):  # the buffer is full, so the sleep ends anyway; or the socket is closed
                self._waker.send(b"!")

    def close(self) -> None:
        """Close the sockets. No thread may be asleep."""
        for end, own in ((self._woken, self._own_woken), (self._waker, self._own_waker)):
            if own.is_mine():
                end.close()
            else:
                end.detach()
