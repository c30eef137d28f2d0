"""Bringing the schema up to date, also from several processes at once, and saying what that would take."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from typing import Any

from psycopg import sql
from sqlalchemy.dialects import postgresql

from scheduler.errors import SchemaMismatch
from scheduler_backends.postgres.database import Database, Driver
from scheduler_backends.postgres.schema import STEPS
from scheduler_backends.sql.connections import Answer, Execute
from scheduler_backends.sql.versions import check_version, check_versions, script

_log = logging.getLogger("scheduler.postgres")
_PATIENCE = 600.0  # seconds: a migration waits for others, and builds indexes


class Schema:
    """
    The schema *schema* of a database, with tables whose names begin with *prefix*.

    may_migrate: bring it up to date where it is not, when it is first used.
    """

    def __init__(self, schema: str, prefix: str, *, may_migrate: bool) -> None:
        self._schema = schema
        self._prefix = prefix
        self._may_migrate = may_migrate
        self._caller_prepared = False
        # Some names are words of SQL: as the statements quote them, which SQLAlchemy writes.
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for it
        self._quoted = dialect.identifier_preparer.quote(schema)
        self._versions = f"{self._quoted}.{prefix}schema_version"

    def prepare(self, driver: Driver) -> None:
        """What every process does first: see to the version, and warn of settings that cost much."""
        encoding, isolation = _one(
            driver,
            "SELECT current_setting('server_encoding'), current_setting('default_transaction_isolation')",
        )
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
        See to the version before the first statement on a caller's connection.

        By that connection: another one of a pool that is shared may not be there to be had.
        """
        if not self._caller_prepared:
            if not self._is_current(execute, may_migrate=self._may_migrate):
                database.alone(self.migrate)
            self._caller_prepared = True

    def check(self, driver: Driver) -> None:
        """Raise `SchemaMismatch` unless the schema is up to date."""
        self._is_current(_on(driver), may_migrate=False)

    def _is_current(self, execute: Execute, *, may_migrate: bool) -> bool:
        """Whether the schema is of the version known here. `SchemaMismatch` when it is not, and may not become so."""
        present = self._version(execute)
        check_version(present, len(STEPS), may_migrate=may_migrate)
        return present == len(STEPS)

    def version(self, driver: Driver) -> int:
        """The version in the database, 0 = none."""
        return self._version(_on(driver))

    def _version(self, execute: Execute) -> int:
        # No statement may fail, which would end a caller's transaction.
        # Not to_regclass(): behind a lock it may remember what was there before the lock was waited for.
        (there,) = _first(
            execute(
                "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %(schema)s AND c.relname = %(table)s)",
                {"schema": self._schema, "table": f"{self._prefix}schema_version"},
            )
        )
        if not there:
            return 0
        (version,) = _first(execute(f"SELECT coalesce(max(version), 0) FROM {self._versions}", {}))
        return int(version)

    def migrate(self, driver: Driver) -> int:
        """Bring the schema up to date in one transaction, and answer how many steps that took."""
        limit = getattr(driver, "limit", None)
        if limit is not None:
            driver.limit = _PATIENCE  # type: ignore[attr-defined]  # ours has one
        try:
            _run(driver, "BEGIN ISOLATION LEVEL READ COMMITTED")
            try:
                _run(driver, f"SET LOCAL statement_timeout = '{_PATIENCE:.0f}s'")
                # Before anything else: two that create the same schema at once would fail.
                _run(driver, "SELECT pg_advisory_xact_lock(%s)", self._lock)
                present = self.version(driver)
                check_version(present, len(STEPS), may_migrate=True)
                (there,) = _one(driver, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", self._schema)
                for statement in self._statements(present, len(STEPS), with_schema=not there):
                    _run(driver, statement)
                _run(driver, "COMMIT")
            except BaseException:
                if not driver.closed:
                    _run(driver, "ROLLBACK")
                raise
        finally:
            if limit is not None:
                driver.limit = limit  # type: ignore[attr-defined]
        return len(STEPS) - present

    def migration_sql(self, from_version: int, to_version: int | None) -> str:
        """What `migrate` would run between two versions (0 = nothing there, None = the newest), as one transaction."""
        last = check_versions(from_version, to_version, len(STEPS))
        statements = self._statements(from_version, last, with_schema=from_version == 0)
        return script(("BEGIN", f"SELECT pg_advisory_xact_lock({self._lock})", *statements, "COMMIT"))

    def _statements(self, present: int, last: int, *, with_schema: bool) -> list[str]:
        found: list[str] = []
        if with_schema:
            found.append(f"CREATE SCHEMA IF NOT EXISTS {self._quoted}")
        if present == 0 < last:
            found.append(f"CREATE TABLE {self._versions} (version integer PRIMARY KEY, applied_at bigint NOT NULL)")
        for version in range(present + 1, last + 1):
            found += [step.format(s=f"{self._quoted}.", p=self._prefix) for step in STEPS[version - 1]]
            found.append(
                f"INSERT INTO {self._versions} (version, applied_at) "
                f"VALUES ({version}, (extract(epoch FROM now()) * 1000000)::bigint)"
            )
        return found

    @property
    def _lock(self) -> int:
        # One for all prefixes: whoever is first makes the schema, and IF NOT EXISTS fails when two do so at once.
        return zlib.crc32(f"reliable-scheduler {self._schema}".encode())


def _run(driver: Driver, statement: str, *parameters: object) -> Any:
    # Never prepared: no text comes twice, and some cannot be.
    return driver.execute(sql.SQL(statement), parameters or None, prepare=False)


def _on(driver: Driver) -> Execute:
    return lambda statement, parameters: driver.execute(sql.SQL(statement), parameters or None, prepare=False)


def _one(driver: Driver, statement: str, *parameters: object) -> Sequence[Any]:
    return _first(_run(driver, statement, *parameters))


def _first(answer: Answer) -> Sequence[Any]:
    return answer.fetchone() or ()
