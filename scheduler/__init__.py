"""
Reliable, distributed, delayed job execution.

The public names stand here. Each is imported when first used, so that `import scheduler` costs next to nothing and a
program that only enqueues never loads the worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    from scheduler.worker import Health, JobContext, Report, Worker, current_job

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
    "Health",
    "InvalidHandler",
    "InvalidJob",
    "Job",
    "JobContext",
    "JobError",
    "JobInterrupted",
    "JobNotFound",
    "JobState",
    "JobTimeout",
    "JsonSerializer",
    "Metrics",
    "NewJob",
    "NopMetrics",
    "NotSupported",
    "Priority",
    "Producer",
    "ProducerConfig",
    "QueueStats",
    "Report",
    "Retention",
    "Retry",
    "RetryPolicy",
    "SchedulerError",
    "SchemaMismatch",
    "Serializer",
    "Snooze",
    "TopologyError",
    "UnknownJobType",
    "Worker",
    "WorkerConfig",
    "WorkerCrashed",
    "__version__",
    "backend_from_url",
    "current_job",
]

_MODULES: Final = {
    "backend": ("Backend",),
    "config": (
        "ProducerConfig",
        "WorkerConfig",
    ),
    "errors": (
        "BackendClosed",
        "BackendError",
        "BackendUnavailable",
        "ConfigError",
        "Discard",
        "DuplicateHandler",
        "DuplicateJob",
        "HandlerError",
        "InvalidHandler",
        "InvalidJob",
        "JobError",
        "JobInterrupted",
        "JobNotFound",
        "JobTimeout",
        "NotSupported",
        "Retry",
        "SchedulerError",
        "SchemaMismatch",
        "Snooze",
        "TopologyError",
        "UnknownJobType",
        "WorkerCrashed",
    ),
    "jobs": (
        "ErrorRecord",
        "Job",
        "NewJob",
        "Priority",
    ),
    "leases": ("Enqueued",),
    "metrics": (
        "CountingMetrics",
        "Metrics",
        "NopMetrics",
    ),
    "plugins": ("backend_from_url",),
    "producer": ("Producer",),
    "queues": (
        "QueueStats",
        "Retention",
    ),
    "retry": ("RetryPolicy",),
    "serializers": (
        "JsonSerializer",
        "Serializer",
    ),
    "states": ("JobState",),
    "worker": (
        "Health",
        "JobContext",
        "Report",
        "Worker",
        "current_job",
    ),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - takes longer than all the rest

    try:
        return version("reliable-scheduler")
    except PackageNotFoundError:  # a checkout that is only on the path
        return "0+unknown"


if not TYPE_CHECKING:  # a checker that saw it would let misspelt names pass

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return _version()
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
