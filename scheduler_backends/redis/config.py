"""How a Redis backend is set up."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, check_count, check_name, check_number
from scheduler.topology import MAX_PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisConfig:
    """Where the keys are, and how long calls wait."""

    prefix: str = "scheduler"
    """All keys begin with it. Two prefixes share nothing."""

    partitions: int = 8
    """Partitions of the first version of a queue that is new to the store. Existing queues keep what they have."""

    active_version: int = 1
    """The number of the first version of a queue that is new to the store."""

    timeout: float = 3.0
    """
    Seconds for one connection attempt and for one answer. A call takes a small multiple of it at most.

    Connections made from a given client use it where that client sets none.
    """

    topology_interval: float = 10.0
    """Seconds after which a producer reads a queue's layout again although nothing has changed, as far as it knows."""

    def __post_init__(self) -> None:
        check_name("prefix", self.prefix, ConfigError)
        check_count("partitions", self.partitions, at_least=1, at_most=MAX_PARTITIONS)
        check_count("active_version", self.active_version, at_least=1, at_most=MAX_COUNT)
        check_number("timeout", self.timeout, at_least=0.01, at_most=3_600.0)
        check_number("topology_interval", self.topology_interval, at_least=0.0, at_most=86_400.0)
