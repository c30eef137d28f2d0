"""Hooks by which a program watches its producers and workers. Whatever a hook does, it changes nothing for a job."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from scheduler.critical import critical
from scheduler.jobs import Job
from scheduler.leases import Recovery
from scheduler.processes import PerProcess


class Metrics:
    """
    Named hooks that do nothing: override those that you need.

    Hooks are called from any thread, several at a time, and should return soon. What they raise is logged and dropped.
    *operation* is the name of a contract method, such as "complete".
    """

    def enqueued(self, job: Job, is_new: bool) -> None:  # noqa: FBT001 - a hook is called by this library alone
        """A producer stored *job*, or found it there already. On the producer's thread."""

    def promoted(self, moved: int) -> None:
        """That many jobs became due and ready."""

    def leased(self, count: int) -> None:
        """The worker took that many jobs."""

    def started(self, job: Job) -> None:
        """A handler starts. On its thread."""

    def finished(self, job: Job, operation: str, seconds: float) -> None:
        """A handler returned or raised, after so long, and the worker will settle the job so. On its thread."""

    def settled(self, operation: str, count: int) -> None:
        """The store recorded that many outcomes."""

    def lost(self, operation: str, count: int) -> None:
        """The store refused so many leases: another worker holds the jobs, or they are finished."""

    def renewed(self, held: int) -> None:
        """So many leases were renewed."""

    def recovered(self, recovery: Recovery) -> None:
        """Leases of vanished workers ran out and their jobs moved on."""

    def stuck(self, threads: int) -> None:
        """So many handler threads are stuck now: their jobs timed out and they do not return."""

    def call_failed(self, operation: str, error: BaseException) -> None:
        """The store did not answer a worker's call; it will be made again."""


class NopMetrics(Metrics):
    """The default: counts nothing."""


class CountingMetrics(Metrics):
    """Counts in memory, for tests and small programs. `counts` is a copy and may be read from any thread."""

    def __init__(self) -> None:
        # Guard _counts; re-entrant for finalisers and signal handlers that enqueue.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._counts: defaultdict[str, int] = defaultdict(int)  # no code of Python's runs inside a count

    @property
    def counts(self) -> Counter[str]:
        """Hook (and operation) → how often; "stuck" is the present number."""
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
    """Several metrics told of the same things, in order. Behind a guard, one that fails silences no other."""

    def __init__(self, *members: Metrics) -> None:
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
    """*metrics* behind a guard: a hook that raises, whatever the class, is logged (once a hook) and dropped."""
    if type(metrics) in (Metrics, NopMetrics) and not vars(metrics):
        return metrics  # nothing to guard, and the hot path stays short
    if isinstance(metrics, MetricsGroup):
        return MetricsGroup(*(guarded(member, logger) for member in metrics.members))
    guard = Metrics()
    for name in HOOKS:
        setattr(guard, name, _guarded_hook(getattr(metrics, name), name, logger))
    return guard


def _guarded_hook(
    hook: Callable[..., None], name: str, logger: logging.Logger | logging.LoggerAdapter[logging.Logger]
) -> Callable[..., None]:
    told = False

    @critical  # else an interrupt of the handler that led here would be dropped with the hook's own errors
    def call(*arguments: object) -> None:
        nonlocal told
        try:
            hook(*arguments)
        except BaseException as error:  # an observer's SystemExit must not end a job either
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # it may be a real Ctrl-C that arrived just now
            if not told:
                told = True
                logger.exception("The metrics hook %s failed; further failures of it are not logged", name)

    return call
