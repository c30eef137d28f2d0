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
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_Value = TypeVar("_Value")


class PerProcess(Generic[_Value]):
    """One value in each process, made by *make* when it is first asked for. Safe in any thread."""

    def __init__(self, make: Callable[[], _Value]) -> None:
        self._make = make
        self._node = _Node(os.getpid(), make(), None)

    def get(self) -> _Value:
        """The value of this process."""
        node, pid = self._node, os.getpid()
        if node.pid != pid:
            # setdefault decides which of two threads makes the value. No lock: the fork may have copied it held.
            self._node = node = node.following.setdefault(pid, _Node(pid, self._make(), node))
        return node.value


class _Node(Generic[_Value]):
    def __init__(self, pid: int, value: _Value, parent: _Node[_Value] | None) -> None:
        self.pid = pid
        self.value = value
        self.parent = parent  # kept: what is dropped would be closed, and the parent's connections must not be
        self.following: dict[int, _Node[_Value]] = {}


class Suspended(Protocol):
    """What closes its connections before a fork, and opens none until that is done."""

    path: str

    def suspend(self) -> None:
        """Close the connections and hold their locks."""
        ...

    def resume(self) -> None:
        """Release the locks. Called on the thread that called `suspend`."""
        ...


_suspending = PerProcess(threading.RLock)  # one thread at a time; re-entrant, for a fork in a signal handler
_members: weakref.WeakSet[Suspended] = weakref.WeakSet()


def suspend_at_forks(member: Suspended) -> None:
    """Suspend *member* during every fork, as long as somebody else holds it."""
    _members.add(member)


def close_all_connections(path: str) -> None:
    """
    Close all connections of this process to the file at *path*, at once; they are opened anew when next used.

    SQLite shares more than its locks within a process: what one connection has opened read-only stays so for all.
    """
    with _suspending.get():
        members = [member for member in list(_members) if member.path == path]
        for member in members:
            member.suspend()
        for member in members:
            member.resume()


def _before() -> None:
    _suspending.get().acquire()
    for member in list(_members):
        member.suspend()


def _after_in_parent() -> None:
    for member in list(_members):
        member.resume()
    _suspending.get().release()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent)
