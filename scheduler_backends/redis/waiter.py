"""Waiting for notifications on a connection of the waiter's own: no polling, and no command that blocks."""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakSet

from scheduler.abilities import Waiter, WakeReason
from scheduler.arguments import check_queues
from scheduler.errors import BackendClosed
from scheduler_backends.redis.client.node import Connection, socket_of
from scheduler_backends.redis.errors import fail
from scheduler_backends.redis.store import Store

_REASONS = {b"r": WakeReason.JOBS_READY, b"d": WakeReason.EARLIER_DUE_TIME}  # any other message means ANY
ACTIVE_FOR = 1.0  # seconds after a wait in which the next one may be expected
PING_AFTER = 10.0  # seconds without a word from the server; a connection that was cut off silently is found so


class WaiterHooks:
    """The ability `Wakeups`."""

    _store: Store
    _waiters: WeakSet[RedisWaiter]

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """A waiter on *queues*, on a connection of its own that is made when it first waits."""
        names = check_queues(queues)
        self._store.calls.check_open()
        waiter = RedisWaiter(self._store, names)
        self._waiters.add(waiter)
        return waiter


class RedisWaiter:
    """
    A `Waiter` on some channels.

    One thread waits, and holds `_guard` meanwhile: only that thread may use the connection then. If another thread
    closes the waiter meanwhile, the waiting thread closes the connection and the sockets.
    """

    def __init__(self, store: Store, queues: Sequence[str]) -> None:
        self._calls = store.calls
        self._channels = {store.keys.channel(queue): queue for queue in queues}
        self._timeout = store.config.timeout
        self._watch = store.watch
        self._serving = store.serving
        self.names = frozenset(queues)
        self._thread: int | None = None  # that waits, or waited last
        self._left_at = 0.0  # when it returned from that, by time.monotonic(); inf = it waits
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._heard_at = 0.0  # when the server last sent something, by time.monotonic()
        self._pinged_at: float | None = None  # when an answer was asked for that has not come yet
        try:
            self._inside, self._outside = _wake_sockets()
        except OSError as error:
            fail(error)

    def wait(self, timeout: float) -> WakeReason:
        """As `Waiter.wait`."""
        self._after_fork()
        with self._guard:
            self._thread, self._left_at = threading.get_ident(), math.inf
            try:
                return self._wait(time.monotonic() + max(0.0, timeout))
            except BackendClosed:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the driver, the system or foreign messages raise
                self._drop()
                if self._closed.is_set():
                    return WakeReason.NONE
                fail(error)
            finally:
                self._left_at = time.monotonic()
                if self._closed.is_set():
                    self._tidy()

    def is_active(self) -> bool:
        """Whether another thread waits, or has just done so: what is published is then received at once."""
        return self._thread != threading.get_ident() and time.monotonic() - self._left_at < ACTIVE_FOR

    def interrupt(self) -> None:
        """As `Waiter.interrupt`; also from a signal handler."""
        with suppress(OSError):  # full, so a wake-up is pending; or closed
            self._outside.send(b"!")

    def close(self) -> None:
        """As `Waiter.close`."""
        self._closed.set()
        self.interrupt()
        if self._guard.acquire(blocking=False):
            try:
                self._tidy()
            finally:
                self._guard.release()

    def _wait(self, deadline: float) -> WakeReason:
        if self._closed.is_set():
            raise BackendClosed("this waiter was closed")
        if self._connection is None:
            self._subscribe()
            return WakeReason.ANY  # notifications may have been missed before
        poller = select.poll()
        poller.register(self._inside, select.POLLIN)
        connected = socket_of(self._connection)
        poller.register(connected, select.POLLIN)
        came = False  # something that can be read without waiting for it
        while True:
            # Asked before each sleep: the driver, or TLS, may hold what has come already.
            while came or self._connection.can_read(0):
                came = False
                if reason := self._read(self._connection):
                    return reason  # what else has come is for the next wait
            if self._was_interrupted() or self._closed.is_set():
                return WakeReason.NONE
            now = time.monotonic()
            if now >= deadline:
                return WakeReason.NONE
            events = poller.poll(1000 * min(deadline - now, self._until_health_check(self._connection, now)))
            # On TLS there may be nothing in it for us.
            came = type(connected) is socket.socket and any(found == connected.fileno() for found, _ in events)

    def _subscribe(self) -> None:
        self._connection = connection = self._calls.subscriber()
        connection.send_packed_command(connection.pack_command(b"SUBSCRIBE", *self._channels), False)
        for _ in self._channels:
            connection.read_response()
        self._heard_at, self._pinged_at = time.monotonic(), None
        self._watch.subscribed(self)

    def _read(self, connection: Connection) -> WakeReason:
        """Read one message, as prelude/wake.lua writes it. NONE for the answer to a PING of ours."""
        message = connection.read_response()
        self._heard_at, self._pinged_at = time.monotonic(), None
        if not isinstance(message, list) or message[0] != b"message":
            return WakeReason.NONE
        kinds, _, meta = message[2].partition(b" ")
        reason = _REASONS.get(kinds, WakeReason.ANY)
        queue = self._channels.get(message[1])
        partition = self._serving.partition(meta[:-2])
        if partition is None:
            if queue is not None:  # a version that is new here, or none of ours
                self._serving.suspect(queue)
            return reason
        if WakeReason.JOBS_READY in reason:  # a hint, which does no harm if nothing is there
            self._watch.has_ready(partition)
        if WakeReason.EARLIER_DUE_TIME in reason:
            self._watch.has_sooner(partition.tag)
        return reason

    def _until_health_check(self, connection: Connection, now: float) -> float:
        """Check a silent server if that is due. Return the seconds until the next step of the check."""
        if self._pinged_at is None:
            wait = self._heard_at + PING_AFTER - now
            if wait > 0.0:
                return wait
            connection.send_packed_command(connection.pack_command(b"PING"), False)
            self._pinged_at = now
        wait = self._pinged_at + self._timeout - now
        if wait <= 0.0:
            raise TimeoutError("the server does not answer on the connection for notifications")
        return wait

    def _was_interrupted(self) -> bool:
        try:
            return bool(self._inside.recv(4096))
        except BlockingIOError:
            return False

    def _drop(self) -> None:
        self._watch.lost(self)
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _tidy(self) -> None:
        self._drop()
        self._inside.close()
        self._outside.close()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._guard = threading.Lock()  # the parent's may be held by a thread that does not exist here
            self._connection = None  # the parent's; dropping it closes only this process's end
            self._inside.close()
            self._outside.close()
            if not self._closed.is_set():
                self._inside, self._outside = _wake_sockets()


def _wake_sockets() -> tuple[socket.socket, socket.socket]:
    inside, outside = socket.socketpair()
    inside.setblocking(False)
    outside.setblocking(False)
    return inside, outside
