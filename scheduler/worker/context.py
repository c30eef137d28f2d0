"""What a handler is given besides its job: its deadline, and the news that it should end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from scheduler.errors import InterruptReason, JobInterrupted
from scheduler.jobs import Job

_current: ContextVar[Job | None] = ContextVar("scheduler_current_job", default=None)


def current_job() -> Job | None:
    """The job whose handler is running in this context, None outside of handlers."""
    return _current.get()


def enter(job: Job) -> None:
    """Make *job* the current one of the present context."""
    _current.set(job)


class JobContext:
    """
    One run of one job. The handler's thread reads it; the worker's threads cancel it.

    The deadline counts from the moment the handler starts.
    """

    __slots__ = ("_cancelled_at", "_event", "_interrupt", "_job", "_loads", "_lock", "_reason", "_started")

    def __init__(self, job: Job, loads: Callable[[bytes], object]) -> None:
        self._job = job
        self._started = time.monotonic()
        self._loads = loads
        # Guards the four below. One for all contexts would stay held for ever in the child of a handler that forks.
        self._lock = threading.Lock()
        self._reason: InterruptReason | None = None
        self._cancelled_at: float | None = None
        self._event: threading.Event | None = None  # made when asked for: most handlers never do
        self._interrupt: Callable[[], bool] | None = None

    @property
    def job(self) -> Job:
        """The job, as it was leased."""
        return self._job

    @property
    def started(self) -> float:
        """When the handler started, by `time.monotonic()`."""
        return self._started

    @property
    def data(self) -> object:
        """The payload, decoded by the worker's serializer: anew at each call, so that nobody shares it."""
        return self._loads(self._job.payload)

    @property
    def deadline(self) -> datetime:
        """When the attempt times out, by this machine's clock, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self.remaining())

    @property
    def ends(self) -> float:
        """The deadline, by `time.monotonic()`."""
        return self._started + self._job.timeout

    def remaining(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.ends - time.monotonic()

    @property
    def cancelled(self) -> threading.Event:
        """Set when the handler should end: its time is up, its lease is lost, or the worker is stopping."""
        with self._lock:
            if self._event is None:
                self._event = threading.Event()
                if self._reason is not None:
                    self._event.set()
            return self._event

    @property
    def reason(self) -> InterruptReason | None:
        """Why the context was cancelled, None while it is not."""
        return self._reason

    @property
    def cancelled_at(self) -> float | None:
        """When the context was cancelled, by `time.monotonic()`."""
        return self._cancelled_at

    def check(self) -> None:
        """Raise `JobInterrupted` when the context is cancelled, or its deadline has passed. Call it in long loops."""
        if self._reason is None and self.remaining() <= 0.0:
            self.cancel("timeout")
        if self._reason is not None:
            raise JobInterrupted(self._reason)

    def cancel(self, reason: InterruptReason) -> None:
        """Ask the handler to end; the first reason stays. Any thread of the worker."""
        with self._lock:
            if self._reason is not None:
                return
            self._cancelled_at = time.monotonic()
            self._reason = reason
            if self._event is not None:
                self._event.set()
        self.interrupt()

    def interrupt(self) -> bool:
        """Interrupt a handler that was cancelled. False = it may be necessary again: call again in a moment."""
        interrupt = self._interrupt
        return interrupt is None or interrupt()

    def on_cancel(self, interrupt: Callable[[], bool]) -> None:
        """Call *interrupt* when the context is cancelled, at once if it is already. It returns True once it is over."""
        with self._lock:
            self._interrupt = interrupt
            cancelled = self._reason is not None
        if cancelled:
            interrupt()
