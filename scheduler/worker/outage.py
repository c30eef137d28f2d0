"""Outages of the store: the back-off between calls, and the pause of recovery after an outage."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from scheduler.config import WorkerConfig
from scheduler.errors import BackendClosed, BackendError, BackendUnavailable, NotSupported, SchemaMismatch
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.shutdown import Shutdown

P = ParamSpec("P")
T = TypeVar("T")
LONGEST_BACK_OFF = 2.0  # seconds
RECOVERY_MARGIN = 2.0  # seconds beyond a heartbeat: the longest back-off of the workers that hold leases
_LOG_EVERY = 30.0  # seconds between two log lines about one outage
_MAY_ONLY_READ = "promote_due"  # only reads on some stores, so it may succeed while all writes fail


def is_transient(error: BaseException) -> bool:
    """Return whether *error* may be temporary, such as an unavailable store, so that a repeated call may succeed."""
    kind = type(error)  # not isinstance, which runs code of the error's own class
    return issubclass(kind, BackendError) and not issubclass(kind, (BackendClosed, SchemaMismatch, NotSupported))


class BackOff:
    """Exponential back-off with jitter, at most *longest* seconds. Used by one thread."""

    def __init__(self, longest: float = LONGEST_BACK_OFF) -> None:
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        """Start again with the shortest pause, because a call succeeded."""
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        self._failures = min(self._failures + 1, 16)
        return min(self._longest, 0.05 * 2.0**self._failures) * random.uniform(0.5, 1.0)


class Outage:
    """
    Availability of the store, as seen by the calls of all threads of one worker.

    An outage is a period longer than a heartbeat in which no call succeeded. After an outage, and after the worker's
    start, recovery is paused until the workers that hold leases have had time to renew them.

    If the store refuses a call before any call of this worker has succeeded, for example because of a wrong password,
    the run ends: the worker is probably misconfigured. After a success it retries, after any transient error.
    """

    def __init__(self, config: WorkerConfig, metrics: Metrics, logger: GuardedLogger, shutdown: Shutdown) -> None:
        self._shutdown = shutdown
        self._has_succeeded = False
        self._heartbeat_interval = config.heartbeat_interval
        self._pause = min(config.heartbeat_interval + RECOVERY_MARGIN, config.lease_duration)
        self._metrics = metrics
        self._logger = logger
        self._lock = threading.RLock()  # guards the five below; re-entrant for signal handlers that read the health
        self._last_success = time.monotonic()
        self._recover_from = self._last_success + self._pause
        self._failing = False
        self._failing_to_write = False
        self._last_logged = 0.0

    def call(self, operation: str, method: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call *method* of the store, and note whether it succeeds. *operation*: its name in logs and metrics."""
        try:
            result = method(*args, **options)
        except BackendError as error:
            if is_transient(error):
                self._failed(operation, error)
                if not self._has_succeeded and not isinstance(error, BackendUnavailable):
                    self._shutdown.crashed(error)
            raise
        self._succeeded(operation)
        return result

    def _succeeded(self, operation: str) -> None:
        self._has_succeeded = True
        now = time.monotonic()
        with self._lock:
            if self._failing_to_write and operation == _MAY_ONLY_READ:
                return
            away = now - self._last_success if self._failing else 0.0
            self._last_success = now
            self._failing = self._failing_to_write = False
            if away > self._heartbeat_interval:
                self._recover_from = now + self._pause
        if away:
            self._logger.info("The store is available again after %.1f s", away)

    def _failed(self, operation: str, error: BackendError) -> None:
        now = time.monotonic()
        with self._lock:
            log = not self._failing or now - self._last_logged >= _LOG_EVERY
            self._failing = True
            self._failing_to_write |= operation != _MAY_ONLY_READ
            if log:
                self._last_logged = now
        if log:
            self._logger.warning("The call %s to the store failed and will be repeated: %s", operation, error)
        self._metrics.call_failed(operation, error)

    @property
    def seconds(self) -> float:
        """Seconds since the last successful call. 0.0 if the last call succeeded."""
        with self._lock:
            return time.monotonic() - self._last_success if self._failing else 0.0

    def process_was_suspended(self) -> None:
        """
        Pause recovery as after an outage, because this process was suspended.

        Leases that this and other workers hold may seem to have expired.
        """
        with self._lock:
            self._recover_from = time.monotonic() + self._pause

    def recovery_pause(self) -> float:
        """Return the seconds until recovery may run or should call this again. 0.0 means that it may run now."""
        now = time.monotonic()
        with self._lock:
            if self._failing and now - self._last_success > self._heartbeat_interval:
                return self._pause  # recovery must not be the first call to succeed again
            return max(0.0, self._recover_from - now)
