"""The settings of our connections, and routers that connect as a client of the user's would."""

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

# The driver's own keyword arguments for a connection: it types them as loosely.
Settings = dict[str, Any]


def fixed(timeout: float) -> Settings:
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


def own(given: Mapping[str, Any], timeout: float) -> Settings:
    """A client's settings for connections of our own; its time-outs are kept where it has some."""
    settings = {
        name: value
        for name, value in given.items()
        # What ties a connection to its client: caches, notices of maintenance, registries.
        if not name.startswith(("maint", "oss_", "orig_", "cache", "himport", "event_dispatcher", "retry_on_timeout"))
    }
    always = fixed(timeout)
    for name in ("socket_timeout", "socket_connect_timeout"):
        if given.get(name) is not None:
            del always[name]
    return settings | always


def one_node(connection_class: Callable[..., Connection], settings: Settings, *, keep: object = None) -> Node:
    """A router with one server; *keep* lives as long as it does."""

    def make(**changes: object) -> Connection:
        _ = keep  # alive as long as this function is
        return connection_class(**(settings | changes))

    return Node(make)


def cluster_of(connection_class: Callable[..., Connection], settings: Settings, start: list[Address]) -> Cluster:
    """A router over a cluster that is found from the nodes in *start*."""

    def make(address: Address, **changes: object) -> Connection:
        return connection_class(host=address[0], port=address[1], **(settings | changes))

    return Cluster(make, start)


def router_for_client(client: object, timeout: float) -> Router:
    """A router that connects as the client of redis-py (or one made like it) does, by connections of its own."""
    if inspect.iscoroutinefunction(getattr(client, "execute_command", None)):
        raise ConfigError("client_or_url", "must be a synchronous client, not one of redis.asyncio")
    nodes = getattr(client, "nodes_manager", None)
    if nodes is not None:
        _warn_of_resends(getattr(client, "retry", None))
        settings = own(nodes.connection_kwargs, timeout)
        for name in ("redis_connect_func", "parser_class", "host", "port"):  # for the cluster client itself
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
    # The pool itself stays in use behind Sentinel: its connections ask it for the master, and hold it weakly.
    return one_node(pool.connection_class, own(pool.connection_kwargs, timeout), keep=client)


def _class_like(other: type) -> Callable[..., Connection]:
    """The driver's class in place of that of a similar client, such as valkey-py's, which has errors of its own."""
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
            "the Redis client given to the backend sends a command whose answer was lost again, up to %d times; a "
            "queue must not. The backend therefore uses connections of its own, which send nothing twice; give it a "
            "URL, or a client made with retry=Retry(NoBackoff(), 0), for this warning to go away",
            retries,
        )
