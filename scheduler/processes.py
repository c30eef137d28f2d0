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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """What must be idle while its process forks, so that the child does not get a copy of a half-done change."""

    def suspend(self) -> None:
        """Let the calls under way end, for a bounded time, and begin no others."""
        ...

    def resume(self) -> None:
        """Let calls begin again. Called in the parent, on the thread that called `suspend`."""
        ...


# Guards _members, and lets one thread at a time suspend them. Re-entrant for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_members: WeakSet[Suspendable] = WeakSet()
_in_children: list[Callable[[], None]] = []


def suspend_at_forks(member: Suspendable) -> None:
    """Suspend *member* during every fork, as long as something else refers to it."""
    with _locks.get(threading.RLock):
        _members.add(member)


def run_in_children(function: Callable[[], None]) -> None:
    """Call *function* in the child after every fork."""
    _in_children.append(function)


@contextmanager
def suspended(condition: Callable[[Suspendable], bool]) -> Iterator[None]:
    """Suspend the members for which *condition* holds during the block, as a fork does."""
    with _locks.get(threading.RLock):
        suspending = [member for member in list(_members) if condition(member)]
        for member in suspending:
            member.suspend()
        try:
            yield
        finally:
            for member in suspending:
                member.resume()


def _before() -> None:
    _locks.get(threading.RLock).acquire()
    for member in list(_members):
        member.suspend()


def _after_in_parent() -> None:
    for member in list(_members):
        member.resume()
    _locks.get(threading.RLock).release()


def _after_in_child() -> None:
    global _forks  # noqa: PLW0603 - one count a process is the purpose
    _forks += 1
    for function in _in_children:
        function()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
