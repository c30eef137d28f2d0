"""
One writer at a time among the processes that share a file, in turns.

SQLite's own busy_timeout backs off for up to 100 ms while the process that has just written writes again: of four busy
processes one made 1,282 writes and waited up to 0.7 s while another one made 3,348. With this gate all were within a
tenth of each other.

The gate is for fairness only. SQLite's own locks keep the file sound. So a gate that cannot be opened, or that another
process does not leave, is skipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Final

# Seconds.
_RETRY_EVERY: Final = 0.000_2  # about one short transaction
_SLOW_AFTER: Final = 0.05  # of waiting, after which the holder seems to be stuck
_SLOW_RETRY_EVERY: Final = 0.002
_LONGEST_WAIT: Final = 1.0  # for a process that does not leave; then a quarter of it each time
_SHORTEST_WAIT: Final = 0.01


class Gate:
    """
    An advisory lock on a file beside *database*. The caller holds a lock, so one thread at a time uses it.

    It is not on the database itself, since closing any descriptor of that would drop SQLite's locks.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._descriptor: int | None = None
        self._longest_wait = _LONGEST_WAIT

    def enter(self, timeout: float) -> bool:
        """Wait until no other process is inside. Return False if that takes too long, or if there can be no gate."""
        try:
            if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:  # it was removed
                self.close()
            if self._descriptor is None:
                self._descriptor = _open(self._database)
            entered = _lock(self._descriptor, min(timeout, self._longest_wait))
        except OSError:  # no right to open it, a link in its place, a descriptor that somebody closed
            self._descriptor = None
            return False
        self._longest_wait = _LONGEST_WAIT if entered else max(self._longest_wait / 4, _SHORTEST_WAIT)
        return entered

    def leave(self) -> None:
        """Leave, so that the next process may enter."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int, seconds: float) -> bool:
    started = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Not a blocking flock, which has no timeout: a process that is stopped may be inside.
            now = time.monotonic()
            started = started or now
            if now - started >= seconds:
                return False
            time.sleep(_RETRY_EVERY if now - started < _SLOW_AFTER else _SLOW_RETRY_EVERY)
        else:
            return True


def _open(database: str) -> int:
    """
    Open the lock file. If it does not exist, create it for the users who may write the database only.

    A user who can open it, if only for reading, can lock it. So users who can only read the database must not.
    """
    path = f"{database}-lock"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without blocking: it might be a pipe
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        wanted = os.stat(database)  # noqa: PTH116 - beside os.open
        mode = sum(right | right << 1 for right in (0o200, 0o020, 0o002) if wanted.st_mode & right)
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    # As SQLite does for its own files beside the database. Only for a file that was created here: any other file in its
    # place keeps its mode and owner.
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, wanted.st_uid if os.geteuid() == 0 else -1, wanted.st_gid)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)
    return descriptor
