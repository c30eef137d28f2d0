"""From a URL or a client to a router: connections of our own that send nothing by themselves a second time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import redis
from redis import connection as driver
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from scheduler.errors import ConfigError
from scheduler.urls import Option, Parser, boolean
from scheduler_backends.redis.cluster import Address, Cluster
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.routing import Connection, OneNode, Router

# The driver's own keyword arguments for a connection: it types them as loosely.
Settings = dict[str, Any]


def _protocol(text: str) -> int:
    if text not in ("2", "3"):
        raise ValueError("must be 2 or 3")
    return int(text)


CONNECTION_OPTIONS: Mapping[str, Parser] = {
    "timeout": float,
    "protocol": _protocol,
    "db": int,
    "client_name": str,
    "ssl_ca_certs": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_cert_reqs": str,
    "ssl_check_hostname": boolean,
    "tls": boolean,
    "sentinel_username": str,
    "sentinel_password": str,
}
"""Query parameters about the connection; tls is for redis+sentinel:// and redis+cluster://, rediss:// has it."""

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix", "redis+sentinel", "redis+cluster")


def router_for_url(url: str, options: Mapping[str, Option], timeout: float) -> Router:
    """A router for a URL without its query, which was read into *options*."""
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise ConfigError("url", f"{scheme}:// is not for the Redis backend; known: {', '.join(SCHEMES)}")
    settings = _fixed(timeout) | {"socket_keepalive": True}
    for name in ("protocol", "client_name"):
        if name in options:
            settings[name] = options[name]
    hosts, path = _authority(url, settings)
    if scheme == "unix":
        del settings["socket_keepalive"]
        settings |= {"path": unquote(path), "db": options.get("db", 0)}
        return _one(driver.UnixDomainSocketConnection, settings)
    tls = scheme in ("rediss", "valkeys") or bool(options.get("tls"))
    if tls:
        settings |= {name: value for name, value in options.items() if name.startswith("ssl_")}
    connection_class = driver.SSLConnection if tls else driver.Connection
    if scheme == "redis+cluster":
        if path.strip("/0") or options.get("db"):
            raise ConfigError("db", "a cluster has database 0 alone")
        return _cluster(connection_class, settings, hosts)
    service, _, database = path.strip("/").partition("/") if scheme == "redis+sentinel" else ("", "", path.strip("/"))
    settings["db"] = _database(database, options)
    if scheme == "redis+sentinel":
        return _sentinel(hosts, service, settings, options, tls=tls)
    if len(hosts) != 1:
        raise ConfigError("url", f"{scheme}:// takes one host; several are for redis+sentinel:// and redis+cluster://")
    settings["host"], settings["port"] = hosts[0]
    return _one(connection_class, settings)


def router_for_client(client: object, timeout: float) -> Router:
    """A router that connects as the client of redis-py (or one made like it) does, by connections of its own."""
    if inspect.iscoroutinefunction(getattr(client, "execute_command", None)):
        raise ConfigError("client_or_url", "must be a synchronous client, not one of redis.asyncio")
    nodes = getattr(client, "nodes_manager", None)
    if nodes is not None:
        _warn_of_resends(getattr(client, "retry", None))
        settings = _own(nodes.connection_kwargs, timeout)
        for name in ("redis_connect_func", "parser_class", "host", "port"):  # the cluster client's own affair
            settings.pop(name, None)
        tls = bool(settings.pop("ssl", False))
        start = [(node.host, int(node.port)) for node in tuple(nodes.startup_nodes.values())]
        return _cluster(driver.SSLConnection if tls else driver.Connection, settings, start)
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise ConfigError("client_or_url", f"must be a URL or a client of redis-py, not {type(client).__name__}")
    _warn_of_resends(pool.connection_kwargs.get("retry"))
    # The pool itself stays in use behind Sentinel: its connections ask it for the master, and hold it weakly.
    return _one(pool.connection_class, _own(pool.connection_kwargs, timeout), keep=client)


