"""
What each process has for itself, also one that was forked without Python's hooks.

A server that forks in C, as uWSGI does by default, runs no hook of `os.register_at_fork`: connections would be shared
with the parent, and locks that its threads held would stay locked for ever. Only the process id tells.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Process = tuple[int, int]

_forks = 0  # of this process's line, as far as hooks tell: process ids come back, and a child may bear an ancestor's


def process() -> Process:
    """This process, told apart from those that it was forked from."""
    return os.getpid(), _forks


class PerProcess(Generic[T]):
    """
    A value of which each process makes its own when it first asks. Safe in any thread.

    What an ancestor has made stays referenced: to collect it might speak to the ancestor's server.
    """

    def __init__(self) -> None:
        self._values: dict[Process, T] = {}
        # One a process: no thread of an ancestor holds it. Re-entrant for finalisers and signal handlers that ask too.
        self._locks: dict[Process, threading.RLock] = {}

    def get(self, make: Callable[[], T]) -> T:
        """The value of this process, made by the first call."""
        here = (os.getpid(), _forks)
        try:
            return self._values[here]
        except KeyError:
            with self._locks.setdefault(here, threading.RLock()):
                if here not in self._values:
                    self._values[here] = make()
                return self._values[here]


def _after_fork_in_child() -> None:
    global _forks  # noqa: PLW0603 - one count a process is the purpose
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
