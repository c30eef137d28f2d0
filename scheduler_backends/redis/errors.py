"""The library's errors for those of the driver and the server."""

from __future__ import annotations

import logging
import re
import time

from redis import exceptions as driver

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.logs import GuardedLogger

log = GuardedLogger(logging.getLogger("scheduler.redis"))

LOG_INTERVAL = 60.0  # seconds for which the same message is not logged again
_logged_at: dict[str, float] = {}  # message -> when; two threads may log one twice, which does no harm


def should_log(text: str) -> bool:
    """Return True at most once a minute for the same *text*. Workers meet the same trouble at every poll."""
    now = time.monotonic()
    if now - _logged_at.get(text, -LOG_INTERVAL) < LOG_INTERVAL:
        return False
    if len(_logged_at) > 1_000:  # noqa: PLR2004 - a bound for the memory: then some are logged early
        _logged_at.clear()
    _logged_at[text] = now
    return True


# The first line that fits decides. What may end by itself is BackendUnavailable: callers then wait and repeat.
_TABLE: tuple[tuple[type[Exception], type[BackendError], str], ...] = (
    (driver.AuthenticationError, BackendError, "Redis refuses the credentials"),
    (driver.AuthorizationError, BackendError, "Redis refuses the credentials"),
    (driver.NoPermissionError, BackendError, "Redis refuses a command to this user"),
    (driver.OutOfMemoryError, BackendUnavailable, "Redis accepts no new jobs: its memory is full (maxmemory)"),
    (driver.ReadOnlyError, BackendUnavailable, "this Redis is a replica and takes no writes"),
    (driver.BusyLoadingError, BackendUnavailable, "Redis is still loading its data"),
    (driver.TimeoutError, BackendUnavailable, "Redis did not answer in time"),
    (driver.ConnectionError, BackendUnavailable, "Redis cannot be reached"),
    (driver.TryAgainError, BackendUnavailable, "Redis is moving this part of the cluster"),
    (driver.AskError, BackendUnavailable, "Redis is moving this part of the cluster"),  # MOVED as well
    (driver.ClusterDownError, BackendUnavailable, "the Redis cluster does not serve this part now"),
    (driver.RedisError, BackendError, "Redis refuses"),
    (driver.RedisClusterException, BackendUnavailable, "the Redis cluster cannot be reached"),
    (OSError, BackendUnavailable, "Redis cannot be reached"),  # such as a name that cannot be resolved
    (MemoryError, BackendUnavailable, "there is no memory left to ask Redis"),
    (Exception, BackendError, "the driver failed"),  # such as a provider of credentials that raises
)

# A refused certificate comes as text in a ConnectionError. Waiting does not help.
_REFUSED = re.compile("CERTIFICATE_VERIFY_FAILED|certificate verify failed|WRONG_VERSION_NUMBER")

# Errors that end by themselves, and for which the driver has no class.
_PASSING = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "MASTERDOWN", "LOADING", "OOM", "READONLY")


def translated(error: Exception) -> BackendError:
    """Return the library's error for one of the driver's, which becomes its cause."""
    if isinstance(error, BackendError):
        return error
    for sort, ours, meaning in _TABLE:
        if isinstance(error, sort):
            passing = ours is BackendError and str(error).startswith(_PASSING)
            refused = isinstance(error, driver.ConnectionError) and _REFUSED.search(str(error)) is not None
            kind = BackendError if refused else BackendUnavailable if passing else ours
            made = kind(f"{meaning}: {str(error) or type(error).__name__}")
            made.__cause__ = error
            return made
    raise AssertionError("the table ends with every error")


def is_of_wrong_type(error: BackendError) -> bool:
    """Whether a key has another type than ours: another program wrote it, and only what needs that key fails."""
    return "WRONGTYPE" in str(error)
