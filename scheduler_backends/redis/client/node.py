"""One server: its pooled connections, and round trips on them."""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, Protocol

from redis.exceptions import MasterDownError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from scheduler.processes import process
from scheduler_backends.redis.errors import log

Word = bytes | int

_pack: Callable[[tuple[Word, ...]], bytes] | None
try:
    from hiredis import pack_command as _pack  # type: ignore[assignment]  # its tuple is typed too narrow
except ImportError:  # the driver's own packing is a little slower
    _pack = None

IDLE_CONNECTIONS = 32  # the maximum kept by a node; more may be in use at the same time
LATE = "no answer within the timeout of the connection"
LOOK_AFTER = 0.1  # seconds: a connection that was idle for longer is checked before it is used


class Connection(Protocol):
    """The parts of a redis-py connection that are used here. redis-py itself does not type them."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def pack_command(self, *words: Word) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = ..., /) -> None: ...  # noqa: FBT001
    def read_response(self) -> object: ...
    def can_read(self, timeout: float = ...) -> bool: ...


class Command(NamedTuple):
    """A command, with the key or hash tag that decides which node of a cluster serves it."""

    key: bytes
    words: tuple[Word, ...]


class PooledConnection:
    """A connection that can be reused, with the process that opened it and the time of its last use."""

    __slots__ = ("_poller", "_process", "_used_at", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._poller = select.poll()  # reused: the driver's can_read creates one for each call
        self._poller.register(socket_of(connection), select.POLLIN)
        self._process = process()
        self._used_at = time.monotonic()

    def is_own(self) -> bool:
        """Return whether this process has opened it. A forked child closes its copies; the parent's stay open."""
        return self._process == process()

    def is_usable(self) -> bool:
        """Return whether this process opened it and nothing, such as an end of file, arrived while it was idle."""
        return self.is_own() and (time.monotonic() - self._used_at < LOOK_AFTER or not self._poller.poll(0))

    def used(self) -> None:
        """Note the time of the last use."""
        self._used_at = time.monotonic()


class Node:
    """One server and its idle connections. As a router, it serves all keys. Thread-safe."""

    in_order: ClassVar[bool] = True
    """Whether the commands of one `run` are executed in their order. True for one server only, not for a cluster."""

    def __init__(self, make: Callable[..., Connection]) -> None:
        self._make = make  # takes settings to override
        self._idle: list[PooledConnection] = []  # no lock, which a fork could break: append and pop are atomic
        self._checked = False
        self._closed = False

    def send(self, commands: Sequence[tuple[Word, ...]]) -> PooledConnection:
        """Send *commands* and return the connection, for `receive` to read the answers. Raises the driver's errors."""
        pooled = self._take()
        try:
            pooled.connection.send_packed_command([_packed(pooled.connection, commands)], False)
        except BaseException as error:
            self._lost(pooled)
            if isinstance(error.__context__, BlockingIOError):
                raise RedisTimeoutError(LATE) from error
            raise
        return pooled

    def receive(self, pooled: PooledConnection, count: int) -> list[object]:
        """Read and return *count* answers. If the connection fails, each missing answer is the error."""
        answers: list[object] = []
        read = pooled.connection.read_response
        is_left = False
        try:
            while len(answers) < count:
                try:
                    answers.append(read())
                except ReadOnlyError:  # a demoted master: all connections to it are useless
                    raise
                except ResponseError as error:
                    # The server may not be the master any more. A new connection asks Sentinel or DNS again.
                    is_left |= isinstance(error, MasterDownError) or str(error).startswith("NOREPLICAS")
                    answers.append(error)
        except Exception as error:  # noqa: BLE001 - the driver or the system raises any error
            self._lost(pooled)
            lost = RedisTimeoutError(LATE) if isinstance(error.__context__, BlockingIOError) else error
            return answers + [lost] * (count - len(answers))
        except BaseException:  # an interrupt: a later command would read the remaining answers as its own
            pooled.connection.disconnect()
            raise
        if is_left:
            self.forget()
        if is_left or self._closed or len(self._idle) >= IDLE_CONNECTIONS or not pooled.is_own():
            pooled.connection.disconnect()
        else:
            pooled.used()
            self._idle.append(pooled)
        return answers

    def run(self, commands: Sequence[Command]) -> list[object]:
        """
        Run *commands* in one round trip and return their answers in order.

        The answer of a command that failed, or whose reply was lost, is an exception. No command is sent again.
        """
        try:
            pooled = self.send([command.words for command in commands])
        except Exception as error:  # noqa: BLE001 - the driver or a credential provider raises any error
            return [error] * len(commands)
        return self.receive(pooled, len(commands))

    def subscriber(self) -> Connection:
        """Return a new connection for the caller, which uses RESP2, where messages are ordinary replies."""
        connection = self._make(protocol=2)
        with _closed_after_errors(connection):
            connection.connect()
        return connection

    def forget(self) -> None:
        """Close the idle connections: an error of one has most likely affected all."""
        while self._idle:
            try:
                self._idle.pop().connection.disconnect()
            except IndexError:  # another thread took the last one
                return

    def close(self) -> None:
        """Close the idle connections now, and those in use when they are returned."""
        self._closed = True
        self.forget()

    def _lost(self, pooled: PooledConnection) -> None:
        pooled.connection.disconnect()
        self.forget()

    def _take(self) -> PooledConnection:
        while self._idle:
            try:
                pooled = self._idle.pop()
            except IndexError:
                break
            if pooled.is_usable():
                return pooled
            pooled.connection.disconnect()
        connection = self._make()
        with _closed_after_errors(connection):
            connection.connect()
            if not self._checked:
                self._checked = True
                _warn_of_eviction(connection)
            _wait_in_kernel(socket_of(connection))
            return PooledConnection(connection)


