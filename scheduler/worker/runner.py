"""The runner, which runs the handler of a job and returns the outcome. No exception of a handler escapes."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from datetime import timedelta
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, NoReturn, cast

from scheduler.errors import (
    Discard,
    InterruptReason,
    InvalidHandler,
    JobInterrupted,
    JobTimeout,
    Retry,
    Snooze,
    UnknownJobType,
)
from scheduler.jobs import ErrorDetail, Job
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import MAX_DELAY, MAX_RESULT
from scheduler.retry import Delays, RetryPolicy, sane_delay
from scheduler.serializers import Serializer
from scheduler.worker.context import JobContext, enter
from scheduler.worker.handlers import Handler, Handlers
from scheduler.worker.inflight import InFlight
from scheduler.worker.interrupt import Interruptible
from scheduler.worker.log_lines import JobLog, fields, named
from scheduler.worker.outcome import Outcome, Verdict, describe, describe_signal, put_back, released
from scheduler.worker.threads import Run

UNKNOWN_TYPE_WAITING = "UnknownTypeWaiting"
"""Kind of the error that marks the first lease of a job without a handler. `unknown_type_timeout` counts from it."""

_FALLBACK = RetryPolicy()
_NOT_RUN = (Awaitable, GeneratorType, AsyncGeneratorType)


class JobRunner:
    """Runner of handlers, on the calling thread. All handler threads of a process share one runner."""

    def __init__(self, run: Run, handlers: Handlers, serializer: Serializer) -> None:
        self._config = run.config
        self._metrics = run.metrics
        self._logger = run.logger
        self._log = JobLog(run.logger, run.config.log_errors)
        self._keep_results = run.backend.retention.succeeded > 0.0
        self._handlers = handlers
        self._serializer = serializer
        self._process = os.getpid()
        self.open = partial(JobContext, loads=serializer.loads)
        """Return the context of a run of the given job that starts now."""

    def shift(self, inflight: InFlight, wake: Callable[[], None]) -> None:
        """Run jobs of *inflight* until none is buffered. Call *wake* after each, to wake the pump."""
        held = inflight.begin()
        while held is not None and held.context is not None:
            held = inflight.finish(held, self.run(held.lease, held.context))
            wake()

    def run(self, lease: Lease, ctx: JobContext) -> Outcome:
        """Run the job's handler and return the outcome to record. Never raises."""
        job = lease.job
        handler = self._handlers.find(job.type)
        if handler is None:
            return self._unknown_type(lease)
        self._metrics.started(job)
        # An empty context for each job, so that a handler's context variables do not reach the next job on this thread.
        result, error = Context().run(self._call, handler, ctx)
        if os.getpid() != self._process:
            _end_child(error)
        try:
            outcome = self._succeeded(lease, result) if error is None else self._raised(lease, ctx, error)
        except BaseException as fault:  # noqa: BLE001 - reading a property of the result or the error may raise anything
            error = fault if error is None else error
            outcome = self._failed(lease, describe(error), error)
        finally:
            # Its traceback leads back to this frame: the cycle would keep alive what the handler held.
            error = None
        self._metrics.finished(job, outcome.verdict, time.monotonic() - ctx.started)
        return outcome

    def timed_out(self, lease: Lease, stack: str) -> Outcome:
        """Return the outcome of an attempt whose handler did not return in time. *stack*: where its thread is."""
        job = lease.job
        message = f"the handler ran past its timeout of {job.timeout:g} s and did not return"
        detail = ErrorDetail(kind=JobTimeout.__name__, message=message, traceback=stack)
        return self._failed(lease, detail, None)

    def _unknown_type(self, lease: Lease) -> Outcome:
        """
        Put back a job whose type has no handler, without using up an attempt: a rolling deployment must lose no job.

        Another worker may have the handler, or this one after its restart. The job becomes dead `unknown_type_timeout`
        after a worker without the handler first leased it, with an error that names the type. A requeue restarts that
        time.
        """
        job, last = lease.job, lease.job.last_error
        # Jittered upwards: a worker takes such a job at most once per unknown_type_delay.
        wait = min(MAX_DELAY, self._config.unknown_type_delay * random.uniform(1.0, 1.2))
        if last is None or last.kind != UNKNOWN_TYPE_WAITING:
            self._logger.warning("Job %s is put back: no handler for its type here", named(job), extra=fields(job))
            message = f"no handler for the type {job.type!r}; the job waits for a worker that has one"
            return put_back(lease, wait, ErrorDetail(kind=UNKNOWN_TYPE_WAITING, message=message))
        # Both times are from the store's clock, so that a wrong clock on this host does not shorten the wait.
        waited = lease.expires_at - timedelta(seconds=self._config.lease_duration) - last.at
        if waited.total_seconds() < self._config.unknown_type_timeout:
            return put_back(lease, wait)
        message = f"no worker had a handler for the type {job.type!r} within {self._config.unknown_type_timeout:g} s"
        self._logger.error("Job %s is dead: %s", named(job), message, extra=fields(job))
        detail = ErrorDetail(kind=UnknownJobType.__name__, message=message)
        return Outcome(Verdict.BURY, Failure(lease=lease, error=detail, counted=False))

    def _call(self, handler: Handler, ctx: JobContext) -> tuple[object, BaseException | None]:
        job = ctx.job
        enter(job)
        try:
            if handler.interrupt:
                guard = Interruptible()
                ctx.on_cancel(guard.interrupt)
                return guard.run(lambda: handler.function(job, ctx))
            return handler.function(job, ctx), None
        except BaseException as error:  # noqa: BLE001 - no exception may end the thread
            return None, error

    def _succeeded(self, lease: Lease, result: object) -> Outcome:
        if result is None:
            return Outcome(Verdict.COMPLETE, Completion(lease=lease))
        kind = type(result)  # not isinstance, which runs code of the result's own class
        if issubclass(kind, _NOT_RUN):
            if kind is CoroutineType:  # else Python warns that it was never awaited
                cast("CoroutineType[Any, Any, Any]", result).close()
            message = f"the handler returned a {kind.__name__}, which is never run"
            return self._failed(lease, ErrorDetail(kind=InvalidHandler.__name__, message=message), None)
        return Outcome(Verdict.COMPLETE, Completion(lease=lease, result=self._encoded(lease, result)))

    def _encoded(self, lease: Lease, result: object) -> bytes | None:
        if not self._keep_results:
            return None
        try:
            encoded = self._serializer.dumps(result)
            if type(encoded) is not bytes:
                raise TypeError(f"the serializer returned {type(encoded).__name__}, not bytes")  # noqa: TRY301 - like its own errors
        except BaseException as error:  # noqa: BLE001 - the job has succeeded, even if encoding its result raises
            self._log.result_dropped(lease.job, describe(error))
            return None
        if len(encoded) > MAX_RESULT:
            message = f"it has {len(encoded)} bytes, the limit is {MAX_RESULT}"
            self._log.result_dropped(lease.job, ErrorDetail(kind="TooLarge", message=message))
            return None
        return encoded

    def _raised(self, lease: Lease, ctx: JobContext, error: BaseException) -> Outcome:
        kind = type(error)  # as above
        # If the handler was not cancelled, a JobInterrupted that it raises is an exception like any other.
        if issubclass(kind, JobInterrupted) and ctx.reason is not None:
            return self._interrupted(lease, ctx.reason, error)
        if issubclass(kind, Snooze) and (delay := _delay_of(error)) is not None:
            return put_back(lease, delay)
        if issubclass(kind, Discard):
            detail = describe_signal(error)
            self._log.dead(lease.job, detail, error)
            return Outcome(Verdict.BURY, Failure(lease=lease, error=detail))
        if issubclass(kind, Retry):
            return self._failed(lease, describe_signal(error), error, _delay_of(error))
        # Also a Snooze without a valid delay: put back at once, it would run in an endless loop.
        return self._failed(lease, describe(error), error)

    def _interrupted(self, lease: Lease, reason: InterruptReason, error: BaseException) -> Outcome:
        if reason != "timeout":
            return released(lease)  # dropped if the lease is lost, since the job is not held any more
        message = f"the handler was interrupted at its timeout of {lease.job.timeout:g} s"
        detail = ErrorDetail(kind=JobTimeout.__name__, message=message, traceback=describe(error).traceback)
        return self._failed(lease, detail, error)

    def _failed(
        self, lease: Lease, error: ErrorDetail, raised: BaseException | None, delay: float | None = None
    ) -> Outcome:
        job = lease.job
        if job.attempts > job.max_retries:
            self._log.dead(job, error, raised)
            return Outcome(Verdict.BURY, Failure(lease=lease, error=error))
        if delay is None:
            delay = sane_delay(self._policy(job), job.attempts, _FALLBACK)
        self._log.failed(job, error, delay, raised)
        return Outcome(Verdict.RETRY, Failure(lease=lease, delay=delay, error=error))

    def _policy(self, job: Job) -> Delays:
        handler = self._handlers.find(job.type)
        of_handler = None if handler is None else handler.retry_policy
        policies = job.retry_policy, of_handler, self._config.retry_policy
        return next(policy for policy in policies if policy is not None)


def _delay_of(signal: BaseException) -> float | None:
    """Return the delay of a `Snooze` or `Retry`. None if it is not a number: a subclass may have set anything."""
    delay = getattr(signal, "delay", None)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or delay != delay:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return float(min(max(delay, 0), MAX_DELAY))


def _end_child(error: BaseException | None) -> NoReturn:
    """
    End a forked child process that returns from its handler, or leaves it by raising *error*.

    The process ends as a Python program does whose code returned or raised. In the child the handler's thread is the
    only one, and it has a copy of the worker's jobs: if it continued, it would run the buffered jobs a second time and
    record the outcomes that the parent records.
    """
    status = 1
    try:
        if error is None:
            status = 0
        elif issubclass(type(error), SystemExit):  # not isinstance, which runs code of the error's own class
            code = getattr(error, "code", None)
            status = code if isinstance(code, int) else int(code is not None)
        else:
            # Not through a stream or a logger: another thread may have held its lock at the fork.
            os.write(2, describe(error).traceback.encode(errors="replace"))
        sys.stdout.flush()
    finally:  # even if code of the error raises: this process must not continue
        os._exit(status & 0xFF)
