"""What the hooks of this backend share."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from scheduler.clock import Clock
from scheduler.leases import Lease
from scheduler.limits import now_of
from scheduler.queues import Retention
from scheduler.waiting import WaiterRegistry
from scheduler_backends.sql.connections import Parameters
from scheduler_backends.sql.moments import to_micros
from scheduler_backends.sql.slices import slices
from scheduler_backends.sql.unreadable import UnreadableLog
from scheduler_backends.sqlite.errors import UndecodableTextError
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.statements import Statements

_log: Final = logging.getLogger("scheduler.sqlite")

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(slots=True, kw_only=True)
class Store:
    """
    The parts of one backend.

    clock: None = the machine's. known_queues: those that
    this process has entered in the table of queues; entering one twice is harmless. turns: counts lease calls, so that
    each begins with another queue; `next()` on it is atomic.
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
        """Return microseconds since 1970."""
        return time.time_ns() // 1_000 if self.clock is None else to_micros(now_of(self.clock))

    def change_held(self, statement: str, leases: Sequence[Lease], parameters: Sequence[Parameters]) -> list[Lease]:
        """Run *statement* once for each lease and return those for which it changed nothing: the refused."""
        self.file.check_open()
        refused: list[Lease] = []
        for part, rows in zip(slices(leases), slices(parameters), strict=True):
            with self.file.writing() as connection:
                if connection.executemany(statement, rows).rowcount == len(part):
                    continue
                # Some were refused. SQLite shows which only one by one; this is rare enough to do all of it again.
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                refused += [
                    lease
                    for lease, row in zip(part, rows, strict=True)
                    if connection.execute(statement, row).rowcount != 1
                ]
        return refused


class _Hooks(Protocol):
    _store: Store


_S = TypeVar("_S", bound=_Hooks)


def accept_any_text(hook: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """
    Decorate a hook that must also work where another program wrote text that is no UTF-8, which SQLite does not check.

    The call is repeated once: what it wrote was rolled back, or is found by the repeat. From then on the file's
    connections accept any text, which costs too much for files without such text.
    """

    @functools.wraps(hook)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return hook(self, *args, **kwargs)
        except UndecodableTextError:
            self._store.file.accept_any_text()
            return hook(self, *args, **kwargs)

    return call
