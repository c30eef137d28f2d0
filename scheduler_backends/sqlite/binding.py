"""Statements whose parameters are numbered, such as `:2`, run with rows of values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

_NUMBERS: Final = tuple(str(number) for number in range(1, 10))


class NumberingConnection(sqlite3.Connection):
    """
    A connection that binds the nth value of a row to `:n`, which may stand in a statement often, or not at all.

    SQLite's own `?n` would do without; but from Python 3.12 on, sqlite3 refuses to bind a row to those. A statement has
    either numbered parameters, `:1` among them, or plain ones.
    """

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As sqlite3's own."""
        return super().execute(sql, _named(parameters) if ":1" in sql else parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """As sqlite3's own."""
        return super().executemany(sql, map(_named, parameters) if ":1" in sql else parameters)


def _named(values: Sequence[object]) -> dict[str, object]:
    return dict(zip(_NUMBERS, values, strict=False))  # as many as there are
