"""Schema of the database: Postgres' dialect of the shared tables, and their migration."""

from __future__ import annotations

import logging
import zlib
from typing import Final

from psycopg import sql
from sqlalchemy.dialects.postgresql.base import RESERVED_WORDS

from scheduler.errors import SchemaMismatch
from scheduler_backends.postgres.database import Database, Driver
from scheduler_backends.sql.checks import NAMES
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.schema import Dialect, Schema, script
from scheduler_backends.sql.states import WAITING

_log = logging.getLogger("scheduler.postgres")
_TIMEOUT = 600.0  # seconds: a migration waits for other transactions, and builds indexes

# Collation "C" compares ids as bytes. This is faster, and an upgrade of the operating system's locales changes nothing.
# Every job is updated at least once, by its lease, so pages are left half empty for the new versions. At a fill factor
# of 85, a lease-and-delete cycle took 869 bytes of log instead of 618, and 35 to 77 % of the renewals were heap-only
# updates instead of 97 to 100 %. Heap-only updates are possible because no index contains lease_until.
# There are many dead rows, so vacuum is triggered mostly by their number, not by a share of the table.
DIALECT: Final = Dialect(
    type_of=str,
    key=' COLLATE "C"',
    characters=f"{NAMES} !~ '[\\u0001-\\u001f\\u007f]'",
    documents=lambda kind, columns: f"'{kind}' = ALL (ARRAY[{', '.join(map('jsonb_typeof({})'.format, columns))}])",
    least="least",
    greatest="greatest",
    tables="",
    jobs=""" WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000
)""",
    further=(
        # Gives the lease numbers.
        "CREATE SEQUENCE {s}{p}lease_number",
        f"""
CREATE VIEW {{s}}{{p}}job_status AS
SELECT queue, id, type, priority,
       CASE WHEN state IN {WAITING} AND due_at <= extract(epoch FROM now()) * 1000000 THEN 'ready'
            ELSE (ARRAY['scheduled', NULL, 'leased', 'retry_wait', 'succeeded', 'dead', 'cancelled'])[state + 1]
       END AS state,
       attempts, crashes, max_retries, to_timestamp(run_at / 1e6) AS run_at, to_timestamp(due_at / 1e6) AS due_at,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(finished_at / 1e6) AS finished_at,
       timeout, lease_owner, to_timestamp(lease_until / 1e6) AS lease_expires_at, idempotency_key, metadata,
       history.errors, history.errors -> -1 AS last_error, key, to_timestamp(leased_at / 1e6) AS leased_at,
       to_timestamp(expires_at / 1e6) AS expires_at, to_timestamp(keep_until / 1e6) AS keep_until, cancel_requested,
       fence, note, runs
FROM {{s}}{{p}}job AS job LEFT JOIN LATERAL (
    SELECT jsonb_agg(
        CASE WHEN error ->> 'at' ~ '^[0-9]{{{{1,17}}}}$'
             THEN error || jsonb_build_object('at', to_timestamp((error ->> 'at')::bigint / 1e6)) ELSE error END
        ORDER BY place) AS errors
    FROM jsonb_array_elements(CASE jsonb_typeof(job.errors) WHEN 'array' THEN job.errors END)
        WITH ORDINALITY AS each (error, place)
) AS history ON true""",
        "COMMENT ON VIEW {s}{p}job_status IS 'jobs for people: fields of Job, states by name, times as timestamps'",
    ),
    now="(extract(epoch FROM now()) * 1000000)::bigint",
)


class PostgresSchema(Schema):
    """
    Tables in *schema* whose names begin with *prefix*.

    With *may_migrate*, they are migrated when they are first used.
    """

    def __init__(self, schema: str, prefix: str, *, may_migrate: bool) -> None:
        # Names that are reserved words of SQL need quotes.
        self.quoted = f'"{schema}"' if schema in RESERVED_WORDS else schema
        # Not to_regclass(): after a wait for a lock, it may return an outdated result.
        exists = f"""SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = '{schema}' AND c.relname = '{prefix}schema_version'"""
        super().__init__(DIALECT, place=f"{self.quoted}.", prefix=prefix, may_migrate=may_migrate, exists=exists)
        self._schema = schema
        self._caller_prepared = False

    def prepare(self, driver: Driver) -> None:
        """Check or migrate the schema before a process's first statement, and warn about expensive settings."""
        settings = "SELECT current_setting('server_encoding'), current_setting('default_transaction_isolation')"
        ((encoding, isolation),) = _on(driver)(settings, {}).fetchall()
        if encoding != "UTF8":
            raise SchemaMismatch(f"the database has the encoding {encoding}; create one with ENCODING 'UTF8'")
        if isolation != "read committed":
            _log.warning(
                "default_transaction_isolation is %r: the server undoes conflicting statements, and they are repeated; "
                "with 'read committed' it does not",
                isolation,
            )
        if not self.is_current(_on(driver)):
            self.migrate(driver)

    def prepare_on(self, execute: Execute, database: Database) -> None:
        """
        Check or migrate the schema before the first statement on a caller's connection.

        The check runs on that connection, because a shared pool may have no other one.
        """
        if not self._caller_prepared:
            if not self.is_current(execute):
                database.unchecked(self.migrate)
            self._caller_prepared = True

    def check(self, driver: Driver) -> None:
        """Raise `SchemaMismatch` unless the schema is up to date."""
        self.is_current(_on(driver), may_migrate=False)

    def version(self, driver: Driver) -> int:
        """Return the version in the database, 0 = there are no tables."""
        return self.version_of(_on(driver))

    def migrate(self, driver: Driver) -> int:
        """Bring the tables up to date in one transaction and return the number of steps applied."""
        run = _on(driver)
        limit = getattr(driver, "limit", None)
        if limit is not None:
            driver.limit = _TIMEOUT  # type: ignore[attr-defined]  # a BoundedConnection
        try:
            run("BEGIN ISOLATION LEVEL READ COMMITTED", {})
            try:
                run(f"SET LOCAL statement_timeout = '{_TIMEOUT:.0f}s'", {})
                # First, because two concurrent CREATE SCHEMA of the same name would fail.
                run(f"SELECT pg_advisory_xact_lock({self._lock})", {})
                named = {"schema": self._schema}
                if not run("SELECT FROM pg_namespace WHERE nspname = %(schema)s", named).fetchall():
                    run(self._create, {})
                steps = self.migrate_on(run)
                run("COMMIT", {})
            except BaseException:
                if not driver.closed:
                    run("ROLLBACK", {})
                raise
        finally:
            if limit is not None:
                driver.limit = limit  # type: ignore[attr-defined]  # as above
        return steps

    def migration_sql(self, from_version: int, to_version: int | None) -> str:
        """Return the SQL that `migrate` runs between two versions (0 = no tables, None = the newest)."""
        schema = [self._create] if from_version == 0 else []
        statements = self.statements(from_version, to_version)
        return script("BEGIN", f"SELECT pg_advisory_xact_lock({self._lock})", *schema, *statements, "COMMIT")

    @property
    def _create(self) -> str:
        return f"CREATE SCHEMA IF NOT EXISTS {self.quoted}"

    @property
    def _lock(self) -> int:
        # One lock for all prefixes: the first migration creates the schema, and even with IF NOT EXISTS, two that do so
        # at once may fail.
        return zlib.crc32(f"reliable-scheduler {self._schema}".encode())


def _on(driver: Driver) -> Execute:
    # Never prepared: no text is repeated, and some statements cannot be prepared.
    return lambda statement, parameters: driver.execute(sql.SQL(statement), parameters or None, prepare=False)
