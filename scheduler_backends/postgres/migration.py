"""Migrates the schema, also from several processes at once, and prints what that would run."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from typing import Any

from psycopg import sql
from sqlalchemy.dialects.postgresql.base import RESERVED_WORDS

from scheduler.errors import SchemaMismatch
from scheduler_backends.postgres.database import Database, Driver
from scheduler_backends.postgres.schema import STEPS
from scheduler_backends.sql.connections import Execute, Result
from scheduler_backends.sql.versions import check_version, check_versions, script

_log = logging.getLogger("scheduler.postgres")
_TIMEOUT = 600.0  # seconds: a migration waits for others, and builds indexes


class Schema:
    """
    The schema *schema* of a database, with tables whose names begin with *prefix*.

    may_migrate: bring it up to date when it is first used.
    """

    def __init__(self, schema: str, prefix: str, *, may_migrate: bool) -> None:
        self._schema = schema
        self._prefix = prefix
        self._may_migrate = may_migrate
        self._caller_prepared = False
        # Some names are words of SQL, and need quotes.
        self.quoted = f'"{schema}"' if schema in RESERVED_WORDS else schema
        self._versions = f"{self.quoted}.{prefix}schema_version"

    def prepare(self, driver: Driver) -> None:
        """Check the version before a process's first statement, and warn of settings that cost much."""
        settings = "SELECT current_setting('server_encoding'), current_setting('default_transaction_isolation')"
        encoding, isolation = _row(_on(driver)(settings, {}))
        if encoding != "UTF8":
            raise SchemaMismatch(f"the database has the encoding {encoding}; create one with ENCODING 'UTF8'")
        if isolation != "read committed":
            _log.warning(
                "default_transaction_isolation is %r: the server undoes statements that meet, and they are repeated; "
                "with 'read committed' it would not",
                isolation,
            )
        if not self._is_current(_on(driver), may_migrate=self._may_migrate):
            self.migrate(driver)

    def prepare_on(self, execute: Execute, database: Database) -> None:
        """
        Check the version before the first statement on a caller's connection.

        On that connection: a pool that is shared may have no other one.
        """
        if not self._caller_prepared:
            if not self._is_current(execute, may_migrate=self._may_migrate):
                database.alone(self.migrate)
            self._caller_prepared = True

    def check(self, driver: Driver) -> None:
        """Raise `SchemaMismatch` unless the schema is up to date."""
        self._is_current(_on(driver), may_migrate=False)

    def _is_current(self, execute: Execute, *, may_migrate: bool) -> bool:
        """Whether the schema is up to date. `SchemaMismatch` when it is not, and must not be migrated."""
        present = self._version(execute)
        check_version(present, len(STEPS), may_migrate=may_migrate)
        return present == len(STEPS)

    def version(self, driver: Driver) -> int:
        """Return the version in the database, 0 = none."""
        return self._version(_on(driver))

    def _version(self, execute: Execute) -> int:
        # No statement may fail, which would end a caller's transaction.
        # Not to_regclass(): after waiting for a lock it may return what was there before.
        tables = """SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s"""
        named = {"schema": self._schema, "table": f"{self._prefix}schema_version"}
        if execute(tables, named).fetchone() is None:
            return 0
        (version,) = _row(execute(f"SELECT coalesce(max(version), 0) FROM {self._versions}", {}))
        return int(version)

    def migrate(self, driver: Driver) -> int:
        """Bring the schema up to date in one transaction and return how many steps that took."""
        run = _on(driver)
        limit = getattr(driver, "limit", None)
        if limit is not None:
            driver.limit = _TIMEOUT  # type: ignore[attr-defined]  # ours has one
        try:
            run("BEGIN ISOLATION LEVEL READ COMMITTED", {})
            try:
                run(f"SET LOCAL statement_timeout = '{_TIMEOUT:.0f}s'", {})
                # Before anything else: two that create the same schema at once would fail.
                run(f"SELECT pg_advisory_xact_lock({self._lock})", {})
                present = self._version(run)
                check_version(present, len(STEPS), may_migrate=True)
                schemas = run("SELECT FROM pg_namespace WHERE nspname = %(schema)s", {"schema": self._schema})
                with_schema = schemas.fetchone() is None
                for statement in (*self._statements(present, len(STEPS), with_schema=with_schema), "COMMIT"):
                    run(statement, {})
            except BaseException:
                if not driver.closed:
                    run("ROLLBACK", {})
                raise
        finally:
            if limit is not None:
                driver.limit = limit  # type: ignore[attr-defined]  # as above
        return len(STEPS) - present

    def migration_sql(self, from_version: int, to_version: int | None) -> str:
        """Return what `migrate` runs between two versions (0 = no schema, None = the newest), as a transaction."""
        last = check_versions(from_version, to_version, len(STEPS))
        statements = self._statements(from_version, last, with_schema=from_version == 0)
        return script(("BEGIN", f"SELECT pg_advisory_xact_lock({self._lock})", *statements, "COMMIT"))

    def _statements(self, present: int, last: int, *, with_schema: bool) -> list[str]:
        found: list[str] = []
        if with_schema:
            found.append(f"CREATE SCHEMA IF NOT EXISTS {self.quoted}")
        if present == 0 < last:
            found.append(f"CREATE TABLE {self._versions} (version integer PRIMARY KEY, applied_at bigint NOT NULL)")
        for version in range(present + 1, last + 1):
            found += [step.format(s=f"{self.quoted}.", p=self._prefix) for step in STEPS[version - 1]]
            found.append(
                f"INSERT INTO {self._versions} (version, applied_at) "
                f"VALUES ({version}, (extract(epoch FROM now()) * 1000000)::bigint)"
            )
        return found

    @property
    def _lock(self) -> int:
        # One for all prefixes: the first makes the schema, and IF NOT EXISTS fails when two do so at once.
        return zlib.crc32(f"reliable-scheduler {self._schema}".encode())


def _on(driver: Driver) -> Execute:
    # Never prepared: no text comes twice, and some cannot be.
    return lambda statement, parameters: driver.execute(sql.SQL(statement), parameters or None, prepare=False)


def _row(result: Result) -> Sequence[Any]:
    return result.fetchone() or ()
