"""The class `RedisBackend`: its configuration and construction. The hooks are in the other modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.limits import check_clock, check_kind
from scheduler.queues import Retention
from scheduler.urls import RETENTION_OPTIONS, Option, Parser, retention_from, split_options, without_password
from scheduler_backends.redis.admin import AdminHooks
from scheduler_backends.redis.client.connections import router_for_client
from scheduler_backends.redis.client.urls import CONNECTION_OPTIONS, router_for_url
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.enqueue import EnqueueHooks
from scheduler_backends.redis.lease import LeaseHooks
from scheduler_backends.redis.maintenance import MaintenanceHooks
from scheduler_backends.redis.reads import ReadHooks
from scheduler_backends.redis.settle import SettleHooks
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.waiter import WaiterHooks

_CONFIG_OPTIONS: Mapping[str, Parser] = {
    "prefix": str,
    "partitions": int,
    "active_version": int,
    "timeout": float,
    "topology_interval": float,
}
_OPTIONS = {**CONNECTION_OPTIONS, **_CONFIG_OPTIONS, **RETENTION_OPTIONS}


class RedisBackend(
    EnqueueHooks, LeaseHooks, SettleHooks, MaintenanceHooks, AdminHooks, ReadHooks, WaiterHooks, Backend
):
    """
    Backend that stores jobs in Redis or Valkey: standalone, behind Sentinel, or in a Cluster.

    It connects on first use, and again in a forked child. Every call is bounded by a small multiple of
    `RedisConfig.timeout`. A backend may be used by any thread.

    Args:
        client_or_url: A URL (redis, rediss, unix, valkey, valkeys, redis+sentinel, redis+cluster), whose options take
            precedence over *config* and *retention*. Or a redis-py client: the backend copies its settings and opens
            connections of its own.
        config: None = `RedisConfig()`.
        retention: How long finished jobs are kept. None = `Retention()`.
        clock: The source of the time, for tests. None = the server's clock.

    Raises:
        ConfigError: An argument or an option of the URL is wrong. The error names it.
    """

    def __init__(
        self,
        client_or_url: object,
        config: RedisConfig | None = None,
        *,
        retention: Retention | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = RedisConfig() if config is None else check_kind("config", config, RedisConfig)
        self.retention = Retention() if retention is None else check_kind("retention", retention, Retention)
        self._shown = type(client_or_url).__name__
        options: dict[str, Option] = {}
        if isinstance(client_or_url, str):
            self._shown = without_password(client_or_url)
            url, options = split_options(client_or_url, _OPTIONS)
            given = {name: options[name] for name in _CONFIG_OPTIONS if name in options}
            self.config = replace(self.config, **given)  # type: ignore[arg-type]  # RedisConfig checks the values
            if any(name in options for name in RETENTION_OPTIONS):
                self.retention = retention_from(options)
            router = router_for_url(url, options, self.config.timeout)
        else:
            router = router_for_client(client_or_url, self.config.timeout)
        self._store = Store(router, self.config, self.retention, check_clock(clock))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a backend for *url*. It connects on first use."""
        return cls(url)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown} prefix={self.config.prefix!r}>"

    @property
    def clock(self) -> Clock | None:
        """The clock that tests have set. None = the server's clock."""
        return self._store.calls.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.calls.clock = check_clock(clock)

    def close(self) -> None:
        """Close every connection and end every wait. Calling it again has no effect."""
        self._store.calls.close()
        self._store.waiters.close()
