"""
Forks of a process that has memory backends.

A fork waits until no other thread is inside a call, so that the child's copy holds no half-done move. Without Python's
hooks nothing here runs. The child has locks of its own all the same (`PerProcess`), and its next call repairs a
half-done move, as that of any call that was interrupted.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

from scheduler.locks import StoreLock
from scheduler.processes import PerProcess

_TIMEOUT = 5.0  # seconds that a fork waits for a call under way in another thread


class Forked(Protocol):
    """What has a lock that a fork must find free."""

    @property
    def store_lock(self) -> StoreLock:
        """A lock of this process's own."""
        ...


# Guards _watched, and lets one fork at a time take the locks. Re-entrant, for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_watched: WeakSet[Forked] = WeakSet()
_taken: list[Forked] = []  # by the fork under way


def watch(forked: Forked) -> None:
    """Take the lock of *forked* at every fork, as long as something else refers to it."""
    with _locks.get(threading.RLock):
        _watched.add(forked)


def _before() -> None:
    # A call of this very thread may be under way, where a signal handler forks inside it: the child repairs it.
    _locks.get(threading.RLock).acquire()
    _taken.extend(forked for forked in list(_watched) if forked.store_lock.acquire(_TIMEOUT))


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().store_lock.release()
    _locks.get(threading.RLock).release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_taken.clear)
