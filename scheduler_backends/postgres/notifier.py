"""
Rate-limited NOTIFY.

A commit with a NOTIFY takes a lock that all such commits share. With eight clients, a NOTIFY in every commit reduced
inserts from 20,100 to 8,300 per second. So at most one notification is sent for a queue within INTERVAL seconds. A
waiter that was woken looks again INTERVAL seconds later, and finds the work that was not notified. Work that is
committed after that look is notified again.

A notification is a separate statement after the move, so the work is committed when a waiter receives it. Only the
enqueue of one job, for which a web request may be waiting, includes the notification in its own statement.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection
from typing import Final

from scheduler.errors import BackendError
from scheduler.processes import PerProcess

INTERVAL: Final = 0.01
"""Seconds between two notifications for the same queue."""
_MOST_QUEUES: Final = 10_000  # remembered, so that queues that are used only once do not accumulate

_LONGEST: Final = 63  # characters of a channel's name; the server refuses longer names

_log = logging.getLogger("scheduler.postgres")


def channel_of(schema: str, prefix: str) -> str:
    """Return the name of the channel for waiters of these tables."""
    name = f"{schema}.{prefix}job"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}#{zlib.crc32(name.encode()):08x}"


class Notifier:
    """Sends notifications to the waiters of all processes. Thread-safe. Logs a `BackendError`; workers poll too."""

    def __init__(self, send: Callable[[list[str]], object]) -> None:
        self._send = send
        # They guard _last. Re-entrant, because finalisers and signal handlers may enqueue.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._last: dict[str, float] = {}  # queue → time of its last notification

    def notify(self, queues: Collection[str]) -> None:
        """Notify the waiters of *queues*, in which work was committed."""
        due = self.due(queues) if queues else []
        if due:
            self.send(due)

    def due(self, queues: Collection[str], *, after: float = 0.0) -> list[str]:
        """
        Return those of *queues* whose last notification will be INTERVAL seconds old in *after* seconds.

        They count as notified now, so the caller must notify them.
        """
        now = time.monotonic()
        with self._locks.get(threading.RLock):
            due = [queue for queue in queues if now + after - self._last.get(queue, -INTERVAL) >= INTERVAL]
            if len(self._last) + len(due) > _MOST_QUEUES:
                self._last = {queue: at for queue, at in self._last.items() if now - at < INTERVAL}
            self._last.update(dict.fromkeys(due, now))
        return due

    def send(self, payloads: list[str]) -> None:
        """Send a notification with each payload at once, without the rate limit."""
        try:
            self._send(payloads)
        except BackendError as error:
            _log.debug("waiters were not notified: %s", error)
