"""The ability `Wakeups`, by Pub/Sub on a connection of its own: no polling and no blocking command."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Sequence

from scheduler.abilities import Waiter, WakeReason
from scheduler.errors import BackendClosed
from scheduler.limits import check_queues
from scheduler.sleeping import Ownership
from scheduler.waiting import DescriptorWaiter
from scheduler_backends.redis.client.node import Connection, socket_of
from scheduler_backends.redis.errors import translated
from scheduler_backends.redis.store import Store

_REASONS = {b"r": WakeReason.JOBS_READY, b"d": WakeReason.EARLIER_DUE_TIME}  # any other message counts as both
ACTIVE_FOR = 1.0  # seconds after a wait in which the thread is expected to wait again
PING_AFTER = 10.0  # seconds without a message; detects a connection that was cut off silently


class WaiterHooks:
    """The ability `Wakeups`: wake-ups by published messages."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """Return a waiter with a connection of its own. See `Wakeups.waiter`."""
        names = check_queues(queues)
        self._store.calls.check_open()
        return RedisWaiter(self._store, names)


class RedisWaiter(DescriptorWaiter):
    """A waiter whose notifications let other calls skip partitions. See `Serving.relies_on_notifications`."""

    def __init__(self, store: Store, queues: Sequence[str]) -> None:
        self._thread: int | None = None  # the thread that is waiting, or waited last
        self._left_at = 0.0  # when its wait ended, by time.monotonic(); inf = it is waiting
        super().__init__(store.waiters, queues, lambda _: SubscribedSource(store, self))

    def wait(self, timeout: float) -> WakeReason:
        """See `DescriptorWaiter.wait`."""
        self._thread, self._left_at = threading.get_ident(), math.inf
        try:
            return super().wait(timeout)
        finally:
            self._left_at = time.monotonic()

    def is_active(self) -> bool:
        """Return whether another thread is waiting, or was within `ACTIVE_FOR`: it then receives messages promptly."""
        return self._thread != threading.get_ident() and time.monotonic() - self._left_at < ACTIVE_FOR


class SubscribedSource:
    """
    `WakeSource` on the channels of some queues.

    It may be garbage-collected in a forked child: redis-py then does not shut down the parent's connection.
    """

    def __init__(self, store: Store, waiter: RedisWaiter) -> None:
        self._store = store
        self._waiter = waiter
        self._channels = {store.keys.channel(queue): queue for queue in waiter.queues}
        self._connection: Connection | None = None
        self._own: Ownership | None = None
        self._descriptor = -1  # of the connection's socket
        self._received_at = 0.0  # when the server last sent something, by time.monotonic()
        self._pinged_at: float | None = None  # when the PING was sent that has no reply yet

    def look(self, now: float) -> WakeReason:
        """See `WakeSource.look`."""
        try:
            if self._connection is None:
                self._subscribe()
                return WakeReason.ANY  # earlier messages were not received
            # Not by select only: the driver or TLS may have buffered messages.
            while self._connection.can_read(0):
                if reason := self._read(self._connection):
                    return reason  # the next wait reads the rest; a sleeping thread must be woken now
            self._check_health(self._connection, now)
        except BackendClosed:
            raise
        except Exception as error:  # the driver, the system or unexpected messages raise any error
            raise translated(error) from error
        return WakeReason.NONE

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        """See `WakeSource.next_look`."""
        if self._connection is None:
            return 0.0, ()
        if self._pinged_at is None:
            check_at = self._received_at + PING_AFTER
        else:
            check_at = self._pinged_at + self._store.config.timeout
        return check_at - now, (self._descriptor,)

    def close(self) -> None:
        """See `WakeSource.close`."""
        self._store.serving.unsubscribed(self._waiter)
        if self._connection is not None:
            if self._own is not None and not self._own.is_mine():
                with contextlib.suppress(OSError):
                    socket_of(self._connection).detach()  # the number may be another file's by now
            self._connection.disconnect()
            self._connection = self._own = None

    def _subscribe(self) -> None:
        self._connection = connection = self._store.calls.subscriber()
        connection.send_packed_command(connection.pack_command(b"SUBSCRIBE", *self._channels), False)
        for _ in self._channels:
            connection.read_response()
        self._descriptor = socket_of(connection).fileno()
        self._own = Ownership(self._descriptor)
        self._received_at, self._pinged_at = time.monotonic(), None
        self._store.serving.subscribed(self._waiter)

    def _read(self, connection: Connection) -> WakeReason:
        """Read a message published by prelude/wake.lua and return its reason. NONE for any other reply."""
        message = connection.read_response()
        self._received_at, self._pinged_at = time.monotonic(), None
        if not isinstance(message, list) or message[0] != b"message":
            return WakeReason.NONE
        kinds, _, meta = message[2].partition(b" ")
        reason = _REASONS.get(kinds, WakeReason.ANY)
        self._store.serving.notified(self._channels.get(message[1]), meta[:-2], reason)
        return reason

    def _check_health(self, connection: Connection, now: float) -> None:
        """Send a PING after `PING_AFTER` seconds of silence. Raise `TimeoutError` if no reply comes in time."""
        if self._pinged_at is None:
            if now >= self._received_at + PING_AFTER:
                connection.send_packed_command(connection.pack_command(b"PING"), False)
                self._pinged_at = now
        elif now >= self._pinged_at + self._store.config.timeout:
            raise TimeoutError("the server does not reply on the connection for notifications")
