"""One server: its connections, and a round trip on one of them."""

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
except ImportError:  # the driver packs as well, a little slower
    _pack = None

IDLE_CONNECTIONS = 32  # kept by a node; a burst of threads may use more
LATE = "no answer within the timeout of the connection"
LOOK_AFTER = 0.1  # seconds that a connection may be idle before it is looked at whether it is still one


class Connection(Protocol):
    """What is used of a connection of redis-py, which does not type it, or of a driver made like it."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def pack_command(self, *words: Word) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = ..., /) -> None: ...  # noqa: FBT001
    def read_response(self) -> object: ...
    def can_read(self, timeout: float = ...) -> bool: ...


class Command(NamedTuple):
    """A command and the hash tag or key that decides which node of a cluster serves it."""

    key: bytes
    words: tuple[Word, ...]


class Line:
    """A connection between two uses."""

    __slots__ = ("_poller", "_process", "_used_at", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._poller = select.poll()  # kept: the driver's can_read makes one each time
        self._poller.register(socket_of(connection), select.POLLIN)
        self._process = process()
        self._used_at = time.monotonic()

    def is_own(self) -> bool:
        """Whether this process has made it. A child of a fork closes its parent's, which stay open for the parent."""
        return self._process == process()

    def is_usable(self) -> bool:
        """Whether nothing was received since the last command: an end of file, or an answer to an older one."""
        return self.is_own() and (time.monotonic() - self._used_at < LOOK_AFTER or not self._poller.poll(0))

    def used(self) -> None:
        """Note the time of the last use."""
        self._used_at = time.monotonic()


class Node:
    """One server: its idle connections, and how to make more of them. Alone, it is the router for all keys."""

    in_order: ClassVar[bool] = True
    """Whether the commands of one `run` are carried out in their order: on one server, and not on several."""

    def __init__(self, make: Callable[..., Connection]) -> None:
        self._make = make  # takes settings that differ
        self._idle: list[Line] = []  # appends and pops are atomic: no lock, so nothing that a fork could break
        self._checked = False
        self._closed = False

    def send(self, commands: Sequence[tuple[Word, ...]]) -> Line:
        """Write *commands*; the answers are to be read with `receive`. Raises the driver's errors."""
        line = self._take()
        try:
            line.connection.send_packed_command([_packed(line.connection, commands)], False)
        except BaseException as error:
            self._lost(line)
            if isinstance(error.__context__, BlockingIOError):
                raise RedisTimeoutError(LATE) from error
            raise
        return line

    def receive(self, line: Line, count: int) -> list[object]:
        """Read *count* answers. From the first lost one on, the error stands in place of each."""
        answers: list[object] = []
        read = line.connection.read_response
        is_left = False
        try:
            while len(answers) < count:
                try:
                    answers.append(read())
                except ReadOnlyError:  # a master that was demoted: no connection to it is of use any more
                    raise
                except ResponseError as error:
                    # Of a server that may not be the master any more: a new connection asks Sentinel, or DNS, again.
                    is_left |= isinstance(error, MasterDownError) or str(error).startswith("NOREPLICAS")
                    answers.append(error)
        except Exception as error:  # noqa: BLE001 - whatever the driver or the system raises
            self._lost(line)
            lost = RedisTimeoutError(LATE) if isinstance(error.__context__, BlockingIOError) else error
            return answers + [lost] * (count - len(answers))
        except BaseException:  # an interrupt: the answers that are left would be taken for those of a later command
            line.connection.disconnect()
            raise
        if is_left:
            self.forget()
        if is_left or self._closed or len(self._idle) >= IDLE_CONNECTIONS or not line.is_own():
            line.connection.disconnect()
        else:
            line.used()
            self._idle.append(line)
        return answers

    def run(self, commands: Sequence[Command]) -> list[object]:
        """
        Return the answers, in order; an exception stands where a command failed or its answer was lost.

        Nothing is sent again that may have had an effect.
        """
        try:
            line = self.send([command.words for command in commands])
        except Exception as error:  # noqa: BLE001 - whatever the driver, the system or a provider of credentials raises
            return [error] * len(commands)
        return self.receive(line, len(commands))

    def subscriber(self) -> Connection:
        """Connect once more, for the caller alone, speaking RESP2 (where messages are plain answers)."""
        connection = self._make(protocol=2)
        with _closed_after_errors(connection):
            connection.connect()
        return connection

    def forget(self) -> None:
        """Drop the idle connections: what broke one has most likely broken all."""
        while self._idle:
            try:
                self._idle.pop().connection.disconnect()
            except IndexError:  # another thread took the last one
                return

    def close(self) -> None:
        """Drop the idle connections now, and those in use when they come back."""
        self._closed = True
        self.forget()

    def _lost(self, line: Line) -> None:
        line.connection.disconnect()
        self.forget()

    def _take(self) -> Line:
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:
                break
            if line.is_usable():
                return line
            line.connection.disconnect()
        connection = self._make()
        with _closed_after_errors(connection):
            connection.connect()
            if not self._checked:
                self._checked = True
                _warn_of_eviction(connection)
            _wait_in_kernel(socket_of(connection))
            return Line(connection)


@contextmanager
def _closed_after_errors(connection: Connection) -> Iterator[None]:
    # The driver closes after its own errors only: not after those of a provider of credentials, or an interrupt.
    try:
        yield
    except BaseException:
        connection.disconnect()
        raise


def socket_of(connection: Connection) -> socket.socket:
    """Its socket, which the driver keeps to itself; it has no way to wait for that and for something else at once."""
    found = vars(connection).get("_sock")
    if not isinstance(found, socket.socket):
        raise OSError("the connection is gone")
    return found


def _wait_in_kernel(connected: socket.socket) -> None:
    """
    Let the kernel bound the waits of a socket.

    With a time-out of Python's own, each send and each receive is two system calls: a poll comes first. A wait that is
    too long then ends in BlockingIOError, of which the driver makes a ConnectionError and we make a TimeoutError.
    """
    timeout = connected.gettimeout()
    if timeout and type(connected) is socket.socket and sys.platform == "linux":  # TLS has its own way of waiting
        seconds, rest = divmod(timeout, 1.0)
        limit = struct.pack("@ll", int(seconds), int(rest * 1_000_000))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connected.setblocking(True)


def _packed(connection: Connection, commands: Sequence[tuple[Word, ...]]) -> bytes:
    if _pack is not None:  # not by way of the driver, which looks at the type of each word first
        return b"".join([_pack(words) for words in commands])
    return b"".join([part for words in commands for part in connection.pack_command(*words)])


def _warn_of_eviction(connection: Connection) -> None:
    """Warn once about a server that evicts keys when its memory is full: it loses jobs."""
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
    flat = [*answer.keys(), *answer.values()] if isinstance(answer, dict) else answer  # RESP3 has maps
    policy = flat[-1].decode() if isinstance(flat, list) and flat else "noeviction"
    if policy != "noeviction":
        log.warning(
            "this Redis has maxmemory-policy %s and may evict jobs when its memory is full; set it to noeviction",
            policy,
        )
