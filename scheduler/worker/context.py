"""The context that a handler receives: the deadline of its run, and whether the run is cancelled."""

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
    """Return the job whose handler runs in the current context, None outside of handlers."""
    return _current.get()


def enter(job: Job) -> None:
    """Make *job* the one that `current_job` returns in this context."""
    _current.set(job)


class JobContext:
    """
    Context of one run of a job.

    The handler reads it. The worker's other threads cancel it. The job's timeout counts from the start of the handler.
    """

    __slots__ = ("_cancelled_at", "_event", "_interrupt", "_job", "_loads", "_lock", "_reason", "_started")

    def __init__(self, job: Job, loads: Callable[[bytes], object]) -> None:
        self._job = job
        self._started = time.monotonic()
        self._loads = loads
        # Guards the four below. A lock shared by all contexts could stay locked in the child of a handler that forks.
        self._lock = threading.Lock()
        self._reason: InterruptReason | None = None
        self._cancelled_at: float | None = None
        self._event: threading.Event | None = None  # created at first use: most handlers never use it
        self._interrupt: Callable[[], bool] | None = None

    @property
    def job(self) -> Job:
        """The job as it was leased."""
        return self._job

    @property
    def started(self) -> float:
        """When the handler started, by `time.monotonic()`."""
        return self._started

    @property
    def data(self) -> object:
        """The payload, decoded by the worker's serializer. Each access decodes it again and returns a new object."""
        return self._loads(self._job.payload)

    @property
    def deadline(self) -> datetime:
        """When the attempt times out: in UTC, by the clock of this machine."""
        return datetime.now(UTC) + timedelta(seconds=self.remaining())

    @property
    def ends(self) -> float:
        """The deadline, by `time.monotonic()`."""
        return self._started + self._job.timeout

    def remaining(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        return self.ends - time.monotonic()

    @property
    def cancelled(self) -> threading.Event:
        """Set when the handler should end: its timeout has passed, its lease is lost, or the worker is stopping."""
        with self._lock:
            if self._event is None:
                self._event = threading.Event()
                if self._reason is not None:
                    self._event.set()
            return self._event

    @property
    def reason(self) -> InterruptReason | None:
        """Why the context was cancelled. None if it was not."""
        return self._reason

    @property
    def cancelled_at(self) -> float | None:
        """When the context was cancelled, by `time.monotonic()`. None if it was not."""
        return self._cancelled_at

    def check(self) -> None:
        """Raise `JobInterrupted` if the context is cancelled or its deadline has passed. Call this in long loops."""
        if self._reason is None and self.remaining() <= 0.0:
            self.cancel("timeout")
        if self._reason is not None:
            raise JobInterrupted(self._reason)

    def cancel(self, reason: InterruptReason) -> None:
        """Request the handler to end. Only the first call has an effect. Thread-safe."""
        with self._lock:
            if self._reason is not None:
                return
            self._cancelled_at = time.monotonic()
            self._reason = reason
            if self._event is not None:
                self._event.set()
        self.interrupt()

    def interrupt(self) -> bool:
        """Interrupt the handler of a cancelled context. Return False if the call must be repeated a moment later."""
        interrupt = self._interrupt
        return interrupt is None or interrupt()

    def on_cancel(self, interrupt: Callable[[], bool]) -> None:
        """Call *interrupt* when the context is cancelled, or now if it already is. It must return True when done."""
        with self._lock:
            self._interrupt = interrupt
            cancelled = self._reason is not None
        if cancelled:
            interrupt()
