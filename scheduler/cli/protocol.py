"""Protocol between supervisor and worker processes: the setup, the messages and the exit status."""

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
    """Exit status, as documented in docs/running-workers.md. After a second signal it is 128 + the signal's number."""

    STOPPED = 0  # as requested: by a signal, --burst, --max-jobs or --max-memory
    CRASHED = 1  # a bug of the worker or the application
    USAGE = 2  # an error to correct: command line, configuration, the application's import, the store's schema
    STUCK = 3  # too many handler threads did not return
    ABANDONED = 4  # stopped in time, but with jobs still held: they run again after their leases expire
    STORE = 5  # the store cannot be used: it is closed, or lacks an ability


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSetup:
    """
    Setup of a worker process, passed as JSON in an environment variable.

    socket: descriptor of the socket for its messages. Its other end closes when the supervisor ends. options: those of
    the supervisor, with a worker id for this process. first: whether this is the supervisor's first process, which
    makes the log lines that appear only once. predecessor: worker id of the crashed process that this one replaces,
    None if there is none.
    """

    socket: int
    options: WorkerOptions
    first: bool = False
    predecessor: str | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment variable for the new process."""
        return {_VARIABLE: json.dumps(asdict(self))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Message that the worker is about to run. grace: seconds that a stop may take."""

    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exiting:
    """Message that the process is about to exit as planned. Without it, an exit with the same status is a crash."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    State of a worker process, which sends it every second; or the sum of several.

    live: the worker runs. ready: it takes jobs, and its store is available. outage: seconds for which the store has not
    been available. counts: those of `CountingMetrics`.
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
        # A worker is ready if all its threads are busy, but not if all are stuck.
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
        """Return the status of several processes: ready if at least *expected* of them are."""
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
    """Return the message in *line*. None if another version sent it, as during an upgrade."""
    try:
        kind, fields = json.loads(line)
        return _KINDS[kind](**fields)
    except (KeyError, TypeError, ValueError):
        return None


class SupervisorLink:
    """Connection of a worker process to its supervisor. It closes when the supervisor ends."""

    def __init__(self, setup: ChildSetup) -> None:
        self.setup = setup
        os.set_inheritable(setup.socket, False)  # programs that handlers start must not keep it open
        os.set_blocking(setup.socket, False)
        self._identity = self._present_identity()

    @classmethod
    def take(cls) -> Self | None:
        """Take the setup from the environment and return the link. None if no supervisor started this process."""
        # Removed, so that programs started by a handler are not taken for worker processes.
        if (text := os.environ.pop(_VARIABLE, None)) is None:
            return None
        fields = json.loads(text)
        given = fields.pop("options").items()
        # JSON has no tuples.
        options: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
        return cls(ChildSetup(**fields, options=WorkerOptions(**options)))

    def send(self, message: Message) -> None:
        """Send *message*. It is dropped if the socket's buffer is full: a newer status follows."""
        with suppress(OSError):
            # A handler may have closed the socket. Its descriptor may now belong to another connection.
            if self._present_identity() == self._identity:
                os.write(self.setup.socket, encode(message))

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call *on_end* on a daemon thread when the supervisor has ended."""
        poll = select.poll()
        poll.register(self.setup.socket, select.POLLIN)

        def wait() -> None:
            poll.poll()  # the supervisor sends nothing, so this is its end
            on_end()

        threading.Thread(target=wait, name="scheduler-lifeline", daemon=True).start()

    def _present_identity(self) -> tuple[int, int]:
        status = os.fstat(self.setup.socket)
        return status.st_dev, status.st_ino
