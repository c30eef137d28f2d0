"""Construction of a router from a URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import SplitResult, unquote

import redis
from redis import connection as driver
from redis.sentinel import Sentinel

from scheduler.errors import ConfigError
from scheduler.urls import Option, Parser, boolean, split
from scheduler_backends.redis.client.cluster import Address, Router
from scheduler_backends.redis.client.connections import Settings, cluster_of, fixed, one_node, own


def _protocol(text: str) -> int:
    if text not in ("2", "3"):
        raise ValueError("must be 2 or 3")
    return int(text)


def _cert_reqs(text: str) -> str:
    known = {"none": "none", "optional": "optional", "required": "required"}
    found = known.get(text.lower().removeprefix("cert_"))
    if found is None:
        raise ValueError("must be none, optional or required")
    return found


def _file(path: str) -> str:
    # Checked here: the driver would report a missing file as a connection error, as if the server were unavailable.
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):  # noqa: PTH113 - Path.is_file raises for some paths
        raise ValueError("must be a file that exists and can be read")
    return path


CONNECTION_OPTIONS: Mapping[str, Parser] = {
    "timeout": float,
    "protocol": _protocol,
    "db": int,
    "client_name": str,
    "ssl_ca_certs": _file,
    "ssl_certfile": _file,
    "ssl_keyfile": _file,
    "ssl_cert_reqs": _cert_reqs,
    "ssl_check_hostname": boolean,
    "tls": boolean,
    "sentinel_username": str,
    "sentinel_password": str,
}
"""Query parameters for the connection. tls is for redis+sentinel:// and redis+cluster://; rediss:// implies it."""

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix", "redis+sentinel", "redis+cluster")


def router_for_url(url: str, options: Mapping[str, Option], timeout: float) -> Router:
    """
    Return a router for a URL.

    Args:
        url: The URL without its query.
        options: The query, parsed.
        timeout: Seconds for a connection attempt, and for a reply.

    Raises:
        ConfigError: The URL or an option is wrong.
    """
    parts = split(url)
    scheme = parts.scheme
    if scheme not in SCHEMES:
        raise ConfigError("url", f"{scheme}:// is not for the Redis backend; known: {', '.join(SCHEMES)}")
    settings = fixed(timeout) | {"socket_keepalive": True}
    for name in ("protocol", "client_name"):
        if name in options:
            settings[name] = options[name]
    tls = scheme in ("rediss", "valkeys") or bool(options.get("tls"))
    settings |= _tls_settings(options, tls=tls)
    hosts, path = _hosts(parts, settings), parts.path
    if scheme == "unix":
        del settings["socket_keepalive"]
        settings |= {"path": unquote(path), "db": options.get("db", 0)}
        return one_node(driver.UnixDomainSocketConnection, settings)
    connection_class = driver.SSLConnection if tls else driver.Connection
    if scheme == "redis+cluster":
        if path.strip("/0") or options.get("db"):
            raise ConfigError("db", "a cluster has database 0 only")
        return cluster_of(connection_class, settings, hosts)
    service, _, database = path.strip("/").partition("/") if scheme == "redis+sentinel" else ("", "", path.strip("/"))
    settings["db"] = _database(database, options)
    if scheme == "redis+sentinel":
        return _sentinel(hosts, service, settings, options, tls=tls)
    if len(hosts) != 1:
        raise ConfigError("url", f"{scheme}:// takes one host; several are for redis+sentinel:// and redis+cluster://")
    settings["host"], settings["port"] = hosts[0]
    return one_node(connection_class, settings)


def _tls_settings(options: Mapping[str, Option], *, tls: bool) -> Settings:
    settings: Settings = {name: value for name, value in options.items() if name.startswith("ssl_")}
    if not tls:
        for name in settings:
            raise ConfigError(name, "is for TLS only: rediss://, valkeys:// or tls=true")
    if settings.get("ssl_cert_reqs") == "none" and settings.setdefault("ssl_check_hostname", False):
        raise ConfigError("ssl_check_hostname", "cannot be true if ssl_cert_reqs is none")
    return settings


def _sentinel(
    hosts: list[Address], service: str, settings: Settings, options: Mapping[str, Option], *, tls: bool
) -> Router:
    if not service:
        raise ConfigError("url", "redis+sentinel:// needs the name of the service: …host:26379/NAME")
    asking = {name: settings[name] for name in (*fixed(0), "socket_keepalive") if name != "encoding"}
    asking |= {name: value for name, value in settings.items() if name.startswith("ssl_") or name == "protocol"}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            asking[name] = options[f"sentinel_{name}"]
    sentinel: Any = Sentinel(hosts, sentinel_kwargs=asking | {"ssl": tls})  # type: ignore[no-untyped-call]  # the driver
    client = sentinel.master_for(service, redis_class=redis.Redis, **(settings | {"ssl": tls}))
    pool = client.connection_pool
    return one_node(pool.connection_class, own(pool.connection_kwargs, settings["socket_timeout"]), keep=client)


def _hosts(parts: SplitResult, settings: Settings) -> list[Address]:
    """Return the hosts of a URL, and store its user and password in *settings*."""
    user, _, rest = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    if name:
        settings["username"] = unquote(name)
    if password:
        settings["password"] = unquote(password)
    port = 26379 if parts.scheme == "redis+sentinel" else 6379
    return [_address(part, port) for part in rest.split(",")] if rest else [("localhost", port)]


def _address(text: str, port: int) -> Address:
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, str(port)
    if not number.isdecimal() or not 0 < int(number) < 65_536:  # noqa: PLR2004 - the range of ports
        raise ConfigError("url", "has an invalid port")
    return host.strip("[]") or "localhost", int(number)


def _database(text: str, options: Mapping[str, Option]) -> int:
    if text and "db" in options:
        raise ConfigError("db", "is given twice in the URL")
    if text and not text.isdecimal():
        raise ConfigError("db", "must be a number")
    return int(text or cast("int", options.get("db", 0)))
