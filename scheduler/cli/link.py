"""The child's end of what connects it with its supervisor: two pipes and a few words in the environment."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from scheduler.cli.status import Status

STATUS_FD = "_SCHEDULER_STATUS_FD"
LIFELINE_FD = "_SCHEDULER_LIFELINE_FD"
PREDECESSOR = "_SCHEDULER_PREDECESSOR"
PROCESSES = "_SCHEDULER_PROCESSES"
FIRST = "_SCHEDULER_FIRST"
_NAMES = (STATUS_FD, LIFELINE_FD, PREDECESSOR, PROCESSES, FIRST)
GRACE, LEAVING, HEARS = "grace", "leaving", "hears"


class SupervisorLink:
    """
    status: lines of JSON written to the supervisor. lifeline: a pipe that ends when the supervisor does.

    predecessor: worker id of the dead child that this one replaces, None = there is none. processes: how many in all.
    first: whether this is the supervisor's first child, which says what need be said once.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._status = int(environment[STATUS_FD])
        self._lifeline = int(environment[LIFELINE_FD])
        self.predecessor = environment.get(PREDECESSOR)
        self.processes = int(environment.get(PROCESSES, "1"))
        self.first = FIRST in environment
        # The handlers' own children must not hold the pipes open.
        os.set_inheritable(self._status, False)
        os.set_inheritable(self._lifeline, False)
        os.set_blocking(self._status, False)
        self._pipe = _identity(self._status)

    @classmethod
    def here(cls) -> SupervisorLink | None:
        """The link of this process, None where no supervisor started it. Programs that it starts have none."""
        if STATUS_FD not in os.environ:
            return None
        return cls({name: os.environ.pop(name) for name in _NAMES if name in os.environ})

    def send(self, status: Status) -> None:
        """Tell the supervisor. A line that it has no room for is dropped: the next one says more."""
        self._write(status.to_json())

    def hear_signals(self) -> None:
        """Tell that signals may be sent: until then their default would end this process."""
        self._write(json.dumps({HEARS: True}))

    def say_hello(self, grace: float) -> None:
        """Tell how many seconds a stop may take here, which the application may have decided."""
        self._write(json.dumps({GRACE: grace}))

    def say_goodbye(self, status: int) -> None:
        """Tell that this process ends on purpose with exit status *status*: a handler may end it with any other."""
        self._write(json.dumps({LEAVING: status}))

    def _write(self, line: str) -> None:
        with suppress(OSError):
            # A handler may have closed the pipe, and its number may now be that of a database's file.
            if _identity(self._status) == self._pipe:
                os.write(self._status, line.encode() + b"\n")

    def watch(self, gone: Callable[[], None]) -> None:
        """Call *gone* when the supervisor has ended, on a daemon thread that ends then."""

        def wait() -> None:
            with suppress(OSError):
                while os.read(self._lifeline, 1):
                    pass
            gone()

        threading.Thread(target=wait, name="scheduler-lifeline", daemon=True).start()


def _identity(descriptor: int) -> tuple[int, int]:
    there = os.fstat(descriptor)
    return there.st_dev, there.st_ino
