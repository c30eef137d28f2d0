"""What a fork does to the locks of this process's memory backends."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

_PATIENCE = 5.0  # seconds that a fork waits for a move under way in another thread


class Forked(Protocol):
    """What has a lock that a fork must find free."""

    lock: threading.Lock

    def after_fork(self) -> None:
        """Called in the child, once the lock is new."""
        ...


# Guards _members, and lets one fork at a time take their locks. Re-entrant, for a fork in a signal handler.
_lock = threading.RLock()
_members: WeakSet[Forked] = WeakSet()
_taken: list[Forked] = []  # by the fork under way


def watch(member: Forked) -> None:
    """Look after *member* at every fork, as long as somebody else holds it."""
    with _lock:
        _members.add(member)


def _before() -> None:
    # No move may be half done in the child's copy. The wait is bounded, since a signal handler that forks may have
    # interrupted a move of this very thread.
    _lock.acquire()
    _taken.extend(member for member in list(_members) if member.lock.acquire(timeout=_PATIENCE))


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().lock.release()
    _lock.release()


def _after_in_child() -> None:
    global _lock  # noqa: PLW0603 - one registry a process is the purpose
    _taken.clear()
    for member in list(_members):
        member.lock = threading.Lock()
        member.after_fork()
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
