"""Options of the backend, given as arguments or in the URL, and URLs with libpq's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.limits import check_count, check_kind, check_number
from scheduler.queues import Retention
from scheduler.urls import Parser, split, split_options
from scheduler_backends.sql.options import check_identifier, parsers_of, with_options

# Query parameters that are passed to libpq. Its others would name another database, or undo a limit of this library.
_LIBPQ_OPTIONS: Mapping[str, Parser] = dict.fromkeys(
    (
        "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "krbsrvname",
        "load_balance_hosts", "options", "passfile", "port", "service", "sslcert", "sslcrl", "sslkey", "sslmode",
        "sslnegotiation", "sslrootcert", "target_session_attrs", "tcp_user_timeout",
    ),
    str,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked arguments of `PostgresBackend`, which has the same defaults."""

    retention: Retention = field(default_factory=Retention)
    schema: str = "scheduler"
    prefix: str = ""
    migrate: bool = False
    timeout: float = 10.0
    pool_size: int = 10
    pool_timeout: float = 5.0
    pgbouncer: bool = False
    listen_url: str | None = None

    def __post_init__(self) -> None:
        """Check every field. `ConfigError` names the invalid one."""
        check_kind("retention", self.retention, Retention)
        for name in ("migrate", "pgbouncer"):
            check_kind(name, getattr(self, name), bool)
        check_identifier("schema", self.schema)
        if self.prefix != "":
            check_identifier("prefix", self.prefix)
        check_number("timeout", self.timeout, at_least=0.01, at_most=3_600.0)
        check_number("pool_timeout", self.pool_timeout, at_most=3_600.0)
        check_count("pool_size", self.pool_size, at_least=1, at_most=1_000)

    def within(self, url: str) -> tuple[sa.URL, Options]:
        """Return *url* for the driver, and these options merged with those of the URL."""
        place, found = split_options(url, {**parsers_of(Options), **_LIBPQ_OPTIONS})
        driver = {name: str(found.pop(name)) for name in _LIBPQ_OPTIONS if name in found}
        return _database_url("url", f"{place}?{urlencode(driver)}" if driver else place), with_options(self, found)


def listen_url(given: object) -> sa.URL:
    """Check the argument `listen_url`, a URL with only libpq's options."""
    if not isinstance(given, str):
        raise ConfigError("listen_url", f"must be a URL, not {type(given).__name__}")
    try:
        split_options(given, _LIBPQ_OPTIONS)  # only a check: the driver reads them
    except ConfigError as error:
        raise ConfigError("listen_url", str(error)) from None
    return _database_url("listen_url", given)


def _database_url(field: str, given: str) -> sa.URL:
    """Convert *given* for SQLAlchemy. Raises `ConfigError` for *field* if it is not a PostgreSQL URL."""
    try:
        given.encode()
        url = sa.make_url(_with_hosts_as_options(given))
    except (sa.exc.ArgumentError, ValueError):  # not chained: their texts may show a password
        raise ConfigError(field, "cannot be read; percent-encode special characters in names and passwords") from None
    if any("\0" in str(part) for part in (*url, *url.query.values())):
        raise ConfigError(field, "must not contain NUL (%00)")
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ConfigError(field, "must begin with postgresql://")
    for port in str(url.query.get("port", "")).split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):  # noqa: PLR2004 - TCP's ports
            raise ConfigError("port", f"must be a number from 1 to 65535, not {port!r}")
    return url.set(drivername="postgresql+psycopg")


def _with_hosts_as_options(url: str) -> str:
    """Rewrite libpq's lists of hosts, ``host1:5432,host2:5433``, so that SQLAlchemy can read them."""
    parts = split(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return url
    pairs = [_host_and_port(one) for one in hosts.split(",")]
    query = urlencode({"host": ",".join(host for host, _ in pairs), "port": ",".join(port for _, port in pairs)})
    return f"{parts.scheme}://{user}{at}{parts.path}?{'&'.join(filter(None, (parts.query, query)))}"


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port
