"""Runs one job and says what became of it. Nothing that a handler does escapes from here."""

from __future__ import annotations

import inspect
import random
import time
from contextvars import Context
from datetime import timedelta

from scheduler.config import WorkerConfig
from scheduler.errors import Discard, JobInterrupted, JobTimeout, Retry, Snooze, UnknownJobType
from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import MAX_DELAY, MAX_RESULT
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.retry import RetryPolicy, sane_delay
from scheduler.serializers import Serializer
from scheduler.worker.context import JobContext, enter
from scheduler.worker.handlers import Handler, Handlers
from scheduler.worker.interrupt import Interruptible
from scheduler.worker.outcome import Outcome, Verdict, describe, put_back, released

UNKNOWN_TYPE_WAITING = "UnknownTypeWaiting"
_FALLBACK = RetryPolicy()


class JobRunner:
    """
    Turns a lease into an `Outcome`, on the calling thread. Has no state of its own; many threads share one.

    keep_results: whether return values are encoded for the store.
    """

    def __init__(
        self,
        handlers: Handlers,
        config: WorkerConfig,
        *,
        serializer: Serializer,
        keep_results: bool,
        metrics: Metrics,
        logger: GuardedLogger,
    ) -> None:
        self._handlers = handlers
        self._config = config
        self._serializer = serializer
        self._keep_results = keep_results
        self._metrics = metrics
        self._logger = logger

    def open(self, lease: Lease) -> JobContext:
        """The context of a run that starts now."""
        return JobContext(lease.job, self._serializer.loads)

    def run(self, lease: Lease, ctx: JobContext) -> Outcome:
        """Run the job's handler and answer what is to be recorded. Never raises."""
        job = lease.job
        handler = self._handlers.find(job.type)
        if handler is None:
            return self._unknown_type(lease)
        self._metrics.started(job)
        # An empty context of its own: what a handler sets there does not reach the next job on this thread.
        result, error = Context().run(self._call, handler, ctx)
        outcome = self._succeeded(lease, result) if error is None else self._raised(lease, handler, ctx, error)
        self._metrics.finished(job, outcome.verdict, time.monotonic() - ctx.started)
        return outcome

    def timed_out(self, lease: Lease, stack: str) -> Outcome:
        """The outcome of an attempt whose thread did not return in time; *stack* is where it stands."""
        job = lease.job
        message = f"the handler ran past its timeout of {job.timeout:g} s and did not return"
        detail = ErrorDetail(kind=JobTimeout.__name__, message=message, traceback=stack)
        return self._failed(lease, self._handlers.find(job.type), detail)

    def _call(self, handler: Handler, ctx: JobContext) -> tuple[object, BaseException | None]:
        enter(ctx.job)

        def function() -> object:
            return handler.function(ctx.job, ctx)

        try:
            if handler.interrupt:
                guard = Interruptible()
                ctx.on_cancel(guard.interrupt)
                return guard.run(function)
            return function(), None
        except BaseException as error:  # noqa: BLE001 - no exception of any class may cost the thread
            return None, error

    def _succeeded(self, lease: Lease, result: object) -> Outcome:
        if result is None:
            return Outcome(Verdict.COMPLETE, Completion(lease=lease))
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            message = f"the handler returned a {type(result).__name__}, which nobody runs"
            return self._failed(lease, None, ErrorDetail(kind="InvalidHandler", message=message))
        return Outcome(Verdict.COMPLETE, Completion(lease=lease, result=self._encoded(lease, result)))

    def _encoded(self, lease: Lease, result: object) -> bytes | None:
        if not self._keep_results:
            return None
        try:
            encoded = self._serializer.dumps(result)
        except BaseException as error:  # noqa: BLE001 - the job has succeeded, whatever its result's code raises
            self._logger.warning("The result of job %s is dropped: %s", lease.job.id, describe(error).message)
            return None
        if len(encoded) > MAX_RESULT:
            self._logger.warning("The result of job %s is dropped: it has %d bytes", lease.job.id, len(encoded))
            return None
        return encoded

    def _raised(self, lease: Lease, handler: Handler, ctx: JobContext, error: BaseException) -> Outcome:
        if isinstance(error, JobInterrupted):
            # The context knows better than an exception that was raised from outside with a fixed reason.
            reason = ctx.reason or error.reason
            if reason != "timeout":
                return released(lease)  # a lost lease is refused by the store, which is as good as dropped
            message = f"the handler was interrupted at its timeout of {lease.job.timeout:g} s"
            return self._failed(lease, handler, ErrorDetail(kind=JobTimeout.__name__, message=message))
        if isinstance(error, Snooze):
            return put_back(lease, _asked(error.delay) or 0.0)
        if isinstance(error, Discard):
            detail = ErrorDetail(kind=Discard.__name__, message=describe(error).message)
            return Outcome(Verdict.BURY, Failure(lease=lease, error=detail))
        if isinstance(error, Retry):
            detail = ErrorDetail(kind=Retry.__name__, message=describe(error).message)
            return self._failed(lease, handler, detail, delay=_asked(error.delay))
        return self._failed(lease, handler, describe(error))

    def _failed(
        self, lease: Lease, handler: Handler | None, error: ErrorDetail, *, delay: float | None = None
    ) -> Outcome:
        job = lease.job
        if job.attempts > job.max_retries:
            self._logger.error("Job %s (%s) is dead: %s", job.id, job.type, error.kind)
            return Outcome(Verdict.BURY, Failure(lease=lease, error=error))
        if delay is None:
            policy = job.retry_policy or (handler and handler.retry_policy) or self._config.retry_policy
            delay = sane_delay(policy, job.attempts, _FALLBACK)
        self._logger.warning("Job %s (%s) failed and is tried again: %s", job.id, job.type, error.kind)
        return Outcome(Verdict.RETRY, Failure(lease=lease, delay=delay, error=error))

    def _unknown_type(self, lease: Lease) -> Outcome:
        # A rolling deploy must lose nothing: another worker may know the type, or this one after its restart.
        job, last = lease.job, lease.job.last_error
        if last is None or last.kind != UNKNOWN_TYPE_WAITING:
            self._logger.warning("Job %s waits: no handler for its type %r here", job.id, job.type)
            message = f"no handler for the type {job.type!r}; the job waits for a worker that has one"
            return put_back(lease, self._unknown_type_wait(), ErrorDetail(kind=UNKNOWN_TYPE_WAITING, message=message))
        # Both moments are the store's, so that a wrong clock on this host shortens no patience.
        waited = lease.expires_at - timedelta(seconds=self._config.lease_duration) - last.at
        if waited.total_seconds() < self._config.unknown_type_patience:
            return put_back(lease, self._unknown_type_wait())
        message = f"no worker had a handler for the type {job.type!r} within {self._config.unknown_type_patience:g} s"
        self._logger.error("Job %s is dead: %s", job.id, message)
        detail = ErrorDetail(kind=UnknownJobType.__name__, message=message)
        return Outcome(Verdict.BURY, Failure(lease=lease, error=detail, counted=False))

    def _unknown_type_wait(self) -> float:
        # Jittered upwards: a worker takes such a job at most once per unknown_type_delay.
        return min(MAX_DELAY, self._config.unknown_type_delay * random.uniform(1.0, 1.2))


def _asked(delay: object) -> float | None:
    """The delay that a signal carries, None where it is none: user code may have set anything after its check."""
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not delay >= 0.0:
        return None
    return float(min(delay, MAX_DELAY))
