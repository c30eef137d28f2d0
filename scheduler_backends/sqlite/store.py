"""What the rooms of this backend work on: the file, its statements, the clock and the waiters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from scheduler.queues import Retention
from scheduler_backends.sqlite.errors import UndecodableTextError
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.statements import Statements
from scheduler_backends.sqlite.wakeups import WaiterRegistry

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


class _Room(Protocol):
    _store: Store


_S = TypeVar("_S", bound=_Room)


def whatever_its_text(call: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """
    *call* goes on where another program wrote text that is no UTF-8, which SQLite does not look at.

    It is repeated once: what it wrote was rolled back, or is found by the repeat. From then on all text is taken, at a
    cost that no file need bear in which all is well.
    """

    @functools.wraps(call)
    def go_on(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(self, *args, **kwargs)
        except UndecodableTextError:
            self._store.file.take_any_text()
            return call(self, *args, **kwargs)

    return go_on
