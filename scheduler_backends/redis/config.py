"""Configuration of a Redis backend."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, check_count, check_name, check_number
from scheduler.topology import MAX_PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisConfig:
    """Configuration of a `RedisBackend`: its keys, the partitions of new queues, and time-outs."""

    prefix: str = "scheduler"
    """Prefix of all keys. Backends with different prefixes share no data."""

    partitions: int = 8
    """Number of partitions of a queue that is created. Existing queues keep their number."""

    active_version: int = 1
    """Number of the first version of a queue that is created. Existing queues keep their versions."""

    timeout: float = 3.0
    """
    Seconds to wait for a connection, and for a reply. One call takes at most a small multiple of it.

    A time-out that is set on a given client takes precedence.
    """

    topology_interval: float = 10.0
    """Seconds after which the cached layout of a queue is read again, even if no change was detected."""

    def __post_init__(self) -> None:
        check_name("prefix", self.prefix, ConfigError)
        check_count("partitions", self.partitions, at_least=1, at_most=MAX_PARTITIONS)
        check_count("active_version", self.active_version, at_least=1, at_most=MAX_COUNT)
        check_number("timeout", self.timeout, at_least=0.01, at_most=3_600.0)
        check_number("topology_interval", self.topology_interval, at_least=0.0, at_most=86_400.0)
