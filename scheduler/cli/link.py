"""A worker process's connection to its supervisor."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

from scheduler.cli.protocol import ChildSetup, Message, encode


class SupervisorLink:
    """Sends messages through a socket, and sees by its end that the supervisor has ended."""

    def __init__(self, setup: ChildSetup) -> None:
        self.setup = setup
        os.set_inheritable(setup.socket, False)  # programs that handlers start must not hold it open
        os.set_blocking(setup.socket, False)
        self._identity = self._present_identity()

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
