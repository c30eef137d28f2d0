"""
Forks: what each process has for itself, and what is suspended while a process forks.

This is the only module that uses `os.register_at_fork`. A server that forks in C, as uWSGI does by default, runs none
of its hooks: connections would be shared with the parent, and locks that its threads held would stay locked for ever.
There only the process id shows that a process is another one. So whatever takes a connection or a lock compares it, by
`PerProcess` or `process`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")
Process = tuple[int, int]

_forks = 0  # between this process and the first, as far as hooks count them: a child may get an ancestor's process id


def process() -> Process:
    """Return what identifies this process, also among those that it was forked from."""
    return os.getpid(), _forks


class PerProcess(Generic[T]):
    """
    A value that each process makes for itself when it first asks for it. Safe in any thread.

    What an ancestor has made stays referenced: collecting it might speak to the ancestor's server.
    """

    def __init__(self) -> None:
        self._values: dict[Process, T] = {}
        # One per process: no thread of an ancestor holds it. Re-entrant for finalisers and signal handlers.
        self._locks: dict[Process, threading.RLock] = {}

    def get(self, make: Callable[[], T]) -> T:
        """Return the value of this process, made by the first call."""
        here = (os.getpid(), _forks)
        try:
            return self._values[here]
        except KeyError:
            with self._locks.setdefault(here, threading.RLock()):
                if here not in self._values:
                    self._values[here] = make()
                return self._values[here]


class Suspendable(Protocol):
    """What must be idle while its process forks, so that the child gets no copy of a half-done change."""

    def suspend(self) -> Callable[[], None]:
        """
        Let the calls under way end, for a bounded time, and hold off others.

        Return a function that lets calls begin again. It is called in the parent only, on the same thread.
        """
        ...


# Guards the next two, and lets one thread at a time suspend. Re-entrant for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_members: WeakSet[Suspendable] = WeakSet()
_resumes: list[list[Callable[[], None]]] = []  # of the forks under way
_in_children: list[Callable[[], None]] = []


def suspend_at_forks(member: Suspendable) -> None:
    """Suspend *member* during every fork, as long as something else refers to it."""
    with _locks.get(threading.RLock):
        _members.add(member)


def suspend_briefly(condition: Callable[[Suspendable], bool]) -> None:
    """Suspend the members for which *condition* holds, as a fork does, and resume them at once."""
    with _locks.get(threading.RLock):
        for resume in [member.suspend() for member in list(_members) if condition(member)]:
            resume()


def run_in_children(function: Callable[[], None]) -> None:
    """Call *function* in the child after every fork."""
    _in_children.append(function)


def _before() -> None:
    _locks.get(threading.RLock).acquire()
    _resumes.append([])  # first: Python forks even where this function raises
    for member in list(_members):
        _resumes[-1].append(member.suspend())


def _after_in_parent() -> None:
    try:
        for resume in _resumes.pop():
            resume()
    finally:
        _locks.get(threading.RLock).release()


def _after_in_child() -> None:
    global _forks  # noqa: PLW0603 - one count a process is the purpose
    _forks += 1
    _resumes.clear()
    for function in _in_children:
        function()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
