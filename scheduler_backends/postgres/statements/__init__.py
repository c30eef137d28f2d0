"""
Every statement that the store runs: each is atomic by itself and commits by itself.

Built in SQLAlchemy Core, compiled once, and run on the driver's connection: executing through Core costs 85 to 150 µs
more a call. States and priorities stand in the text, not in parameters: a partial index serves only a predicate that
the planner can read.
"""

from __future__ import annotations

from functools import cache

from scheduler_backends.postgres.statements.burying import BuryingStatements
from scheduler_backends.postgres.statements.curating import CuratingStatements
from scheduler_backends.postgres.statements.leasing import LeasingStatements
from scheduler_backends.postgres.statements.reads import ReadStatements
from scheduler_backends.postgres.statements.settling import SettlingStatements
from scheduler_backends.postgres.statements.storing import StoringStatements
from scheduler_backends.sql.tables import tables

__all__ = ["Statements", "statements"]


class Statements:
    """The statements for one schema and prefix, by room; each is compiled when first used."""

    def __init__(self, schema: str | None, prefix: str) -> None:
        found = tables(schema=schema, prefix=prefix)
        self.storing = StoringStatements(found)
        self.leasing = LeasingStatements(found)
        self.settling = SettlingStatements(found)
        self.burying = BuryingStatements(found)
        self.curating = CuratingStatements(found)
        self.reads = ReadStatements(found)


@cache  # so that the second backend of a process need not compile again
def statements(schema: str | None, prefix: str) -> Statements:
    """The statements for tables in *schema* (None = the connection's own) whose names begin with *prefix*."""
    return Statements(schema, prefix)
