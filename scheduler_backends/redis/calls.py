"""Script calls on partitions: many in one round trip, with errors translated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from redis.exceptions import NoScriptError

from scheduler.clock import Clock
from scheduler.errors import BackendClosed, BackendError
from scheduler.limits import now_of
from scheduler_backends.redis.client.cluster import Router
from scheduler_backends.redis.client.node import Command, Connection, Word
from scheduler_backends.redis.errors import log, should_log, translated
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import micros
from scheduler_backends.redis.scripts import Script

SHARED_SILENCE = 5.0
"""
Seconds after a failure in which the keys shared by all queues are not used.

So in a cluster, calls on other nodes do not wait each time for a node that is down.
"""


class Call(NamedTuple):
    """A call of one script on one partition. script: None = *args* are a plain command."""

    script: Script | None
    partition: Partition
    args: tuple[Word, ...]

    def command(self) -> Command:
        """Return the command to send."""
        script, partition, args = self
        if script is None:
            return Command(partition.tag, args)
        return Command(partition.tag, (b"EVALSHA", script.sha, *partition.head(script), *args))


class Calls:
    """Executor of calls on one store. Thread-safe."""

    def __init__(self, router: Router, clock: Clock | None) -> None:
        self.clock = clock
        self._router = router
        self._closed = threading.Event()

    @property
    def in_order(self) -> bool:
        """Whether the server executes the calls of one `run` in their order."""
        return self._router.in_order

    def now(self) -> bytes:
        """Return the time argument of scripts. Empty = the server's clock."""
        return b"%d" % micros(now_of(self.clock)) if self.clock else b""

    def run(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[object]:
        """
        Run *calls* and the plain commands *also* in one round trip. Return their answers in this order.

        A failed call has its error, a `BackendError`, as its answer. Raises `BackendClosed` after `close`.
        """
        self.check_open()
        commands = [*(call.command() for call in calls), *also]
        if not commands:
            return []
        answers = self._router.run(commands)
        self._load_missing(calls, commands, answers)
        return [translated(answer) if isinstance(answer, Exception) else answer for answer in answers]

    def one(self, script: Script, partition: Partition, *args: Word) -> object:
        """Run one call. Return its answer, or raise its error."""
        return self.all([Call(script, partition, args)])[0]

    def all(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[object]:
        """Run calls like `run`. Return their answers, or raise the first error after all were made."""
        answers = self.run(calls, also)
        for answer in answers:
            if isinstance(answer, BackendError):
                raise answer
        return answers

    def on_key(self, script: Script, key: bytes, *args: Word) -> object:
        """Run a script on a key that belongs to no partition. Return its answer or its error."""
        return self.run((), [Command(key, (b"EVAL", script.text, 1, key, *args))])[0]

    def plain(self, *commands: Command) -> list[object]:
        """Run plain commands. Return their answers, or raise the first error."""
        return self.all((), commands)

    def subscriber(self) -> Connection:
        """Return a new connection for notifications. Raises the driver's errors."""
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
        # Scripts are missing after a restart, a failover, SCRIPT FLUSH or the move of a slot. Only their calls are sent
        # again, since the other commands did run. EVAL also loads the script, so a flush in between does no harm.
        missing = [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if missing:
            again = [
                Command(commands[number].key, (b"EVAL", script.text, *commands[number].words[2:]))
                for number in missing
                if (script := calls[number].script) is not None  # a plain command needs no script
            ]
            for number, answer in zip(missing, self._router.run(again), strict=True):
                answers[number] = answer


def successful_answers(answers: Sequence[object]) -> list[object]:
    """
    Return the answers, with None in place of errors, which are logged. If all are errors, raise the first.

    For calls that are independent of each other: an error of one partition must not hide the results of the others.
    """
    errors = [answer for answer in answers if isinstance(answer, BackendError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    for error in errors:
        if should_log(str(error)):
            log.warning("a partition could not be served: %s", error)
    return [None if isinstance(answer, BackendError) else answer for answer in answers]
