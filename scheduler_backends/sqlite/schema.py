"""Schema of the file: SQLite's dialect of the shared tables."""

from __future__ import annotations

from typing import Final

from scheduler_backends.sql.checks import NAMES
from scheduler_backends.sql.columns import SQLITE_TYPES
from scheduler_backends.sql.schema import Dialect, Schema

# Not WITHOUT ROWID, which was 30 to 60 % slower at batches of 64. No index contains lease_until, so a renewal writes
# only the row.
# STRICT and the constraints protect against other programs. The library's own connections ignore the constraints: see
# `connection.connect`.
DIALECT: Final = Dialect(
    type_of=SQLITE_TYPES.__getitem__,
    key="",
    characters=f"{NAMES} NOT GLOB '*[' || char(1, 45, 31) || char(127) || ']*' AND instr({NAMES}, char(0)) = 0",
    documents=lambda kind, columns: " AND ".join(
        f"({name} IS NULL OR json_valid({name}) AND json_type({name}) = '{kind}')" for name in columns
    ),
    tables=" STRICT",
    jobs=" STRICT",
    further=(
        # A single row with the last lease number.
        "CREATE TABLE {p}lease_number (last INTEGER NOT NULL) STRICT",
        "INSERT INTO {p}lease_number (last) VALUES (0)",
    ),
    now="strftime('%s') * 1000000",
)


def schema_of(prefix: str, *, may_migrate: bool) -> Schema:
    """Return the schema of the tables whose names begin with *prefix*."""
    exists = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}schema_version'"
    return Schema(DIALECT, place="", prefix=prefix, may_migrate=may_migrate, exists=exists)
