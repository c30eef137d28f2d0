"""How a worker's calls to the store are going: outages, back-off, and when recovery may go on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.config import WorkerConfig
from scheduler.errors import BackendClosed, BackendError, BackendUnavailable, NotSupported, SchemaMismatch
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.shutdown import Shutdown

LONGEST_BACK_OFF = 2.0  # seconds
RECOVERY_MARGIN = 2.0  # seconds beyond a heartbeat: one longest back-off of the holders
_LOG_EVERY = 30.0  # seconds between two lines about one outage
_MAY_ONLY_READ = "promote_due"  # on stores that derive ready; a store that takes no writes may still answer reads


def is_transient(error: BaseException) -> bool:
    """Whether *error* is one of a store that may be well again later, so that the call is worth repeating."""
    kind = type(error)  # not isinstance, which asks the error's own code what it is
    return issubclass(kind, BackendError) and not issubclass(kind, (BackendClosed, SchemaMismatch, NotSupported))


class BackOff:
    """Waits between tries: doubling, jittered, at most two seconds. One thread uses it."""

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """The last call succeeded."""
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self._failures = min(self._failures + 1, 16)
        return min(LONGEST_BACK_OFF, 0.05 * 2.0**self._failures) * random.uniform(0.5, 1.0)


class Outage:
    """
    What all threads of one worker know of the store together.

    An outage is a time longer than a heartbeat in which no call succeeded. After one, and after the worker's start,
    recovery waits for the holders of leases to renew them first: else recoverers race the holders.

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
        self._lock = threading.RLock()  # guards the five below; re-entrant for signal handlers that ask for the health
        self._last_success = time.monotonic()
        self._recover_from = self._last_success + self._pause
        self._failing = False
        self._failing_to_write = False
        self._told = 0.0

    @contextmanager
    def calling(self, operation: str) -> Iterator[None]:
        """Around a call of the contract: notes how it went. Errors pass through."""
        try:
            yield
        except BackendError as error:
            if is_transient(error):
                self._failed(operation, error)
                if not self._has_succeeded and not isinstance(error, BackendUnavailable):
                    self._shutdown.crashed(error)
            raise
        self._succeeded(operation)

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
            tell = not self._failing or now - self._told >= _LOG_EVERY
            self._failing = True
            self._failing_to_write |= operation != _MAY_ONLY_READ
            if tell:
                self._told = now
        if tell:
            self._logger.warning("The store failed at %s and will be asked again: %s", operation, error)
        self._metrics.call_failed(operation, error)

    @property
    def seconds(self) -> float:
        """How long no call has succeeded, 0.0 while the last one did."""
        with self._lock:
            return time.monotonic() - self._last_success if self._failing else 0.0

    def process_was_suspended(self) -> None:
        """This process stood still: what it and others hold may seem to have run out. As after an outage."""
        with self._lock:
            self._recover_from = time.monotonic() + self._pause

    def recovery_pause(self) -> float:
        """Seconds until recovery may go on or is to ask again, 0.0 = now."""
        now = time.monotonic()
        with self._lock:
            if self._failing and now - self._last_success > self._heartbeat_interval:
                return self._pause  # a recovery must not be the call that finds the store well again
            return max(0.0, self._recover_from - now)
