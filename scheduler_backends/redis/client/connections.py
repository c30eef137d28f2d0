"""Connections of our own: bounded waits, bytes in and out, and nothing sent a second time by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduler_backends.redis.client.cluster import Address, Cluster
from scheduler_backends.redis.client.node import Connection, Node

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
