"""Ends what is still running when the interpreter exits: in order, and within its grace."""

from __future__ import annotations

import atexit
import os
from typing import Protocol


class Leaving(Protocol):
    """A run of a worker on a thread that does not keep the interpreter."""

    def ask_to_end(self) -> None:
        """Ask it to end within its grace."""
        ...

    def wait_for_end(self) -> None:
        """Wait for the end, not much longer than its grace."""
        ...


_running: set[Leaving] = set()


def begin(run: Leaving) -> None:
    """*run* has begun: an exit from now on ends it first."""
    _running.add(run)
    # Once more, so that it comes before what the program had registered so far, such as closing the backend.
    atexit.unregister(_end_all)
    atexit.register(_end_all)


def finish(run: Leaving) -> None:
    """*run* has ended."""
    _running.discard(run)


def _end_all() -> None:
    runs = list(_running)
    for run in runs:
        run.ask_to_end()
    for run in runs:
        run.wait_for_end()


os.register_at_fork(after_in_child=_running.clear)  # none of them runs there
