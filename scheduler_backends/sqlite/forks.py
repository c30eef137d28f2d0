"""
What belongs to one process: nothing of it is ever used by a child of a fork.

Two defences. Every access compares the process id, since some servers fork in C, where no hook of Python runs. And
before `os.fork` the connections are closed: SQLite counts its locks within a process, so that a child with copies of
its parent's connections would take none of its own, and others would delete the write-ahead log under it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from scheduler.processes import PerProcess


class Suspended(Protocol):
    """What closes its connections before a fork, and opens none until that is done."""

    path: str

    def suspend(self) -> None:
        """Close the connections and hold their locks."""
        ...

    def resume(self) -> None:
        """Release the locks. Called on the thread that called `suspend`."""
        ...


_suspending: PerProcess[threading.RLock] = (
    PerProcess()
)  # one thread at a time; re-entrant, for a fork in a signal handler
_members: weakref.WeakSet[Suspended] = weakref.WeakSet()


def suspend_at_forks(member: Suspended) -> None:
    """Suspend *member* during every fork, as long as somebody else holds it."""
    _members.add(member)


def close_all_connections(path: str) -> None:
    """
    Close all connections of this process to the file at *path*, at once; they are opened anew when next used.

    SQLite shares more than its locks within a process: what one connection has opened read-only stays so for all.
    """
    with _suspending.get(threading.RLock):
        members = [member for member in list(_members) if member.path == path]
        for member in members:
            member.suspend()
        for member in members:
            member.resume()


def _before() -> None:
    _suspending.get(threading.RLock).acquire()
    for member in list(_members):
        member.suspend()


def _after_in_parent() -> None:
    for member in list(_members):
        member.resume()
    _suspending.get(threading.RLock).release()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent)
