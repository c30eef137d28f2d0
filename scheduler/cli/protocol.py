"""What a supervisor passes to a worker process at its start, the messages that come back, and the exit status."""

from __future__ import annotations

import json
import os
import select
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Self

from scheduler.cli.options import WorkerOptions
from scheduler.worker import Health

_VARIABLE = "_SCHEDULER_CHILD"


class Exit(IntEnum):
    """Documented in docs/running-workers.md. A process that a second signal ends at once exits with 128 + signal."""

    STOPPED = 0  # as requested: by a signal, --burst, --max-jobs or --max-memory
    CRASHED = 1  # a bug of the worker or the application
    USAGE = 2  # to be corrected: the command line, the configuration, the application's import, the store's schema
    STUCK = 3  # too many handler threads did not return
    ABANDONED = 4  # stopped in time, but jobs were still held: they run again when their leases expire
    STORE = 5  # the store cannot be used: it is closed, or lacks an ability


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSetup:
    """
    Passed to a worker process as JSON in an environment variable.

    socket: the descriptor of a socket for its messages, which is closed when the supervisor ends. options: those of the
    supervisor, with a worker id for this process. first: whether this is its first process, which logs what is logged
    once. predecessor: the worker id of the crashed process that this one replaces, None if there is none.
    """

    socket: int
    options: WorkerOptions
    first: bool = False
    predecessor: str | None = None

    def environment(self) -> dict[str, str]:
        """Return the variable for the environment of the new process."""
        return {_VARIABLE: json.dumps(asdict(self))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The worker is about to run. grace: seconds that a stop may take, which the application may have set."""

    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exiting:
    """The process is about to exit as planned. A handler may end it with the same status, without this message."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    The state of one worker process, or of several added up. Sent every second.

    live: its threads run. ready: it would take jobs, and its store is available. outage: seconds for which the store
    has not been available. counts: those of `CountingMetrics`.
    """

    live: bool
    ready: bool
    held: int = 0
    stuck: int = 0
    outage: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, health: Health, counts: Mapping[str, int]) -> Self:
        """Return the status of a process whose worker has this *health*."""
        # A worker whose threads are all busy is ready. One whose threads are all stuck is not.
        ready = health.running and not health.stopping and health.outage == 0.0 and (health.leasing or health.held > 0)
        return cls(
            live=health.running,
            ready=ready,
            held=health.held,
            stuck=health.stuck,
            outage=round(health.outage, 3),
            counts=dict(counts),
        )

    @classmethod
    def sum(cls, statuses: Iterable[Status], expected: int) -> Self:
        """Return the status of several processes: ready when at least *expected* of them are."""
        known = list(statuses)
        counts: Counter[str] = Counter()
        for status in known:
            counts.update(status.counts)
        return cls(
            live=True,
            ready=sum(status.ready for status in known) >= expected,
            held=sum(status.held for status in known),
            stuck=sum(status.stuck for status in known),
            outage=max((status.outage for status in known), default=0.0),
            counts=dict(counts),
        )


Message = Running | Exiting | Status
_KINDS = {kind.__name__: kind for kind in (Running, Exiting, Status)}


def encode(message: Message) -> bytes:
    """Return *message* as one line of JSON."""
    return json.dumps([type(message).__name__, asdict(message)]).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message of *line*; None for one of another version, as in the middle of an upgrade."""
    try:
        kind, fields = json.loads(line)
        return _KINDS[kind](**fields)
    except (KeyError, TypeError, ValueError):
        return None


class SupervisorLink:
    """The worker process's side: sends messages through a socket, whose end shows that the supervisor has ended."""

    def __init__(self, setup: ChildSetup) -> None:
        self.setup = setup
        os.set_inheritable(setup.socket, False)  # programs that handlers start must not hold it open
        os.set_blocking(setup.socket, False)
        self._identity = self._present_identity()

    @classmethod
    def take(cls) -> Self | None:
        """Remove the setup from this process's environment; None if no supervisor started this process."""
        # Removed, so that programs which a handler starts do not take themselves for worker processes.
        if (text := os.environ.pop(_VARIABLE, None)) is None:
            return None
        fields = json.loads(text)
        given = fields.pop("options").items()
        # JSON has no tuples.
        options: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
        return cls(ChildSetup(**fields, options=WorkerOptions(**options)))

    def send(self, message: Message) -> None:
        """Send *message*. It is dropped if the socket's buffer is full: the supervisor gets a newer status later."""
        with suppress(OSError):
            # A handler may have closed the socket, and its number may now belong to the connection of a database.
            if self._present_identity() == self._identity:
                os.write(self.setup.socket, encode(message))

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call *on_end* when the supervisor has ended, on a daemon thread that then ends."""
        poll = select.poll()
        poll.register(self.setup.socket, select.POLLIN)

        def wait() -> None:
            poll.poll()  # the supervisor sends nothing: this is its end
            on_end()

        threading.Thread(target=wait, name="scheduler-lifeline", daemon=True).start()

    def _present_identity(self) -> tuple[int, int]:
        status = os.fstat(self.setup.socket)
        return status.st_dev, status.st_ino
