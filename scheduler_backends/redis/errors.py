"""Translation of the errors of the driver and the server into the library's."""

from __future__ import annotations

import logging
import re
import time

from redis import exceptions as driver

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.logs import GuardedLogger

log = GuardedLogger(logging.getLogger("scheduler.redis"))

LOG_INTERVAL = 60.0  # seconds for which the same message is not logged again
_logged_at: dict[str, float] = {}  # message -> time; without a lock: at worst, two threads log a message twice


def should_log(text: str) -> bool:
    """Return True at most once a minute for the same *text*: a worker gets the same error at every poll."""
    now = time.monotonic()
    if now - _logged_at.get(text, -LOG_INTERVAL) < LOG_INTERVAL:
        return False
    if len(_logged_at) > 1_000:  # noqa: PLR2004 - bounds the memory; some messages are then logged again early
        _logged_at.clear()
    _logged_at[text] = now
    return True


# The first matching row decides. Transient errors become BackendUnavailable: callers then wait and repeat the call.
_TABLE: tuple[tuple[type[Exception], type[BackendError], str], ...] = (
    (driver.AuthenticationError, BackendError, "Redis refuses the credentials"),
    (driver.AuthorizationError, BackendError, "Redis refuses the credentials"),
    (driver.NoPermissionError, BackendError, "Redis refuses a command to this user"),
    (driver.OutOfMemoryError, BackendUnavailable, "Redis accepts no new jobs: its memory is full (maxmemory)"),
    (driver.ReadOnlyError, BackendUnavailable, "this Redis is a replica and takes no writes"),
    (driver.BusyLoadingError, BackendUnavailable, "Redis is still loading its data"),
    (driver.TimeoutError, BackendUnavailable, "Redis did not reply in time"),
    (driver.ConnectionError, BackendUnavailable, "Redis cannot be reached"),
    (driver.TryAgainError, BackendUnavailable, "Redis is moving this part of the cluster"),
    (driver.AskError, BackendUnavailable, "Redis is moving this part of the cluster"),  # also MovedError, a subclass
    (driver.ClusterDownError, BackendUnavailable, "the Redis cluster does not serve this part now"),
    (driver.RedisError, BackendError, "Redis refuses"),
    (driver.RedisClusterException, BackendUnavailable, "the Redis cluster cannot be reached"),
    (OSError, BackendUnavailable, "Redis cannot be reached"),  # for example, a host name cannot be resolved
    (MemoryError, BackendUnavailable, "this process is out of memory"),
    (Exception, BackendError, "the driver failed"),  # for example, a credential provider raised
)

# The driver reports a rejected certificate only in the text of a ConnectionError. Such an error is not transient.
_TLS_REFUSED = re.compile("CERTIFICATE_VERIFY_FAILED|certificate verify failed|WRONG_VERSION_NUMBER")

# Transient errors for which the driver has no class.
_TRANSIENT_PREFIXES = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "MASTERDOWN", "LOADING", "OOM", "READONLY")


def translated(error: Exception) -> BackendError:
    """Return the library's error for *error*, which becomes its cause."""
    if isinstance(error, BackendError):
        return error
    for sort, ours, meaning in _TABLE:
        if isinstance(error, sort):
            is_transient = ours is BackendError and str(error).startswith(_TRANSIENT_PREFIXES)
            is_refused = isinstance(error, driver.ConnectionError) and _TLS_REFUSED.search(str(error)) is not None
            kind = BackendError if is_refused else BackendUnavailable if is_transient else ours
            made = kind(f"{meaning}: {str(error) or type(error).__name__}")
            made.__cause__ = error
            return made
    raise AssertionError("the last row matches every error")


def is_of_wrong_type(error: BackendError) -> bool:
    """Return whether a key has the wrong type: another program wrote it, and only operations on that key fail."""
    return "WRONGTYPE" in str(error)
