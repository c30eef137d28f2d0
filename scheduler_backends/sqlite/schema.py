"""The tables in the file, and the steps from one version of them to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler_backends.sql.checks import Bounds
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.schema import Dialect
from scheduler_backends.sql.versions import check_version, check_versions, script


def _bounds(bounds: Bounds) -> str:
    sides = ((">=", bounds.low), ("<=", bounds.high))
    return " AND ".join(
        f"{value} {is_} {bound}" for is_, bound in sides if bound is not None for value in bounds.values
    )


# A rowid table: WITHOUT ROWID was 30 to 60 % slower at batches of 64. No index holds lease_until, so a renewal rewrites
# only the row.
# STRICT and the constraints are for other programs. The library's own connections ignore the constraints: see
# `connection`.
_TYPES: Final = {
    "text": "TEXT",
    "uuid": "TEXT",
    "jsonb": "TEXT",
    "boolean": "INTEGER",
    "smallint": "INTEGER",
    "integer": "INTEGER",
    "bigint": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}
_DIALECT: Final = Dialect(
    type_of=_TYPES.__getitem__,
    key="",
    documents=lambda kind, columns: " AND ".join(
        f"({name} IS NULL OR json_valid({name}) AND json_type({name}) = '{kind}')" for name in columns
    ),
    bounds=_bounds,
    tables=" STRICT",
    jobs=" STRICT",
    now="strftime('%s') * 1000000",
)
_FIRST: Final = (
    *_DIALECT.first_step(),
    # The numbers of leases: a row.
    "CREATE TABLE {s}{p}lease_number (last INTEGER NOT NULL) STRICT",
    "INSERT INTO {s}{p}lease_number (last) VALUES (0)",
)

STEPS: Final = (_FIRST,)
"""The statements of each version, from 1. A step that was ever released never changes."""


def version_of(execute: Execute, prefix: str) -> int:
    """Return the version of the schema in the file, 0 = none."""
    found = execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (f"{prefix}schema_version",)
    ).fetchone()
    if found is None:
        return 0
    (version,) = execute(f"SELECT max(version) FROM {prefix}schema_version", ()).fetchone() or (None,)
    return int(version or 0)


def is_current(execute: Execute, prefix: str, *, may_migrate: bool) -> bool:
    """Return whether the schema is the newest. Raises `SchemaMismatch` for one that *migrate* cannot make so."""
    present = version_of(execute, prefix)
    check_version(present, len(STEPS), may_migrate=may_migrate)
    return present == len(STEPS)


def migrate(execute: Execute, prefix: str) -> int:
    """Bring the schema up to date inside the caller's write transaction and return how many steps that took."""
    present = version_of(execute, prefix)
    check_version(present, len(STEPS), may_migrate=True)
    for statement in _statements(prefix, present, len(STEPS)):
        execute(statement, ())
    return len(STEPS) - present


def migration_sql(prefix: str, from_version: int, to_version: int | None) -> str:
    """Return what `migrate` runs between two versions (0 = no tables, None = the newest), as one transaction."""
    last = check_versions(from_version, to_version, len(STEPS))
    return script(("BEGIN IMMEDIATE", *_statements(prefix, from_version, last), "COMMIT"))


def _statements(prefix: str, present: int, last: int) -> Iterator[str]:
    return _DIALECT.migration(STEPS, schema="", prefix=prefix, present=present, last=last)
