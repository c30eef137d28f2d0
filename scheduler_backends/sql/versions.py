"""The version of the schema: whether it is the one that this release needs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scheduler.errors import ConfigError, SchemaMismatch

_IDENTIFIER = re.compile("[a-z_][a-z0-9_]{0,39}")


def check_identifier(field: str, name: object) -> str:
    """Check the name of a schema or a prefix of tables: lower-case letters, digits and underscores, at most 40."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ConfigError(field, "must be 1 to 40 lower-case letters, digits and underscores, no digit first")
    return name


def check_version(present: int, known: int, *, may_migrate: bool) -> None:
    """Raise `SchemaMismatch`, which says what to do, unless *present* is *known* (or can be migrated to it)."""
    if present > known:
        raise SchemaMismatch(
            f"the schema has version {present}, and this release knows {known}: install a newer reliable-scheduler"
        )
    if present < known and not may_migrate:
        state = f"the schema has version {present}, and this release needs {known}" if present else "there is no schema"
        raise SchemaMismatch(
            f"{state}: run `python -m scheduler_backends.sql migrate URL`, call migrate(), or open the store with "
            "migrate=True"
        )


def check_versions(from_version: int, to_version: int | None, known: int) -> int:
    """Check the versions of a migration and return the last; None = the newest."""
    last = known if to_version is None else to_version
    if not 0 <= from_version <= last <= known:
        raise ConfigError("from_version", f"versions go from 0 to {known}, and only forwards")
    return last


def script(statements: Iterable[str]) -> str:
    """Return *statements* as a file for the database's own shell."""
    return "".join(f"{statement.strip()};\n" for statement in statements)
