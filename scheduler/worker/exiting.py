"""Ends what is still running when the interpreter exits: in order, and within its grace."""

from __future__ import annotations

import atexit
from typing import Protocol

from scheduler.processes import PerProcess


class StoppableRun(Protocol):
    """A run of a worker on a thread that does not keep the interpreter."""

    def ask_to_end(self) -> None:
        """Ask it to end within its grace."""
        ...

    def wait_for_end(self) -> None:
        """Wait for the end, not much longer than its grace."""
        ...


_running: PerProcess[set[StoppableRun]] = PerProcess()  # none of the parent's runs in a forked child


def begin(run: StoppableRun) -> None:
    """*run* has begun: an exit from now on ends it first."""
    _running.get(set).add(run)
    # Once more, so that it comes before what the program had registered so far, such as closing the backend.
    atexit.unregister(_end_all)
    atexit.register(_end_all)


def finish(run: StoppableRun) -> None:
    """*run* has ended."""
    _running.get(set).discard(run)


def _end_all() -> None:
    runs = list(_running.get(set))
    for run in runs:
        run.ask_to_end()
    for run in runs:
        run.wait_for_end()
