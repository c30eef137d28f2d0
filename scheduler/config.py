"""Configuration of producers and workers. Invalid values raise `ConfigError`, which names the field."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from scheduler.errors import ConfigError
from scheduler.jobs import DEFAULT_MAX_RETRIES, DEFAULT_QUEUE, DEFAULT_TIMEOUT
from scheduler.limits import MAX_BATCH, MAX_DELAY, check_count, check_name, check_number, check_queues
from scheduler.retry import Delays, RetryPolicy, check_delays, check_policy

__all__ = ["ProducerConfig", "WorkerConfig"]

_SHORTEST = 0.001  # seconds: an interval of zero would be a busy loop
_DAY = 86_400.0
_GLOB = frozenset("*?[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Defaults for the jobs that a producer makes."""

    default_queue: str = DEFAULT_QUEUE
    """Queue of jobs that are enqueued without one."""

    default_max_retries: int = DEFAULT_MAX_RETRIES
    """Retries after the first attempt; 0 = a single attempt."""

    default_timeout: float = DEFAULT_TIMEOUT
    """Seconds that one attempt may take."""

    retry_policy: RetryPolicy | None = None
    """Stored with each job. None = the handler's policy applies, or else the worker's."""

    max_payload: int = 256 * 1024
    """Largest payload in bytes, encoded."""

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
    """Configuration of a worker. All durations are in seconds."""

    worker_id: str = field(default_factory=_own_name)
    """Name of the worker in logs and on leases. It grants no rights: a lease is proved by its token."""

    queues: Sequence[str] = (DEFAULT_QUEUE,)
    """The queues to serve, in turn."""

    concurrency: int = 10
    """Number of handler threads."""

    batch_size: int = 64
    """Most jobs in one call to the store."""

    queue_buffer: int = 1
    """Jobs to lease ahead, as a multiple of concurrency; 0 = lease only as many as threads are free."""

    max_in_flight: int | None = None
    """Most jobs held at once, including those whose outcome is not recorded yet. None = concurrency ×
    (1 + queue_buffer)."""

    poll_interval: float = 1.0
    """Time between polls while the worker is idle, ±20 %. Stores with wake-ups notify it in between."""

    lease_duration: float = 30.0
    """How long a lease lasts unless it is renewed. The jobs of a killed worker run again after this time."""

    heartbeat_interval: float = 10.0
    """Time between renewals of all leases; at most half of lease_duration."""

    recover_interval: float = 10.0
    """Longest time between two recoveries of expired leases."""

    shutdown_grace: float = 25.0
    """Longest time that a shutdown takes. Handlers that still run after it are abandoned."""

    timeout_grace: float = 1.0
    """Time that a handler has to return after its job's deadline. After it, the thread counts as stuck."""

    max_stuck: int | Literal["concurrency"] | None = "concurrency"
    """Number of stuck threads at which `run()` raises `WorkerCrashed`. "concurrency" = that many; None = never."""

    unknown_type_delay: float = 30.0
    """How long a job waits until it is offered again, if this worker has no handler for its type."""

    unknown_type_timeout: float = _DAY
    """How long such a job waits in total until it is dead."""

    retry_policy: Delays = field(default_factory=RetryPolicy)
    """For jobs without a policy, unless their handler has one."""

    log_errors: Literal["message", "kind"] = "message"
    """What to log of a handler's error: "message" = class and message, and the traceback once the job is dead; "kind" =
    the class only."""

    def __post_init__(self) -> None:
        check_name("worker_id", self.worker_id, ConfigError)
        object.__setattr__(self, "queues", check_queues(self.queues))
        for queue in self.queues:
            if not _GLOB.isdisjoint(queue):
                raise ConfigError("queues", f"must be exact names, not a pattern such as {queue!r}")
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
        check_delays(self.retry_policy)
        if self.log_errors not in ("message", "kind"):
            raise ConfigError("log_errors", "must be 'message' or 'kind'")

    @property
    def held_limit(self) -> int:
        """Most jobs that the worker holds at once."""
        return self.max_in_flight or self.concurrency * (1 + self.queue_buffer)

    @property
    def stuck_limit(self) -> int | None:
        """Number of stuck threads at which the worker ends. None = never."""
        return self.concurrency if self.max_stuck == "concurrency" else self.max_stuck
