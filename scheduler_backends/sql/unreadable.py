"""What is logged and recorded about jobs that cannot be read."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Final

from scheduler.jobs import UNREADABLE, ErrorDetail, Job
from scheduler.processes import PerProcess
from scheduler_backends.sql.fields import error_document

_EVERY: Final = 60.0  # seconds between two lines

STRAYED: Final = error_document(
    ErrorDetail(kind=UNREADABLE, message="this record cannot be read: its state, priority or due time is none")
)
"""Recorded where a row's state, priority or due time is such that no worker would ever have found it."""


class UnreadableLog:
    """Logs that jobs cannot be read, once a minute at most. For any thread."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        # Guards the next two. Per process, since a forked child must not wait for a thread that it does not have, and
        # re-entrant, for a signal handler or a finaliser that leases inside `log`.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._silent_until = -math.inf
        self._unlogged = 0

    def log(self, number: int, example: str) -> None:
        """Count *number* jobs, dead since they cannot be read. *example* says which and why, without any payload."""
        with self._locks.get(threading.RLock):
            self._unlogged += number
            now = time.monotonic()
            if now < self._silent_until:
                return
            total, self._unlogged, self._silent_until = self._unlogged, 0, now + _EVERY
        self._logger.warning("%d jobs cannot be read, never ran and are dead now, for example %s", total, example)

    def log_jobs(self, jobs: Sequence[Job]) -> None:
        """Count *jobs*, which were leased."""
        first = jobs[0]
        self.log(len(jobs), f"{first.id!r} in {first.queue!r}: {first.errors[-1].message}")
