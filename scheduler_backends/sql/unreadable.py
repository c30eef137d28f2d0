"""Log lines and error records for jobs that cannot be read."""

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

_EVERY: Final = 60.0  # seconds between two log lines

STRAY_ERROR: Final = error_document(
    ErrorDetail(kind=UNREADABLE, message="this record cannot be read: its state, priority or due time is invalid")
)
"""The error of a stray job: because of its state, priority or due time, no worker would ever have found it."""


class UnreadableLog:
    """Log of jobs that cannot be read, with at most one line a minute. Thread-safe."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        # Guards the next two fields. Per process: the thread that held a copied lock does not exist in a forked child.
        # Re-entrant: a signal handler or a finaliser may lease inside `log`.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._silent_until = -math.inf
        self._unlogged = 0

    def log(self, number: int, example: str) -> None:
        """
        Log that *number* jobs are dead because they cannot be read.

        *example* names one of them and the reason. It must not contain a payload.
        """
        with self._locks.get(threading.RLock):
            self._unlogged += number
            now = time.monotonic()
            if now < self._silent_until:
                return
            total, self._unlogged, self._silent_until = self._unlogged, 0, now + _EVERY
        self._logger.warning(
            "%d jobs cannot be read and are dead now, without having run, for example %s", total, example
        )

    def log_jobs(self, jobs: Sequence[Job]) -> None:
        """Log *jobs*, which were leased and could not be read."""
        first = jobs[0]
        self.log(len(jobs), f"{first.id!r} in {first.queue!r}: {first.errors[-1].message}")
