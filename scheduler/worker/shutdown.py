"""Requests to end a run: by a stop, by a fatal error, or by the exit of the interpreter."""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from scheduler.config import WorkerConfig
from scheduler.errors import BackendClosed, NotSupported, SchemaMismatch, WorkerCrashed
from scheduler.logs import GuardedLogger, printable
from scheduler.processes import PerProcess
from scheduler.worker.outcome import describe, summary
from scheduler.worker.wake_event import Latch

LAST_JOIN = 0.25  # seconds after the time is up, for threads that only have to end
END_MARGIN = 2 * LAST_JOIN  # seconds beyond its timeout that a caller waits for the end of the run
_SHARE = 4  # at most a quarter of the time is kept for handlers that end when they are cancelled


class OwnThreads(threading.local):
    """Marks of the threads of a worker's runs. These may request a stop, but must not wait for it."""

    entered = False

    def enter(self) -> None:
        """Mark the current thread."""
        self.entered = True


class _Times(NamedTuple):
    """When the run ends and when its handlers are cancelled, by `time.monotonic()`. The earliest request counts."""

    end: float
    cancel: float


class Shutdown:
    """
    Requests to end one run. *wake* is called after a request has been added.

    `request`, `wait` and the properties may be used on any thread, also inside signal handlers. Therefore there is no
    lock: requests are only added. `crashed` may be called on any thread of the run, `begin` and `finish` on the thread
    that runs it.
    """

    def __init__(self, config: WorkerConfig, logger: GuardedLogger, wake: Callable[[], None]) -> None:
        self._config = config
        self._logger = logger
        self._wake = wake
        self._requests = [_Times(math.inf, math.inf)]
        self._over = Latch()
        self.requested = False
        """Whether the end of the run was requested."""
        self.given_up = False
        """Whether the time is up: nothing is recorded any more."""
        self.error: BaseException | None = None
        """The first error that ended the run, None if there is none."""

    def request(self, timeout: float | None = None) -> None:
        """
        Request that the run ends within *timeout* seconds. A later request can only shorten the time.

        None means `shutdown_grace`, inf means after all handlers have returned.
        """
        if timeout is None:
            timeout = self._config.shutdown_grace
        end = time.monotonic() + timeout
        # timeout_grace is the time before the end in which cancelled handlers may still return.
        self._requests.append(_Times(end, end - min(self._config.timeout_grace, timeout / _SHARE)))
        self.requested = True
        self._wake()

    def crashed(self, error: BaseException) -> None:
        """End the run because of *error*, which is logged. The run raises the first such error."""
        first = self.error
        if first is None:
            self.error = error
        if type(first) is not type(error):  # the heartbeat may repeat the same error until the end
            # Errors whose message is sufficient, such as a missing schema, need no traceback.
            plain = isinstance(error, BackendClosed | NotSupported | SchemaMismatch | WorkerCrashed)
            reason = printable(summary(describe(error)))
            self._logger.error("The worker stops: %s", reason, exc_info=None if plain else error)
        # Nothing can be recorded in a closed backend, so handlers get only a short time.
        closed = issubclass(type(error), BackendClosed)
        self.request(self._config.timeout_grace if closed else None)

    @property
    def until_cancel(self) -> float:
        """Seconds until the handlers that still run are cancelled; not below 0."""
        return max(0.0, min(request.cancel for request in self._requests) - time.monotonic())

    @property
    def until_end(self) -> float:
        """Seconds until the run must have ended; not below 0."""
        return max(0.0, min(self._requests).end - time.monotonic())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait a little longer than *timeout* seconds (None = shutdown_grace). Return whether the run has ended."""
        return self._over.wait((self._config.shutdown_grace if timeout is None else timeout) + END_MARGIN)

    # ---- the thread that runs the worker

    def begin(self) -> None:
        """Register the run, which has begun. From now on, the exit of the interpreter first ends the run."""
        _running.get(set).add(self)
        # Registered again, to be called before all that the program has registered, such as closing the backend.
        atexit.unregister(_end_all)
        atexit.register(_end_all)

    def finish(self) -> None:
        """Unregister the run, which has ended, and wake the threads that wait for it."""
        _running.get(set).discard(self)
        self._over.set()


_running: PerProcess[set[Shutdown]] = PerProcess()  # none of the parent's runs in a forked child


def _end_all() -> None:
    """End all runs, each within its grace, before the interpreter exits: daemon threads do not keep it alive."""
    runs = list(_running.get(set))
    for shutdown in runs:
        shutdown.request()
    for shutdown in runs:
        shutdown.wait()
