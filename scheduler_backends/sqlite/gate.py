"""
One writer at a time among the processes that share a file, and each in its turn.

SQLite's own busy_timeout backs off for up to 100 ms while whoever just wrote writes again: of four busy processes one
got 1,282 writes and waited up to 0.7 s while another got 3,348. With this gate all got within a tenth of each other.

The gate is for fairness only. SQLite's own locks keep the file sound, so a gate that cannot be had, or that somebody
else does not leave, is passed by.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Final

_NAP: Final = 0.000_2  # seconds: about one short transaction
_PATIENT_AFTER: Final = 0.05  # seconds of waiting after which the holder is thought to be stuck, and naps grow
_LONG_NAP: Final = 0.002
_LONGEST_WAIT: Final = 1.0  # seconds at a gate whose holder lets nobody in; then a quarter of it each time
_SHORTEST_WAIT: Final = 0.01


class Gate:
    """
    An advisory lock on the file beside *database*. Used by one thread at a time: its owner holds a lock around it.

    The lock file is one of its own, since closing any descriptor of the database itself would drop SQLite's locks.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._descriptor: int | None = None
        self._patience = _LONGEST_WAIT

    def enter(self, timeout: float) -> bool:
        """Wait until no other process is inside; False if that takes too long, or there is no gate to be had."""
        try:
            if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:  # it was removed
                self.close()
            if self._descriptor is None:
                self._descriptor = _open(self._database)
            entered = _lock(self._descriptor, min(timeout, self._patience))
        except OSError:  # no right to open it, a link in its place, a descriptor that somebody closed
            self._descriptor = None
            return False
        self._patience = _LONGEST_WAIT if entered else max(self._patience / 4, _SHORTEST_WAIT)
        return entered

    def leave(self) -> None:
        """Let the next process in."""
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
            # Naps rather than a blocking flock, which cannot be given a bound: a stopped process may be inside.
            now = time.monotonic()
            started = started or now
            if now - started >= seconds:
                return False
            time.sleep(_NAP if now - started < _PATIENT_AFTER else _LONG_NAP)
        else:
            return True


def _open(database: str) -> int:
    """
    Open the lock file, made if it is missing, for those who may write the database and for nobody else.

    Whoever can open it, if only to read, can hold it; so a user who can only read the database must not.
    """
    path = f"{database}-lock"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without blocking: it might be a pipe
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        wanted = os.stat(database)  # noqa: PTH116 - beside os.open
        mode = sum(right | right << 1 for right in (0o200, 0o020, 0o002) if wanted.st_mode & right)
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    # As SQLite does for its own files beside the database. Only for a file that was made here: what somebody else has
    # laid in its place keeps its mode and owner.
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, wanted.st_uid if os.geteuid() == 0 else -1, wanted.st_gid)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)
    return descriptor
