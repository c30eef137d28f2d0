"""State that the hooks of this backend share."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeVar, cast

from scheduler.clock import Clock
from scheduler.leases import Lease
from scheduler.limits import now_of
from scheduler.queues import Retention
from scheduler.waiting import WaiterRegistry
from scheduler_backends.sql.connections import Parameters
from scheduler_backends.sql.moments import to_micros
from scheduler_backends.sql.slices import SLICE
from scheduler_backends.sql.unreadable import UnreadableLog
from scheduler_backends.sqlite.errors import UndecodableTextError
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.statements import Statements

_log: Final = logging.getLogger("scheduler.sqlite")

_Hook = TypeVar("_Hook", bound=Callable[..., Any])


@dataclass(slots=True, kw_only=True)
class Store:
    """
    Parts of one backend.

    Args:
        file: the database file.
        statements: the text of all statements.
        retention: how long finished jobs are kept.
        clock: the source of the current time, None = the machine's clock.
        waiters: the waiters to notify in this process.
        known_queues: queues that this process has added to the table of queues. Adding one twice is harmless.
        turns: counts lease calls, so that each begins with another queue. `next()` on it is atomic.
        unreadable: the log of jobs that cannot be read.
    """

    file: File
    statements: Statements
    retention: Retention
    clock: Clock | None
    waiters: WaiterRegistry = field(default_factory=WaiterRegistry)
    known_queues: set[str] = field(default_factory=set)
    turns: Iterator[int] = field(default_factory=count)
    unreadable: UnreadableLog = field(default_factory=lambda: UnreadableLog(_log))

    def now(self) -> int:
        """Return the current time in microseconds since 1970."""
        return time.time_ns() // 1_000 if self.clock is None else to_micros(now_of(self.clock))

    def change_held(self, statement: str, leases: Sequence[Lease], parameters: Sequence[Parameters]) -> list[Lease]:
        """Run *statement* once for each lease. Return the refused leases: those for which it changed no row."""
        self.file.check_open()
        refused: list[Lease] = []
        for start in range(0, len(leases), SLICE):
            part, rows = leases[start : start + SLICE], parameters[start : start + SLICE]
            with self.file.writing() as connection:
                if connection.executemany(statement, rows).rowcount == len(part):
                    continue
                # Some were refused. To find out which, repeat the batch one by one. This is rare.
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                refused += [
                    lease
                    for lease, row in zip(part, rows, strict=True)
                    if connection.execute(statement, row).rowcount != 1
                ]
        return refused


def accept_any_text(hook: _Hook) -> _Hook:
    """
    Decorate a hook that must work even if another program stored text that is not UTF-8. SQLite does not check text.

    On such text, the call is repeated once with connections that accept any text, and they keep accepting it. Doing
    so from the beginning would cost too much for normal files. The repeat is safe: what the first call wrote was rolled
    back, or the repeat finds it.
    """

    @functools.wraps(hook)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except UndecodableTextError:
            self._store.file.accept_any_text()
            return hook(self, *args, **kwargs)

    return cast("_Hook", call)
