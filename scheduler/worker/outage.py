"""Tracks outages of the store: back-off between calls, and when recovery may go on."""

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
_MAY_ONLY_READ = "promote_due"  # on stores that derive ready; a store that takes no writes may still serve reads


def is_transient(error: BaseException) -> bool:
    """Return whether *error* may pass, as when the store is away, so that the call is worth repeating."""
    kind = type(error)  # not isinstance, which runs code of the error's own class
    return issubclass(kind, BackendError) and not issubclass(kind, (BackendClosed, SchemaMismatch, NotSupported))


class BackOff:
    """The waits between tries: doubled each time, jittered, at most *longest* seconds. One thread uses it."""

    def __init__(self, longest: float = LONGEST_BACK_OFF) -> None:
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        """Begin anew, since a call succeeded."""
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        self._failures = min(self._failures + 1, 16)
        return min(self._longest, 0.05 * 2.0**self._failures) * random.uniform(0.5, 1.0)


class Outage:
    """
    The state of the store, from the calls of all threads of one worker.

    An outage is a time longer than a heartbeat in which no call succeeded. After an outage, and after the worker's
    start, recovery waits until the workers that hold leases have renewed them: else it would race them.

    When the store refuses a call (which will not pass, as a wrong password does not) before any call of this worker has
    succeeded, the worker was started wrongly and ends. Later it waits, whatever the error.
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
        """Call a method of the contract, and record whether that succeeds. Errors pass through."""
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
            self._logger.info("The store answers again after %.1f s", away)

    def _failed(self, operation: str, error: BackendError) -> None:
        now = time.monotonic()
        with self._lock:
            log = not self._failing or now - self._last_logged >= _LOG_EVERY
            self._failing = True
            self._failing_to_write |= operation != _MAY_ONLY_READ
            if log:
                self._last_logged = now
        if log:
            self._logger.warning("The store failed at %s and will be asked again: %s", operation, error)
        self._metrics.call_failed(operation, error)

    @property
    def seconds(self) -> float:
        """For how many seconds no call has succeeded; 0.0 = the last one did."""
        with self._lock:
            return time.monotonic() - self._last_success if self._failing else 0.0

    def process_was_suspended(self) -> None:
        """
        Hold recovery up as after an outage, since this process stood still.

        Leases that it and others hold may seem to have expired.
        """
        with self._lock:
            self._recover_from = time.monotonic() + self._pause

    def recovery_pause(self) -> float:
        """Return the seconds until recovery may go on, or should call this again; 0.0 = it may go on now."""
        now = time.monotonic()
        with self._lock:
            if self._failing and now - self._last_success > self._heartbeat_interval:
                return self._pause  # recovery must not be the first call that succeeds again
            return max(0.0, self._recover_from - now)
