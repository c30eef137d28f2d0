"""Running scripts on partitions: many in one round trip, with the errors of the library."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from redis.exceptions import NoScriptError

from scheduler.clock import Clock
from scheduler.errors import BackendClosed, BackendError
from scheduler.limits import now_of
from scheduler_backends.redis.client.node import Connection, Word
from scheduler_backends.redis.client.router import Command, Router
from scheduler_backends.redis.errors import log, should_log, translated
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import micros
from scheduler_backends.redis.scripts import Script

SHARED_SILENCE = 5.0
"""
Seconds after a failure in which the keys that all queues share are not used.

In a cluster, calls on other servers need not wait for theirs each time.
"""


class Call(NamedTuple):
    """One script on one partition, or (script None) the words of a plain command."""

    script: Script | None
    partition: Partition
    args: tuple[Word, ...]

    def command(self) -> Command:
        """What is sent."""
        script, partition, args = self
        if script is None:
            return Command(partition.tag, args)
        return Command(partition.tag, (b"EVALSHA", script.sha, *partition.head(script), *args))


class Calls:
    """Runs calls. Any thread."""

    def __init__(self, router: Router, clock: Clock | None) -> None:
        self.clock = clock
        self._router = router
        self._closed = threading.Event()

    @property
    def in_order(self) -> bool:
        """Whether the calls of one `run` are executed in their order."""
        return self._router.in_order

    def now(self) -> bytes:
        """The first argument of scripts that ask for the time: empty = the server's own."""
        return b"%d" % micros(now_of(self.clock)) if self.clock else b""

    def run(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[object]:
        """
        Return the answers of *calls*, then those of the plain commands in *also*, with errors in their place.

        Raises `BackendClosed` after `close`.
        """
        if self._closed.is_set():
            raise BackendClosed("this backend was closed")
        commands = [call.command() for call in calls]
        commands.extend(also)
        answers = self._router.run(commands)
        self._load_missing(calls, commands, answers)
        return [translated(answer) if isinstance(answer, Exception) else answer for answer in answers]

    def one(self, script: Script, partition: Partition, *args: Word) -> object:
        """Return the answer of one call, or raise its error."""
        return self.all([Call(script, partition, args)])[0]

    def all(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[object]:
        """Return the answers, or raise the first error once all calls were made."""
        answers = self.run(calls, also)
        for answer in answers:
            if isinstance(answer, BackendError):
                raise answer
        return answers

    def on_key(self, script: Script, key: bytes, *args: Word) -> object:
        """Return the answer of a script on one key outside the partitions."""
        self.check_open()
        words = (script.sha, 1, key, *args)
        (answer,) = self._router.run([Command(key, (b"EVALSHA", *words))])
        if isinstance(answer, NoScriptError):
            (answer,) = self._router.run([Command(key, (b"EVAL", script.text, *words[1:]))])
        if isinstance(answer, Exception):
            raise translated(answer)
        return answer

    def plain(self, *commands: Command) -> list[object]:
        """Return the answers of plain commands, or raise the first error."""
        return self.all((), commands)

    def subscriber(self) -> Connection:
        """Open a connection for notifications. Raises the driver's errors."""
        self.check_open()
        return self._router.subscriber()

    def close(self) -> None:
        """Refuse further calls and close the connections."""
        self._closed.set()
        self._router.close()

    def check_open(self) -> None:
        """Raise `BackendClosed` after `close`."""
        if self._closed.is_set():
            raise BackendClosed("this backend was closed")

    def _load_missing(self, calls: Sequence[Call], commands: Sequence[Command], answers: list[object]) -> None:
        # After a restart, a failover, SCRIPT FLUSH or the move of a slot. The other commands did run, and are not sent
        # again. EVAL loads the script as well, so not even a flush in between can make this fail.
        missing = [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if missing:
            again = [
                Command(commands[number].key, (b"EVAL", script.text, *commands[number].words[2:]))
                for number in missing
                if (script := calls[number].script) is not None  # a plain command never misses one
            ]
            for number, answer in zip(missing, self._router.run(again), strict=True):
                answers[number] = answer


def what_succeeded(answers: Sequence[object]) -> list[object]:
    """
    Return the answers, with None in place of errors, which are logged. Raises the first error where all failed.

    For moves that are independent of each other: an error of one partition does not hide what the others did.
    """
    errors = [answer for answer in answers if isinstance(answer, BackendError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    for error in errors:
        if should_log(str(error)):
            log.warning("a partition could not be served: %s", error)
    return [None if isinstance(answer, BackendError) else answer for answer in answers]
