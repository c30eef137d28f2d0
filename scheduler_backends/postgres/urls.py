"""URLs of a database, with our options and libpq's."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.queues import Retention
from scheduler.urls import RETENTION_OPTIONS, Parser, boolean, retention_from, split_options

_OPTIONS: Mapping[str, Parser] = {
    **RETENTION_OPTIONS,
    "schema": str,
    "prefix": str,
    "migrate": boolean,
    "timeout": float,
    "pool_size": int,
    "pool_timeout": float,
    "pgbouncer": boolean,
    "listen_url": str,
}
# What libpq itself takes as query parameters; the others would name another database, or undo a bound of ours.
_OF_THE_DRIVER: Mapping[str, Parser] = dict.fromkeys(
    (
        "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "krbsrvname",
        "load_balance_hosts", "options", "passfile", "port", "service", "sslcert", "sslcrl", "sslkey", "sslmode",
        "sslnegotiation", "sslrootcert", "target_session_attrs", "tcp_user_timeout",
    ),
    str,
)  # fmt: skip


def parsed(url: str) -> tuple[str, Retention, Mapping[str, object]]:
    """The URL as the driver takes it, and what the arguments of the backend's class are."""
    place, options = split_options(url, {**_OPTIONS, **_OF_THE_DRIVER})
    driver = {name: str(options.pop(name)) for name in _OF_THE_DRIVER if name in options}
    query = f"?{urlencode(driver)}" if driver else ""
    return f"{place}{query}", retention_from(options), options


def database_url(field: str, given: object) -> sa.URL:
    """*given*, the argument *field*, as SQLAlchemy takes it. `ConfigError` when it is none of PostgreSQL."""
    if not isinstance(given, str):
        raise ConfigError(field, f"must be a SQLAlchemy engine or a URL, not {type(given).__name__}")
    try:
        url = sa.make_url(given)
    except sa.exc.ArgumentError:  # its text may show a password
        raise ConfigError(field, "cannot be read; percent-encode what is special in names and passwords") from None
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ConfigError(field, "must begin with postgresql://")
    return url.set(drivername="postgresql+psycopg")
