"""
What a fork does to the locks of this process's memory backends.

Without Python's hooks nothing here runs. The child has locks of its own all the same (`PerProcess`), and a move that
was half done at the fork is put right by its next call, as any that was cut short.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

from scheduler.locks import StoreLock
from scheduler.processes import PerProcess

_PATIENCE = 5.0  # seconds that a fork waits for a move under way in another thread


class Forked(Protocol):
    """What has a lock that a fork must find free."""

    @property
    def store_lock(self) -> StoreLock:
        """A lock of this process's own."""
        ...


# Guards _members, and lets one fork at a time take their locks. Re-entrant, for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_members: WeakSet[Forked] = WeakSet()
_taken: list[Forked] = []  # by the fork under way


def watch(member: Forked) -> None:
    """Look after *member* at every fork, as long as somebody else holds it."""
    with _locks.get(threading.RLock):
        _members.add(member)


def _before() -> None:
    # No move of another thread may be half done in the child's copy. One of this very thread may, where a signal
    # handler forks inside it: the child finishes it at its first call.
    _locks.get(threading.RLock).acquire()
    _taken.extend(member for member in list(_members) if member.store_lock.acquire(_PATIENCE))


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().store_lock.release()
    _locks.get(threading.RLock).release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_taken.clear)
