"""How a Redis backend is set up."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, check_count, check_name, check_number
from scheduler.topology import MAX_PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisConfig:
    """
    Where the keys stand and how long to wait.

    prefix: all keys begin with it; two prefixes share nothing. partitions and active_version: what a queue that the
    store has never seen begins with; a queue that is there already keeps what it has.

    timeout: seconds for one connection attempt and for one answer; connections of an injected client use it as well,
    where that client sets none. A call takes a small multiple of it at the most. topology_interval: seconds after which
    a producer reads again how a queue is laid out, though nothing has told it to (workers look at each poll).
    """

    prefix: str = "scheduler"
    partitions: int = 8
    active_version: int = 1
    timeout: float = 3.0
    topology_interval: float = 10.0

    def __post_init__(self) -> None:
        check_name("prefix", self.prefix, ConfigError)
        check_count("partitions", self.partitions, at_least=1, at_most=MAX_PARTITIONS)
        check_count("active_version", self.active_version, at_least=1, at_most=MAX_COUNT)
        check_number("timeout", self.timeout, at_least=0.01, at_most=3_600.0)
        check_number("topology_interval", self.topology_interval, at_least=0.0, at_most=86_400.0)