@contextmanager
def _closed_after_errors(connection: Connection) -> Iterator[None]:
    # The driver closes a connection after its own errors, but not after those of a credential provider or an interrupt.
    try:
        yield
    except BaseException:
        connection.disconnect()
        raise


def socket_of(connection: Connection) -> socket.socket:
    """Return the socket of *connection*. The driver keeps it private and cannot wait for several at once."""
    found = vars(connection).get("_sock")
    if not isinstance(found, socket.socket):
        raise OSError("the connection is gone")
    return found


def _wait_in_kernel(connected: socket.socket) -> None:
    """
    Let the kernel enforce the time-out of a socket, which saves a system call for each send and receive.

    With a time-out of Python's, a poll precedes each of them. When the kernel's time-out expires, BlockingIOError is
    raised. The driver converts it to a ConnectionError, and `Node` converts that to a TimeoutError.
    """
    timeout = connected.gettimeout()
    if timeout and type(connected) is socket.socket and sys.platform == "linux":  # a TLS socket waits differently
        seconds, rest = divmod(timeout, 1.0)
        limit = struct.pack("@ll", int(seconds), int(rest * 1_000_000))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connected.setblocking(True)


def _packed(connection: Connection, commands: Sequence[tuple[Word, ...]]) -> bytes:
    if _pack is not None:  # faster than the driver's method, which checks the type of each word
        return b"".join([_pack(_in_bytes(words) if int in map(type, words) else words) for words in commands])
    return b"".join([part for words in commands for part in connection.pack_command(*words)])


def _in_bytes(words: tuple[Word, ...]) -> tuple[Word, ...]:
    # hiredis crashes if a signal handler raises while it converts an int.
    return tuple([b"%d" % word if isinstance(word, int) else word for word in words])


def _warn_of_eviction(connection: Connection) -> None:
    """Log a warning if the server may evict keys when its memory is full, since that loses jobs."""
    try:
        connection.send_packed_command(connection.pack_command(b"CONFIG", b"GET", b"maxmemory-policy"), False)
        answer = connection.read_response()
    except ResponseError as error:  # many hosted servers forbid CONFIG
        log.warning(
            "the eviction policy of this Redis cannot be read (%s): make sure that maxmemory-policy is noeviction, or "
            "allow +config|get",
            error,
        )
        return
    flat = [*answer.keys(), *answer.values()] if isinstance(answer, dict) else answer  # RESP3 returns maps
    policy = flat[-1].decode() if isinstance(flat, list) and flat else "noeviction"
    if policy != "noeviction":
        log.warning(
            "this Redis has maxmemory-policy %s and may evict jobs when its memory is full; set it to noeviction",
            policy,
        )
