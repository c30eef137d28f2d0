"""Metrics hooks of producers and workers. An exception in a hook does not affect any job."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from scheduler.critical import critical
from scheduler.jobs import Job
from scheduler.leases import Recovery
from scheduler.limits import check_kind
from scheduler.processes import PerProcess

__all__ = ["CountingMetrics", "Metrics", "NopMetrics"]


class Metrics:
    """
    Base class of metrics. Its hooks do nothing: override those that you need.

    Hooks are called from any thread, several at a time, and should return quickly. Their exceptions are logged and
    dropped. *operation* is the name of a method of `Backend`, such as "complete".
    """

    def enqueued(self, job: Job, is_new: bool) -> None:  # noqa: FBT001 - only this library calls hooks
        """Called on the producer's thread when *job* was stored, or found already stored (*is_new* False)."""

    def promoted(self, moved: int) -> None:
        """Called when *moved* jobs became due and ready."""

    def leased(self, count: int) -> None:
        """Called when the worker leased *count* jobs."""

    def started(self, job: Job) -> None:
        """Called on the handler's thread before the handler starts."""

    def finished(self, job: Job, operation: str, seconds: float) -> None:
        """
        Called on the handler's thread when the handler returned or raised after *seconds*.

        The worker will call *operation* for the job.
        """

    def settled(self, operation: str, count: int) -> None:
        """Called when the store recorded *count* outcomes."""

    def lost(self, operation: str, count: int) -> None:
        """Called when the store refused *count* leases: another worker holds the jobs, or they are finished."""

    def renewed(self, held: int) -> None:
        """Called when *held* leases were renewed."""

    def recovered(self, recovery: Recovery) -> None:
        """Called when expired leases were recovered, and their jobs became ready or dead."""

    def stuck(self, threads: int) -> None:
        """Called with the current number of stuck handler threads: their jobs timed out, and they do not return."""

    def call_failed(self, operation: str, error: BaseException) -> None:
        """Called when a worker's call to the store failed. The call will be repeated."""


class NopMetrics(Metrics):
    """Metrics that do nothing. The default."""


class CountingMetrics(Metrics):
    """Metrics that count in memory, for tests and small programs. `counts` can be read from any thread."""

    def __init__(self) -> None:
        # Guards _counts. Re-entrant, for finalisers and signal handlers that enqueue.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._counts: defaultdict[str, int] = defaultdict(int)  # counting calls no user code

    @property
    def counts(self) -> Counter[str]:
        """
        Return a copy of the counts.

        Keys are names of hooks, most with a suffix such as an operation: "settled.complete". Hooks that report a number
        of jobs or leases add that number, the others add one. "stuck" is the current number of stuck threads.
        """
        with self._locks.get(threading.RLock):
            return Counter(self._counts)

    def _add(self, name: str, count: int = 1) -> None:
        with self._locks.get(threading.RLock):
            self._counts[name] += count

    def enqueued(self, job: Job, is_new: bool) -> None:  # noqa: ARG002, FBT001 - a hook
        self._add("enqueued" if is_new else "enqueued.existing")

    def promoted(self, moved: int) -> None:
        self._add("promoted", moved)

    def leased(self, count: int) -> None:
        self._add("leased", count)

    def started(self, job: Job) -> None:  # noqa: ARG002 - a hook
        self._add("started")

    def finished(self, job: Job, operation: str, seconds: float) -> None:  # noqa: ARG002 - a hook
        self._add(f"finished.{operation}")

    def settled(self, operation: str, count: int) -> None:
        self._add(f"settled.{operation}", count)

    def lost(self, operation: str, count: int) -> None:
        self._add(f"lost.{operation}", count)

    def renewed(self, held: int) -> None:
        self._add("renewed", held)

    def recovered(self, recovery: Recovery) -> None:
        self._add("recovered.ready", recovery.ready)
        self._add("recovered.dead", recovery.dead)

    def stuck(self, threads: int) -> None:
        with self._locks.get(threading.RLock):
            self._counts["stuck"] = threads

    def call_failed(self, operation: str, error: BaseException) -> None:  # noqa: ARG002 - a hook
        self._add(f"call_failed.{operation}")


class MetricsGroup(Metrics):
    """Group of metrics that are called in order. Within `guarded`, an exception in one does not affect the others."""

    def __init__(self, *members: Metrics) -> None:
        for member in members:
            check_kind("members", member, Metrics)
        self.members = members
        for name in HOOKS:
            setattr(self, name, _each([getattr(member, name) for member in members]))


def _each(hooks: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        for hook in hooks:
            hook(*arguments)

    return call


HOOKS = tuple(name for name in vars(Metrics) if not name.startswith("_"))


def guarded(metrics: Metrics, logger: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> Metrics:
    """Return *metrics* with hooks that never raise: exceptions of any class are logged, once per hook, and dropped."""
    if type(metrics) in (Metrics, NopMetrics) and not vars(metrics):
        return metrics  # no hook does anything, so no guard slows the hot path
    if isinstance(metrics, MetricsGroup):
        return MetricsGroup(*(guarded(member, logger) for member in metrics.members))
    guard = Metrics()
    for name in HOOKS:
        setattr(guard, name, _guarded_hook(getattr(metrics, name), name, logger))
    return guard


def _guarded_hook(
    hook: Callable[..., None], name: str, logger: logging.Logger | logging.LoggerAdapter[logging.Logger]
) -> Callable[..., None]:
    logged = False

    @critical  # an interrupt of the job's handler raised here would be dropped together with the hook's errors
    def call(*arguments: object) -> None:
        nonlocal logged
        try:
            hook(*arguments)
        except BaseException as error:  # even a SystemExit of a hook must not end a job
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # it may be a real Ctrl-C
            if not logged:
                logged = True
                logger.exception("The metrics hook %s failed; further failures of it are not logged", name)

    return call
