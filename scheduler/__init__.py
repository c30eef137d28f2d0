"""
Reliable, distributed, delayed job execution.

The public names stand here. Each is imported when first used, so that `import scheduler` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing typing for it would cost more than this whole file

if TYPE_CHECKING:
    from scheduler.backend import Backend
    from scheduler.config import ProducerConfig, WorkerConfig
    from scheduler.errors import (
        BackendClosed,
        BackendError,
        BackendUnavailable,
        ConfigError,
        Discard,
        DuplicateHandler,
        DuplicateJob,
        HandlerError,
        InvalidHandler,
        InvalidJob,
        JobError,
        JobInterrupted,
        JobNotFound,
        JobTimeout,
        LeaseLost,
        NotSupported,
        Retry,
        SchedulerError,
        SchemaMismatch,
        Snooze,
        TopologyError,
        UnknownJobType,
        WorkerCrashed,
    )
    from scheduler.jobs import ErrorRecord, Job, NewJob, Priority
    from scheduler.leases import Enqueued
    from scheduler.metrics import CountingMetrics, Metrics, NopMetrics
    from scheduler.plugins import backend_from_url
    from scheduler.producer import Producer
    from scheduler.queues import QueueStats, Retention
    from scheduler.retry import RetryPolicy
    from scheduler.serializers import JsonSerializer, Serializer
    from scheduler.states import JobState

    __version__: str

__all__ = [
    "Backend",
    "BackendClosed",
    "BackendError",
    "BackendUnavailable",
    "ConfigError",
    "CountingMetrics",
    "Discard",
    "DuplicateHandler",
    "DuplicateJob",
    "Enqueued",
    "ErrorRecord",
    "HandlerError",
    "InvalidHandler",
    "InvalidJob",
    "Job",
    "JobError",
    "JobInterrupted",
    "JobNotFound",
    "JobState",
    "JobTimeout",
    "JsonSerializer",
    "LeaseLost",
    "Metrics",
    "NewJob",
    "NopMetrics",
    "NotSupported",
    "Priority",
    "Producer",
    "ProducerConfig",
    "QueueStats",
    "Retention",
    "Retry",
    "RetryPolicy",
    "SchedulerError",
    "SchemaMismatch",
    "Serializer",
    "Snooze",
    "TopologyError",
    "UnknownJobType",
    "WorkerConfig",
    "WorkerCrashed",
    "__version__",
    "backend_from_url",
]

# Where the names are looked for: lower floors first, since the higher ones import those anyway; plugins last, since it
# imports importlib.metadata.
_ROOMS = (
    "errors",
    "states",
    "retry",
    "jobs",
    "queues",
    "leases",
    "backend",
    "metrics",
    "config",
    "serializers",
    "producer",
    "plugins",
)


def _find(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - only when a name is asked for

    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - costs 25 ms

        try:
            return version("reliable-scheduler")
        except PackageNotFoundError:  # run from a checkout that is not installed
            return "0+unknown"
    for room in _ROOMS if name in __all__ else ():
        found = vars(import_module(f"scheduler.{room}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module 'scheduler' has no attribute {name!r}", name=name)


if not TYPE_CHECKING:  # a checker that saw it would let misspelt names pass

    def __getattr__(name: str) -> object:
        return globals().setdefault(name, _find(name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
