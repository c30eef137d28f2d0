"""Engines for URLs, in autocommit mode and with bounded waits on the network."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler_backends.postgres.connections import BoundedConnection
from scheduler_backends.postgres.options import Options, listen_url

# Set by a statement, not by start-up options, which would replace the environment's PGOPTIONS and which pgbouncer does
# not support. A stricter time-out of the role or the database stays.
# Scans are off, because every statement has an index in its order. A plan made while the table was small would scan and
# sort it, and would be kept as the table grows.
# JIT is off, because up to version 17 a plan with an unavoidable scan, if scans are off, has such a high cost that the
# server compiles it each time.
_SETTINGS: Final = """
SELECT pg_catalog.set_config('default_transaction_isolation', {isolation}, false),
       pg_catalog.set_config('enable_seqscan', 'off', false), pg_catalog.set_config('enable_bitmapscan', 'off', false),
       pg_catalog.set_config('jit', 'off', false),
       pg_catalog.set_config('statement_timeout', CASE
           WHEN pg_catalog.current_setting('statement_timeout')::interval BETWEEN '1ms' AND '{most}ms'
           THEN pg_catalog.current_setting('statement_timeout') ELSE '{most}ms' END, false)
"""
# The server ends a statement first. Then its result is known, and the connection stays usable.
_MARGIN: Final = 1.1


def opened(engine_or_url: object, options: Options) -> tuple[sa.Engine, Options]:
    """Return the engine that was given or one for the URL, and *options* merged with those of the URL."""
    if isinstance(engine_or_url, str):
        url, options = options.within(engine_or_url)
        return _engine(url, options), options
    if not isinstance(engine_or_url, sa.Engine):
        raise ConfigError("url", f"must be a SQLAlchemy engine or a URL, not {type(engine_or_url).__name__}")
    if engine_or_url.dialect.name != "postgresql" or engine_or_url.dialect.driver != "psycopg":
        raise ConfigError("engine", "must be an engine for postgresql+psycopg")
    return engine_or_url, options


def listening_engine(options: Options) -> sa.Engine:
    """Return an engine for `listen_url`."""
    return _engine(listen_url(options.listen_url), dataclasses.replace(options, pool_size=1, pgbouncer=False))


def _engine(url: sa.URL, options: Options) -> sa.Engine:
    """
    Return an engine whose statements end after `timeout` seconds. Without pgbouncer the server ends them as well.

    The isolation level is read committed, whatever the server's default. At other levels, the server undoes statements
    that conflict, and they must be repeated.
    """
    timeout = options.timeout
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(min(timeout, 10.0))),  # libpq takes whole seconds and treats 1 as 2
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "scheduler",
    }
    for name in url.query:
        arguments.pop(name, None)
    arguments["client_encoding"] = "utf8"  # overrides the environment, the role and the database
    engine = sa.create_engine(
        url, connect_args=arguments, isolation_level="AUTOCOMMIT", hide_parameters=True, pool_size=options.pool_size,
        max_overflow=0, pool_timeout=options.pool_timeout, pool_reset_on_return=None,
        pool_use_lifo=True,  # a few warm connections rather than many cold ones
    )  # fmt: skip

    # An isolation level set in the URL stays.
    asked = "default_transaction_isolation" in str(url.query.get("options", ""))
    isolation = "pg_catalog.current_setting('default_transaction_isolation')" if asked else "'read committed'"
    settings = _SETTINGS.format(most=max(1, round(timeout * 1_000)), isolation=isolation)

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, given: list[Any], named: dict[str, Any]) -> BoundedConnection:
        connection = BoundedConnection.connect(*given, **named)
        connection.limit = timeout * _MARGIN
        if not options.pgbouncer:
            try:
                connection.autocommit = True
                connection.execute(settings, prepare=False)
            except BaseException:
                connection.close()
                raise
        return connection

    return engine
