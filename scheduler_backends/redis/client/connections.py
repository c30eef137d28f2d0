"""Connection settings, and routers that connect with the settings of a given client."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from redis import connection as driver
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduler.errors import ConfigError
from scheduler_backends.redis.client.cluster import Address, Cluster, Router
from scheduler_backends.redis.client.node import Connection, Node
from scheduler_backends.redis.errors import log

# Keyword arguments for the driver's connections, which are typed as loosely there.
Settings = dict[str, Any]


def fixed(timeout: float) -> Settings:
    """Return the settings common to all connections: bounded waits, raw bytes, no retries. *timeout*: in seconds."""
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "decode_responses": False,
        "encoding": "utf-8",
        "health_check_interval": 0,
    }


def own(given: Mapping[str, Any], timeout: float) -> Settings:
    """Return the settings *given* by a client, adapted for our connections. Its time-outs take precedence."""
    settings = {
        name: value
        for name, value in given.items()
        # These tie a connection to its client: caches, maintenance notifications, registries.
        if not name.startswith(("maint", "oss_", "orig_", "cache", "himport", "event_dispatcher", "retry_on_timeout"))
    }
    always = fixed(timeout)
    for name in ("socket_timeout", "socket_connect_timeout"):
        if given.get(name) is not None:
            del always[name]
    return settings | always


def one_node(connection_class: Callable[..., Connection], settings: Settings, *, keep: object = None) -> Node:
    """Return a router to one server, which keeps a reference to *keep*."""

    def make(**changes: object) -> Connection:
        _ = keep  # holds the reference as long as this function exists
        return connection_class(**(settings | changes))

    return Node(make)


def cluster_of(connection_class: Callable[..., Connection], settings: Settings, start: list[Address]) -> Cluster:
    """Return a router to the cluster that is discovered from the nodes in *start*."""

    def make(address: Address, **changes: object) -> Connection:
        return connection_class(host=address[0], port=address[1], **(settings | changes))

    return Cluster(make, start)


def router_for_client(client: object, timeout: float) -> Router:
    """
    Return a router with the settings of *client*, and with connections of its own.

    Args:
        client: A synchronous client of redis-py, or of a library derived from it.
        timeout: Seconds, used if the client sets no time-out.

    Raises:
        ConfigError: *client* is not such a client.
    """
    if inspect.iscoroutinefunction(getattr(client, "execute_command", None)):
        raise ConfigError("client_or_url", "must be a synchronous client, not one of redis.asyncio")
    nodes = getattr(client, "nodes_manager", None)
    if nodes is not None:
        _warn_of_resends(getattr(client, "retry", None))
        settings = own(nodes.connection_kwargs, timeout)
        for name in ("redis_connect_func", "parser_class", "host", "port"):  # specific to the cluster client
            settings.pop(name, None)
        tls = bool(settings.pop("ssl", False))
        start = [(node.host, int(node.port)) for node in tuple(nodes.startup_nodes.values())]
        return cluster_of(driver.SSLConnection if tls else driver.Connection, settings, start)
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise ConfigError("client_or_url", f"must be a URL or a client of redis-py, not {type(client).__name__}")
    _warn_of_resends(pool.connection_kwargs.get("retry"))
    if not issubclass(pool.connection_class, driver.AbstractConnection):
        return one_node(_class_like(pool.connection_class), _known_to_the_driver(own(pool.connection_kwargs, timeout)))
    # Keep the client: behind Sentinel, connections ask its pool for the master, but only hold a weak reference to it.
    return one_node(pool.connection_class, own(pool.connection_kwargs, timeout), keep=client)


def _class_like(other: type) -> Callable[..., Connection]:
    """Return redis-py's counterpart of a connection class of a driver like valkey-py, whose errors differ."""
    if "Sentinel" in other.__name__:
        raise ConfigError("client_or_url", "must be a client of redis-py behind Sentinel, or a redis+sentinel:// URL")
    if "Unix" in other.__name__:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if "SSL" in other.__name__ else driver.Connection


def _known_to_the_driver(settings: Settings) -> Settings:
    kept = ("host", "port", "path", "db", "username", "password", "protocol", "client_name", "socket_", "ssl_", "retry")
    always = fixed(0).keys()
    return {name: value for name, value in settings.items() if name in always or name.startswith(kept)}


def _warn_of_resends(retry: Retry | None) -> None:
    retries = retry.get_retries() if retry is not None else 0
    if retries:
        log.warning(
            "the given Redis client repeats commands whose reply was lost, up to %d times, which is unsafe for a "
            "queue. The backend therefore uses connections of its own, without retries. To avoid this warning, pass a "
            "URL, or a client made with retry=Retry(NoBackoff(), 0)",
            retries,
        )
