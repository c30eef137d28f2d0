"""What the rooms of this backend work on: the file, its statements, the clock and the bell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.queues import Retention
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.statements import Statements
from scheduler_backends.sqlite.wakeups import Bells


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """now: microseconds since 1970, by the clock that the backend has at that moment."""

    file: File
    statements: Statements
    retention: Retention
    now: Callable[[], int]
    bells: Bells
