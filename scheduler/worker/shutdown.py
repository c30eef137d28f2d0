"""How a run is asked to end: by a stop, by an error that no repeat can mend, or by the exit of the interpreter."""

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

LAST_JOIN = 0.25  # seconds beyond the end of the time, for threads that have nothing to do but end
END_MARGIN = 2 * LAST_JOIN  # seconds beyond its timeout that a caller waits for the run to report
_SHARE = 4  # at most a quarter of the time is kept for handlers that end when they are cancelled


class OwnThreads(threading.local):
    """Marks the threads of a worker's runs: they may request a stop, but must not wait for the end of it."""

    entered = False

    def enter(self) -> None:
        """Mark the present thread."""
        self.entered = True


class _Times(NamedTuple):
    """By `time.monotonic()`. The first end that is reached counts."""

    end: float
    cancel: float


class Shutdown:
    """
    The requests to end one run. *wake* is called after a request has been added.

    `request`, `wait` and the properties may be called on any thread, also inside signal handlers. Therefore there is no
    lock: requests are only ever added. `crashed`: any thread of the run. `begin` and `finish`: the one that runs it.
    """

    def __init__(self, config: WorkerConfig, logger: GuardedLogger, wake: Callable[[], None]) -> None:
        self._config = config
        self._logger = logger
        self._wake = wake
        self._requests = [_Times(math.inf, math.inf)]
        self._over = Latch()
        self.requested = False
        """Whether the run is to end."""
        self.given_up = False
        """Whether the time is up: nothing is recorded any more."""
        self.error: BaseException | None = None
        """The first error that the run ends because of."""

    def request(self, timeout: float | None = None) -> None:
        """
        End within *timeout* seconds. A later request can only shorten the time.

        None = shutdown_grace; inf = when all handlers have returned.
        """
        if timeout is None:
            timeout = self._config.shutdown_grace
        end = time.monotonic() + timeout
        # timeout_grace is the time before the end in which cancelled handlers may still return.
        self._requests.append(_Times(end, end - min(self._config.timeout_grace, timeout / _SHARE)))
        self.requested = True
        self._wake()

    def crashed(self, error: BaseException) -> None:
        """End because of *error*, which is logged. The first one is what the run raises."""
        first = self.error
        if first is None:
            self.error = error
        if type(first) is not type(error):  # the heartbeat may fail with the same error again and again, until the end
            # An error whose message says everything, such as a missing schema, needs no traceback.
            plain = isinstance(error, BackendClosed | NotSupported | SchemaMismatch | WorkerCrashed)
            reason = printable(summary(describe(error)))
            self._logger.error("The worker stops: %s", reason, exc_info=None if plain else error)
        # Nothing can be recorded in a closed backend: there is no sense in letting handlers work on for long.
        closed = issubclass(type(error), BackendClosed)
        self.request(self._config.timeout_grace if closed else None)

    @property
    def until_cancel(self) -> float:
        """Seconds until the handlers that still run are cancelled; not below 0."""
        return max(0.0, min(request.cancel for request in self._requests) - time.monotonic())

    @property
    def until_end(self) -> float:
        """Seconds until everything is over; not below 0."""
        return max(0.0, min(self._requests).end - time.monotonic())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, a moment longer than *timeout* seconds (None = shutdown_grace); True if so."""
        return self._over.wait((self._config.shutdown_grace if timeout is None else timeout) + END_MARGIN)

    # ---- the thread that runs the worker

    def begin(self) -> None:
        """The run begins: an exit of the interpreter from now on ends it first."""
        _running.get(set).add(self)
        # Registered again, so that it comes before what the program had registered so far, such as closing the backend.
        atexit.unregister(_end_all)
        atexit.register(_end_all)

    def finish(self) -> None:
        """The run has ended: threads that wait for it go on."""
        _running.get(set).discard(self)
        self._over.set()


_running: PerProcess[set[Shutdown]] = PerProcess()  # none of the parent's runs in a forked child


def _end_all() -> None:
    """End what runs on threads that do not keep the interpreter: in order, and within the grace of each."""
    runs = list(_running.get(set))
    for shutdown in runs:
        shutdown.request()
    for shutdown in runs:
        shutdown.wait()
