"""
NOTIFY, rate-limited: it takes a lock that all commits share. With eight clients, one NOTIFY in every commit cut inserts
from 20,100 to 8,300 per second.

A notification is a statement of its own after the move, so moves stay as they are, and a waiter that receives it finds
the work committed. Only the enqueue of one job, on which a web request may wait, takes it along. At most one is sent
for a queue within HUSH seconds. A waiter that was woken looks once more HUSH seconds later and finds what was not
notified. Work that is committed after that look is notified again.
"""  # noqa: D205 - the first sentence needs its reason

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection
from typing import Final

from scheduler.errors import BackendError
from scheduler.processes import PerProcess

HUSH: Final = 0.01  # seconds
_MOST_QUEUES: Final = 10_000  # remembered: queues that are used once must not pile up

_LONGEST: Final = 63  # characters of a channel's name: the server refuses longer ones

_log = logging.getLogger("scheduler.postgres")


def channel_of(schema: str, prefix: str) -> str:
    """Return the channel on which the waiters of these tables listen."""
    name = f"{schema}.{prefix}job"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}#{zlib.crc32(name.encode()):08x}"


class Notifier:
    """Notifies the waiters of queues, in any process. For any thread; never raises, since workers poll as well."""

    def __init__(self, send: Callable[[list[str]], object]) -> None:
        self._send = send
        # Guard _last; re-entrant for finalisers and signal handlers that enqueue.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._last: dict[str, float] = {}  # queue → when its last notification was begun

    def notify(self, queues: Collection[str]) -> None:
        """Notify the waiters of *queues*, in which work was committed."""
        due = self.due(queues) if queues else []
        if due:
            self.send(due)

    def due(self, queues: Collection[str], *, after: float = 0.0) -> list[str]:
        """Return the queues whose last notification will be older than HUSH in *after* s. The caller must send them."""
        now = time.monotonic()
        with self._locks.get(threading.RLock):
            due = [queue for queue in queues if now + after - self._last.get(queue, -HUSH) >= HUSH]
            if len(self._last) + len(due) > _MOST_QUEUES:
                self._last = {queue: at for queue, at in self._last.items() if now - at < HUSH}
            self._last.update(dict.fromkeys(due, now))
        return due

    def send(self, payloads: list[str]) -> None:
        """Send a notification for each payload, without a limit."""
        try:
            self._send(payloads)
        except BackendError as error:
            _log.debug("waiters were not notified: %s", error)
