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
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from scheduler.critical import Interruptible, critical, here

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

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        """
        Let the calls under way end, for a bounded time, and hold off others.

        Add functions to *resumes* that let calls begin again, each before what it undoes is done: a Ctrl-C may come
        between any two steps. They are called in the parent only, on the same thread, the last one first, and perhaps
        twice.
        """
        ...


class _Suspension:
    """What one fork has suspended, and the run of a handler that it belongs to."""

    def __init__(self, outer: _Suspension | None, run: Interruptible | None) -> None:
        self.outer = outer  # that of the fork inside which a signal handler forks
        self.run = run
        self.resumes: list[Callable[[], None]] = []

    def suspend(self, condition: Callable[[Suspendable], bool] = lambda _: True) -> None:
        """Suspend the members for which *condition* holds. Until `resume`, no other thread suspends any."""
        lock: Any = _locks.get(threading.RLock)
        if not lock._is_owned():  # noqa: SLF001 - threading.Condition uses it as well; no stub has it
            self.resumes.append(lambda: lock._is_owned() and lock.release())  # noqa: SLF001
            lock.acquire()
        for member in list(_members):
            if condition(member):
                member.suspend(self.resumes)

    def resume(self) -> None:
        """Let calls begin again. To be called once more if a Ctrl-C came."""
        while self.resumes:
            self.resumes[-1]()
            del self.resumes[-1]


class _Here(threading.local):
    suspension: _Suspension | None = None


_here = _Here()  # the fork under way on this thread

# Guards the next, and lets one thread at a time suspend. Re-entrant for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_members: WeakSet[Suspendable] = WeakSet()
_in_children: list[Callable[[], None]] = []


def suspend_at_forks(member: Suspendable) -> None:
    """Suspend *member* during every fork, as long as something else refers to it."""
    with _locks.get(threading.RLock):
        _members.add(member)


@critical
def suspend_briefly(condition: Callable[[Suspendable], bool]) -> None:
    """Suspend the members for which *condition* holds, as a fork does, and resume them at once."""
    suspension = _Suspension(None, None)
    try:
        try:
            suspension.suspend(condition)
        finally:
            suspension.resume()
    finally:
        suspension.resume()  # the rest, if a Ctrl-C came


def run_in_children(function: Callable[[], None]) -> None:
    """Call *function* in the child after every fork."""
    _in_children.append(function)


# The hooks, and what is between them, are a critical section: an interrupt that is raised in a hook is dropped, and
# locks would stay held for ever. `depth` is changed together with `_here.suspension`, without a call or a loop between
# them, so that Python raises nothing there. Where `_before` did not get so far, the other hooks find None.


def _before() -> None:
    suspension = _Suspension(_here.suspension, here.run)
    _here.suspension = suspension
    if suspension.run is not None:
        suspension.run.depth += 1
    suspension.suspend()  # last: Python forks even where this function raises


def _after_in_parent() -> None:
    suspension = _here.suspension
    if suspension is None:
        return
    try:
        try:
            suspension.resume()
        finally:
            suspension.resume()  # the rest, if a Ctrl-C came
    finally:
        _here.suspension = suspension.outer
        if suspension.run is not None:
            suspension.run.depth -= 1  # an interrupt that waited is raised later: here it would be dropped


def _after_in_child() -> None:
    global _forks  # noqa: PLW0603 - one count a process is the purpose
    _forks += 1
    suspension = _here.suspension
    if suspension is not None:
        _here.suspension = suspension.outer
        if suspension.run is not None:
            suspension.run.depth -= 1
    for function in _in_children:
        function()


def _nothing() -> None:
    """Let a Ctrl-C that came during the fork be raised here: Python raises it as the first hook begins."""


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_parent=_nothing, after_in_child=_nothing)
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
