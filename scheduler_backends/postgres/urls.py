"""URLs of a database with our options and libpq's."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.urls import RETENTION_OPTIONS, Parser, boolean, retention_from, split, split_options

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
# The query parameters for libpq itself; its others would name another database, or undo a limit of ours.
_OF_THE_DRIVER: Mapping[str, Parser] = dict.fromkeys(
    (
        "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "krbsrvname",
        "load_balance_hosts", "options", "passfile", "port", "service", "sslcert", "sslcrl", "sslkey", "sslmode",
        "sslnegotiation", "sslrootcert", "target_session_attrs", "tcp_user_timeout",
    ),
    str,
)  # fmt: skip


def parsed(url: str) -> tuple[str, dict[str, object]]:
    """Return the URL for the driver, and the arguments of the backend that it has as options."""
    place, options = split_options(url, {**_OPTIONS, **_OF_THE_DRIVER})
    driver = {name: str(options.pop(name)) for name in _OF_THE_DRIVER if name in options}
    kept = RETENTION_OPTIONS.keys() & options.keys()
    retention = retention_from(options)
    found: dict[str, object] = {**options, **({"retention": retention} if kept else {})}
    return f"{place}?{urlencode(driver)}" if driver else place, found


def listen_url(given: object) -> sa.URL:
    """Check the argument `listen_url`: a URL with no options but libpq's."""
    if not isinstance(given, str):
        raise ConfigError("listen_url", f"must be a URL, not {type(given).__name__}")
    try:
        _, options = split_options(given, _OF_THE_DRIVER)
    except ConfigError as error:
        raise ConfigError("listen_url", str(error)) from None
    del options  # read by the driver
    return database_url("listen_url", given)


def database_url(field: str, given: str) -> sa.URL:
    """Return *given*, the argument *field*, for SQLAlchemy. `ConfigError` when it is no URL of PostgreSQL."""
    try:
        given.encode()
        url = sa.make_url(_with_hosts_as_options(given))
    except (sa.exc.ArgumentError, ValueError):  # their texts may show a password
        raise ConfigError(field, "cannot be read; percent-encode what is special in names and passwords") from None
    if any("\0" in str(part) for part in (*url, *url.query.values())):
        raise ConfigError(field, "must not hold NUL, which is %00")
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