def _fixed(timeout: float) -> Settings:
    """What every connection of ours has: bounded waits, bytes in and out, and nothing repeated."""
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "decode_responses": False,
        "encoding": "utf-8",
        "health_check_interval": 0,
    }


def _own(given: Mapping[str, Any], timeout: float) -> Settings:
    settings = {
        name: value
        for name, value in given.items()
        # What ties a connection to its client: caches, notices of maintenance, registries.
        if not name.startswith(("maint", "oss_", "orig_", "cache", "himport", "event_dispatcher", "retry_on_timeout"))
    }
    fixed = _fixed(timeout)
    for name in ("socket_timeout", "socket_connect_timeout"):
        if given.get(name) is not None:
            del fixed[name]
    return settings | fixed


def _one(connection_class: Callable[..., Connection], settings: Settings, *, keep: object = None) -> OneNode:
    def make(**changes: object) -> Connection:
        _ = keep  # alive as long as this function is
        return connection_class(**(settings | changes))

    return OneNode(make, lambda: make(protocol=2))


def _cluster(connection_class: Callable[..., Connection], settings: Settings, start: list[Address]) -> Cluster:
    def make(address: Address, **changes: object) -> Connection:
        return connection_class(host=address[0], port=address[1], **(settings | changes))

    return Cluster(make, lambda address: make(address, protocol=2), start)


def _sentinel(
    hosts: list[Address], service: str, settings: Settings, options: Mapping[str, Option], *, tls: bool
) -> Router:
    if not service:
        raise ConfigError("url", "redis+sentinel:// needs the name of the service: …host:26379/NAME")
    asking = {name: settings[name] for name in (*_fixed(0), "socket_keepalive") if name != "encoding"}
    asking |= {name: value for name, value in settings.items() if name.startswith("ssl_") or name == "protocol"}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            asking[name] = options[f"sentinel_{name}"]
    sentinel: Any = Sentinel(hosts, sentinel_kwargs=asking | {"ssl": tls})  # type: ignore[no-untyped-call]  # the driver
    client = sentinel.master_for(service, redis_class=redis.Redis, **(settings | {"ssl": tls}))
    pool = client.connection_pool
    return _one(pool.connection_class, _own(pool.connection_kwargs, settings["socket_timeout"]), keep=client)


def _authority(url: str, settings: Settings) -> tuple[list[Address], str]:
    """The hosts and the path of a URL; user and password go into *settings*."""
    user, _, rest = urlsplit(url).netloc.rpartition("@")
    name, _, password = user.partition(":")
    if name:
        settings["username"] = unquote(name)
    if password:
        settings["password"] = unquote(password)
    port = 26379 if url.startswith("redis+sentinel") else 6379
    return [_address(part, port) for part in rest.split(",")] if rest else [("localhost", port)], urlsplit(url).path


def _address(text: str, port: int) -> Address:
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, str(port)
    if not number.isdecimal() or not 0 < int(number) < 65_536:  # noqa: PLR2004 - the range of ports
        raise ConfigError("url", "has a port that is none")
    return host.strip("[]") or "localhost", int(number)


def _database(text: str, options: Mapping[str, Option]) -> int:
    if text and "db" in options:
        raise ConfigError("db", "is given twice in the URL")
    if text and not text.isdecimal():
        raise ConfigError("db", "must be a number")
    return int(text or cast("int", options.get("db", 0)))


def _warn_of_resends(retry: Retry | None) -> None:
    retries = retry.get_retries() if retry is not None else 0
    if retries:
        log.warning(
            "the Redis client given to the backend sends a command whose answer was lost again, up to %d times; a "
            "queue must not. The backend therefore uses connections of its own, which send nothing twice; give it a "
            "URL, or a client made with retry=Retry(NoBackoff(), 0), for this notice to go away",
            retries,
        )
