"""The tables in the file, and the steps from one version of them to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler_backends.sql.checks import NAMES, STRAY, check_clauses
from scheduler_backends.sql.columns import SQLITE_TYPES, column_clauses
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.states import FINISHED, LEASED, RETRY_WAIT, WAITING
from scheduler_backends.sql.versions import check_version, check_versions, script

# A rowid table: WITHOUT ROWID was 30 to 60 % slower at batches of 64. No index holds lease_until, so a renewal rewrites
# only the row.
# STRICT and the constraints are for other programs. The library's own connections ignore the constraints: see
# `connection`.
_OWN_CHECKS: Final = {
    "characters": (f"{NAMES} NOT GLOB '*[' || char(1, 45, 31) || char(127) || ']*' AND instr({NAMES}, char(0)) = 0"),
    **{
        name: f"{name} IS NULL OR json_valid({name}) AND json_type({name}) = '{kind}'"
        for name, kind in (("retry_policy", "object"), ("metadata", "object"), ("errors", "array"))
    },
}
_FIRST: Final = (
    f"""
CREATE TABLE {{prefix}}job (
{column_clauses(lambda column: SQLITE_TYPES[column.type])},
    PRIMARY KEY (queue, id),
{check_clauses("{prefix}", _OWN_CHECKS)}
) STRICT""",
    f"CREATE INDEX {{prefix}}job_claim ON {{prefix}}job (queue, priority, due_at, id) WHERE state IN {WAITING}",
    f"CREATE INDEX {{prefix}}job_leased ON {{prefix}}job (queue, lease_token) WHERE state = {LEASED}",
    f"CREATE INDEX {{prefix}}job_retry ON {{prefix}}job (queue, due_at, id) WHERE state = {RETRY_WAIT}",
    f"CREATE INDEX {{prefix}}job_finished ON {{prefix}}job (queue, state, finished_at, id) WHERE state IN {FINISHED}",
    f"CREATE INDEX {{prefix}}job_stray ON {{prefix}}job (queue) WHERE {STRAY}",
    """CREATE TABLE {prefix}queue (
    name TEXT NOT NULL PRIMARY KEY, paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1))
) STRICT""",
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
    versions = f"{prefix}schema_version"
    if present == 0 < last:
        yield f"CREATE TABLE {versions} (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)"
    for version in range(present + 1, last + 1):
        yield from (statement.format(prefix=prefix) for statement in STEPS[version - 1])
        yield (f"INSERT INTO {versions} (version, applied_at) VALUES ({version}, strftime('%s') * 1000000)")
