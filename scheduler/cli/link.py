"""The child's end of what connects it with its supervisor: two pipes and a few words in the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from scheduler.cli.status import Status

STATUS_FD = "_SCHEDULER_STATUS_FD"
LIFELINE_FD = "_SCHEDULER_LIFELINE_FD"
PREDECESSOR = "_SCHEDULER_PREDECESSOR"
PROCESSES = "_SCHEDULER_PROCESSES"


class SupervisorLink:
    """
    status: lines of JSON written to the supervisor. lifeline: a pipe that ends when the supervisor does.

    predecessor: worker id of the dead child that this one replaces, None = there is none. processes: how many in all.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._status = int(environment[STATUS_FD])
        self._lifeline = int(environment[LIFELINE_FD])
        self.predecessor = environment.get(PREDECESSOR)
        self.processes = int(environment.get(PROCESSES, "1"))
        # The handlers' own children must not hold the pipes open.
        os.set_inheritable(self._status, False)
        os.set_inheritable(self._lifeline, False)
        os.set_blocking(self._status, False)

    @classmethod
    def here(cls) -> SupervisorLink | None:
        """The link of this process, None where no supervisor started it."""
        return cls(os.environ) if STATUS_FD in os.environ else None

    def send(self, status: Status) -> None:
        """Tell the supervisor. A line that it has no room for is dropped: the next one says more."""
        with suppress(OSError):
            os.write(self._status, status.to_json().encode() + b"\n")

    def watch(self, gone: Callable[[], None]) -> None:
        """Call *gone* when the supervisor has ended, on a daemon thread that ends then."""

        def wait() -> None:
            with suppress(OSError):
                while os.read(self._lifeline, 1):
                    pass
            gone()

        threading.Thread(target=wait, name="scheduler-lifeline", daemon=True).start()
