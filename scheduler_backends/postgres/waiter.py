"""The ability Wakeups, by LISTEN."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Collection, Sequence
from typing import Final

from scheduler.abilities import Waiter, WakeReason
from scheduler.limits import check_queues
from scheduler.waiting import DescriptorWaiter
from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.listening import Listener
from scheduler_backends.postgres.notifier import HUSH
from scheduler_backends.postgres.store import Store

# Seconds.
_NONCE_WITHIN: Final = 1.0  # a listener must receive its own nonce in this time
_NONCE_EVERY: Final = 60.0  # between two nonces: a firewall may have forgotten the connection
_POLL_FOR: Final = 60.0  # until a listener that receives nothing is given another chance

_NONCE: Final = "\1"  # begins a nonce, and no queue's name

_log = logging.getLogger("scheduler.postgres")


class WaiterHooks:
    """Wake-ups by LISTEN. Where it does not work, workers poll."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """See `Wakeups.waiter`. The connection is one of its own."""
        names, store = check_queues(queues), self._store
        if store.listening is None:
            _log.warning("pgbouncer passes no notifications on: workers poll; give a direct listen_url")
        return DescriptorWaiter(store.waiters, names, lambda _: ListenSource(store, store.listening, frozenset(names)))


class ListenSource:
    """
    A `WakeSource` on a connection that listens.

    It sends itself a nonce, since a pooler between it and the server may take LISTEN and pass no notification on.
    psycopg closes no connection of another process when it is collected.
    """

    def __init__(self, store: Store, database: Database | None, queues: Collection[str]) -> None:
        self._store = store
        self._database = database  # None = LISTEN works nowhere
        self._queues = queues
        self._listener: Listener | None = None
        self._nonce = ""
        self._nonce_until = 0.0  # when the nonce must have been received or, without one, when the next is sent
        self._nonce_came = False
        self._poll_until = 0.0
        self._look_again = math.inf

    def look(self, now: float) -> WakeReason:
        """See `WakeSource.look`."""
        if self._listener is None:
            if self._database is None or now < self._poll_until:
                return WakeReason.NONE
            self._listener = Listener(self._database, self._store.channel)
            self._send_nonce(now)
            return WakeReason.ANY  # earlier notifications were not received
        is_notified = False
        for payload in self._listener.received():
            if payload == self._nonce:
                self._nonce, self._nonce_until, self._nonce_came = "", now + _NONCE_EVERY, True
            is_notified = is_notified or payload in self._queues
        if is_notified:
            # Work that is committed within HUSH of a notification is not notified: see `notifier`.
            self._look_again = now + HUSH
        elif now >= self._look_again:
            self._look_again, is_notified = math.inf, True
        if now >= self._nonce_until:
            if not self._nonce:
                self._send_nonce(now)
            else:
                self._give_up(now)
        return WakeReason.ANY if is_notified else WakeReason.NONE

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        """See `WakeSource.next_look`."""
        if self._listener is not None:
            return min(self._look_again, self._nonce_until) - now, (self._listener.fileno(),)
        return min(self._look_again, math.inf if self._database is None else self._poll_until) - now, ()

    def close(self) -> None:
        """See `WakeSource.close`."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _send_nonce(self, now: float) -> None:
        self._nonce, self._nonce_until = f"{_NONCE}{secrets.token_hex(8)}", now + _NONCE_WITHIN
        self._store.notifier.send([self._nonce])

    def _give_up(self, now: float) -> None:
        self.close()
        if self._nonce_came:  # this connection has died: the next look makes another
            self._nonce_came = False
            return
        self._poll_until = now + _POLL_FOR
        _log.warning("LISTEN receives nothing, as behind pgbouncer: workers poll; give a direct listen_url")
