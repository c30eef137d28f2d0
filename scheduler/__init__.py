"""
Reliable, distributed, delayed job execution.

The public names are listed here. Each is imported when it is first used, so that `import scheduler` costs next to
nothing, and a program that only enqueues never loads the worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # with stars, so that `__all__` is the only list of names
    from scheduler.backend import *
    from scheduler.config import *
    from scheduler.errors import *
    from scheduler.jobs import *
    from scheduler.leases import *
    from scheduler.metrics import *
    from scheduler.plugins import *
    from scheduler.producer import *
    from scheduler.queues import *
    from scheduler.retry import *
    from scheduler.serializers import *
    from scheduler.states import *
    from scheduler.worker import *

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

# Where the names are defined. A name is searched in this order, so that a lower module loads no higher one.
_MODULES: Final = (
    "errors",
    "states",
    "retry",
    "jobs",
    "queues",
    "leases",
    "metrics",
    "serializers",
    "config",
    "backend",
    "producer",
    "plugins",
    "worker",
)


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
        if name in __all__:
            for module in _MODULES:
                if hasattr(found := import_module(f"{__name__}.{module}"), name):
                    value = globals()[name] = getattr(found, name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
