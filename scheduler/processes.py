"""
Safety of forks: values that each process makes for itself, and objects that are suspended during a fork.

This is the only module that uses `os.register_at_fork`. A server that forks in C, as uWSGI does by default, runs none
of these hooks: connections would be shared with the parent, and locks that its threads held would stay locked for ever.
Only the process id then shows that the process is a child. So code that takes a connection or a lock compares process
ids, with `PerProcess` or `process`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

from scheduler.critical import Interruptible, critical, here

T = TypeVar("T")
Process = tuple[int, int]

_LONGEST_WAIT: Final = 30.0  # seconds that a fork waits for a fork of another thread
_forks = 0  # forks since the first process; counted, since a child may be given the process id of an ancestor


def process() -> Process:
    """Return a key of this process that none of its ancestors has."""
    return os.getpid(), _forks


class PerProcess(Generic[T]):
    """
    A value that each process makes for itself on first use. Safe in any thread.

    The values of ancestors stay referenced, since collecting one might send something over the ancestor's connection.
    """

    def __init__(self) -> None:
        self._values: dict[Process, T] = {}
        # One per process, so that no thread of an ancestor holds it. Re-entrant for finalisers and signal handlers.
        self._locks: dict[Process, threading.RLock] = {}

    def get(self, make: Callable[[], T]) -> T:
        """Return the value of this process. The first call makes it with *make*."""
        here = (os.getpid(), _forks)
        try:
            return self._values[here]
        except KeyError:
            with self._locks.setdefault(here, threading.RLock()):
                if here not in self._values:
                    self._values[here] = make()
                return self._values[here]


class Suspendable(Protocol):
    """Object that must be idle while its process forks, so that the child gets no copy of a half-done change."""

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        """
        Wait a bounded time until the calls in progress have ended, and block new ones.

        Append functions to *resumes* that undo this. Append each one before the step that it undoes, since a Ctrl-C may
        come between any two steps. They are called in the parent only, on the same thread, in reverse order, and
        perhaps twice.
        """
        ...


class _Suspension:
    """State of one fork: what it has suspended, and the run of the handler that forks."""

    def __init__(self, outer: _Suspension | None, run: Interruptible | None) -> None:
        self.outer = outer  # the state of the outer fork, if a signal handler forks during a fork
        self.run = run
        self.has_inner = False  # a signal handler forks during this fork
        self.resumes: list[Callable[[], None]] = []

    def suspend(self, condition: Callable[[Suspendable], bool] = lambda _: True) -> None:
        """Suspend the members for which *condition* holds. Other threads cannot suspend any until `resume`."""
        lock: Any = _locks.get(threading.RLock)
        if not lock._is_owned():  # noqa: SLF001 - threading.Condition uses it as well; no stub has it
            self.resumes.append(lambda: lock._is_owned() and lock.release())  # noqa: SLF001
            lock.acquire(timeout=_LONGEST_WAIT)  # a fork must not wait for ever; then it goes on without the lock
        for member in list(_members):
            if condition(member):
                member.suspend(self.resumes)

    def resume(self) -> None:
        """Let calls begin again. Must be called a second time if a Ctrl-C interrupted it."""
        while self.resumes:
            self.resumes[-1]()
            del self.resumes[-1]


class _Here(threading.local):
    suspension: _Suspension | None = None


_here = _Here()  # the fork in progress on this thread

# Guards _members, and lets one thread at a time suspend. Re-entrant for a fork in a signal handler.
_locks: PerProcess[threading.RLock] = PerProcess()
_members: WeakSet[Suspendable] = WeakSet()
_in_children: list[Callable[[], None]] = []


def suspend_at_forks(member: Suspendable) -> None:
    """Suspend *member* during every fork. Only a weak reference to it is kept."""
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
        suspension.resume()  # what is left, if a Ctrl-C came


def run_in_children(function: Callable[[], None]) -> None:
    """Register *function* to be called in the child after every fork."""
    _in_children.append(function)


# The hooks and the code between them are a critical section: Python drops an interrupt that is raised in a hook, and
# locks would stay held for ever. `depth` is changed together with `_here.suspension`, without a call or a loop between
# them, so that Python raises nothing there. If `_before` did not get that far, the other hooks find None.


def _before() -> None:
    outer = _here.suspension
    suspension = _Suspension(outer, here.run)
    if outer is not None:
        outer.has_inner = True
    _here.suspension = suspension
    if suspension.run is not None:
        suspension.run.depth += 1
    suspension.suspend()  # last, since Python forks even if this function raises


def _after_in_parent() -> None:
    suspension = _here.suspension
    if suspension is None:
        return
    try:
        try:
            suspension.resume()
        finally:
            suspension.resume()  # what is left, if a Ctrl-C came
    finally:
        _here.suspension = suspension.outer
        if suspension.run is not None:
            suspension.run.depth -= 1  # without left(): Python would drop an interrupt that is raised here


def _after_in_parent_again() -> None:
    # Python drops a Ctrl-C that comes as a hook begins, and skips that hook. If that was `_after_in_parent`, the
    # suspension of this fork is still there.
    suspension = _here.suspension
    if suspension is not None and not suspension.has_inner:
        _after_in_parent()
    outer = _here.suspension
    if outer is not None:
        outer.has_inner = False


def _after_in_child() -> None:
    global _forks  # noqa: PLW0603 - one count per process is intended
    _forks += 1
    suspension = _here.suspension
    if suspension is not None:
        _here.suspension = suspension.outer
        if suspension.run is not None:
            suspension.run.depth -= 1
    for function in _in_children:
        function()


def _nothing() -> None:
    """Do nothing. Python raises a Ctrl-C that came during the fork as the first hook begins, which is this one."""


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_parent=_nothing, after_in_child=_nothing)
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
    os.register_at_fork(after_in_parent=_after_in_parent_again)
