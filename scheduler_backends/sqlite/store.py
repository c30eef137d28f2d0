"""What the hooks of this backend work on: the file, its statements, the clock and the waiters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from scheduler.leases import Lease
from scheduler.queues import Retention
from scheduler.waiting import WaiterRegistry
from scheduler_backends.sql.connections import Parameters
from scheduler_backends.sql.slices import slices
from scheduler_backends.sqlite.errors import UndecodableTextError
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.statements import Statements

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """now: microseconds since 1970, by the clock that the backend has at that moment."""

    file: File
    statements: Statements
    retention: Retention
    now: Callable[[], int]
    waiters: WaiterRegistry

    def change_held(self, statement: str, leases: Sequence[Lease], parameters: Sequence[Parameters]) -> list[Lease]:
        """Run *statement* once for each lease and return those for which it changed nothing: the refused."""
        self.file.check_open()
        refused: list[Lease] = []
        for part, rows in zip(slices(leases), slices(parameters), strict=True):
            with self.file.writing() as connection:
                if connection.executemany(statement, rows).rowcount == len(part):
                    continue
                # Some were refused, and only one by one does SQLite say which. Rare enough to do it all again.
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
