"""What a producer and a worker can be told; both refuse nonsense when built and name the field."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from scheduler.arguments import check_queues
from scheduler.errors import ConfigError
from scheduler.jobs import DEFAULT_MAX_RETRIES, DEFAULT_QUEUE, DEFAULT_TIMEOUT
from scheduler.limits import MAX_BATCH, MAX_DELAY, check_count, check_name, check_number
from scheduler.retry import Delays, RetryPolicy, check_policy

_SHORTEST = 0.001  # seconds: an interval of zero would spin
_DAY = 86_400.0
_GLOB = frozenset("*?[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """
    Defaults of the jobs that a producer makes.

    default_timeout: seconds. retry_policy: None = the handler's, else the worker's. max_payload: bytes, encoded.
    """

    default_queue: str = DEFAULT_QUEUE
    default_max_retries: int = DEFAULT_MAX_RETRIES
    default_timeout: float = DEFAULT_TIMEOUT
    retry_policy: RetryPolicy | None = None
    max_payload: int = 256 * 1024

    def __post_init__(self) -> None:
        check_name("default_queue", self.default_queue, ConfigError)
        check_count("default_max_retries", self.default_max_retries)
        check_number("default_timeout", self.default_timeout, at_least=_SHORTEST)
        if self.retry_policy is not None:
            check_policy(self.retry_policy, ConfigError)
        check_count("max_payload", self.max_payload, at_most=512 * 1024 * 1024)


def _own_name() -> str:
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{os.urandom(4).hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """
    How a worker behaves. Durations are seconds.

    worker_id: identity in logs and on leases; ownership never rests on it. queues: consumed in turn, fairly.
    concurrency: handler threads. batch_size: at most this many jobs in one call. queue_buffer: jobs leased ahead, as a
    multiple of concurrency; 0 = never hoard. max_in_flight: everything held, unsent outcomes included; None =
    concurrency × (1 + queue_buffer). poll_interval: fallback poll, ±20 %. recover_interval: longest sleep between
    recoveries. shutdown_grace: bound of a stop. timeout_grace: between the cancel at a job's deadline and giving up on
    its thread. max_stuck: run() ends with `WorkerCrashed` when this many threads are stuck; None = never.
    unknown_type_delay, unknown_type_timeout: how long a job of a type without handler waits each time, and in all.
    retry_policy: used where neither the job nor its handler brings one. log_errors: what the log says of an error in a
    handler: "message" = its class, message and, at a job's death, traceback; "kind" = its class alone.
    """

    worker_id: str = field(default_factory=_own_name)
    queues: Sequence[str] = (DEFAULT_QUEUE,)
    concurrency: int = 10
    batch_size: int = 64
    queue_buffer: int = 1
    max_in_flight: int | None = None
    poll_interval: float = 1.0
    lease_duration: float = 30.0
    heartbeat_interval: float = 10.0
    recover_interval: float = 10.0
    shutdown_grace: float = 25.0
    timeout_grace: float = 1.0
    max_stuck: int | Literal["concurrency"] | None = "concurrency"
    unknown_type_delay: float = 30.0
    unknown_type_timeout: float = _DAY
    retry_policy: Delays = field(default_factory=RetryPolicy)
    log_errors: Literal["message", "kind"] = "message"

    def __post_init__(self) -> None:
        check_name("worker_id", self.worker_id, ConfigError)
        object.__setattr__(self, "queues", check_queues(self.queues))
        for queue in self.queues:
            if not _GLOB.isdisjoint(queue):
                raise ConfigError("queues", f"are served by their exact names: name each of them, not {queue!r}")
        check_count("concurrency", self.concurrency, at_least=1, at_most=10_000)
        check_count("batch_size", self.batch_size, at_least=1, at_most=MAX_BATCH)
        check_count("queue_buffer", self.queue_buffer, at_most=1_000)
        if self.max_in_flight is not None:
            check_count("max_in_flight", self.max_in_flight, at_least=1)
            if self.max_in_flight < self.concurrency:
                raise ConfigError("max_in_flight", f"must be at least concurrency ({self.concurrency})")
        for name, longest in {
            "poll_interval": _DAY,
            "lease_duration": 366 * _DAY,
            "heartbeat_interval": _DAY,
            "recover_interval": _DAY,
            "unknown_type_delay": MAX_DELAY,
        }.items():
            check_number(name, getattr(self, name), at_least=_SHORTEST, at_most=longest)
        for name in ("shutdown_grace", "timeout_grace", "unknown_type_timeout"):
            check_number(name, getattr(self, name))
        if self.heartbeat_interval * 2 > self.lease_duration:
            raise ConfigError("heartbeat_interval", "two heartbeats must fit in lease_duration")
        if self.max_stuck is not None and self.max_stuck != "concurrency":
            check_count("max_stuck", self.max_stuck, at_least=1)
        if not callable(getattr(self.retry_policy, "delay", None)):
            raise ConfigError("retry_policy", "must have a method delay(attempt) that answers seconds")
        if self.log_errors not in ("message", "kind"):
            raise ConfigError("log_errors", "must be 'message' or 'kind'")

    @property
    def held_limit(self) -> int:
        """How many jobs the worker may hold at once."""
        return self.max_in_flight or self.concurrency * (1 + self.queue_buffer)

    @property
    def stuck_limit(self) -> int | None:
        """At how many stuck threads the worker ends; None = never."""
        return self.concurrency if self.max_stuck == "concurrency" else self.max_stuck
