"""One of the places that the supervisor keeps filled, and when to fill it again."""

from __future__ import annotations

import logging
import time

from scheduler.cli.child import Child
from scheduler.cli.options import WorkerOptions

_log = logging.getLogger(__name__)
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 30.0  # seconds before a dead child is replaced
_HEALTHY_AFTER = 10.0  # seconds: a child that lived so long is replaced without back-off again


class Slot:
    """child: None while the place is empty, until `start_at` (by time.monotonic()). finished: for good."""

    def __init__(self, number: int, supervisor: str) -> None:
        self.child: Child | None = None
        self.start_at = 0.0
        self.finished = False
        self._first = number == 0
        self._name = f"{supervisor}:{number}"
        self._generation = 0
        self._predecessor: str | None = None
        self._back_off = 0.0

    @property
    def runs(self) -> bool:
        """Whether its child has said that its worker runs."""
        return self.child is not None and self.child.status is not None and self.child.status.live

    def start_child(self, options: WorkerOptions) -> Child | None:
        """Start a child; None where the system lets us have no more, which is tried again later."""
        self._generation += 1
        worker_id = f"{self._name}.{self._generation}"
        try:
            self.child = Child(options, worker_id, self._predecessor, first=self._first and self._generation == 1)
        except OSError as error:
            self._wait(0.0)
            _log.error("Worker %s cannot be started (%s); tried again in %.1f s", worker_id, error, self._back_off)
            return None
        self._predecessor = None
        _log.info("Started worker %s as process %d", worker_id, self.child.pid)
        return self.child

    def restart_now(self) -> None:
        """Whatever kept its children from living may be mended: an empty place is filled without further pause."""
        self._back_off = 0.0
        self.start_at = min(self.start_at, time.monotonic())

    def empty(self, child: Child) -> None:
        """*child* has ended as it was meant to."""
        self.child = None
        # One that has reached its goal at once, such as a small --max-memory, must not be started in a spin.
        self.start_at = child.started + _FIRST_BACK_OFF

    def on_crash(self, child: Child, status: int) -> None:
        """*child* has died: the next one comes after a pause, and tells what its predecessor held."""
        self.child = None
        # One that could not even begin has not told what its own predecessor held.
        self._predecessor = child.worker_id if child.began else child.predecessor
        self._wait(time.monotonic() - child.started)
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        _log.error("Worker %s died (%s); replaced in %.1f s", child.worker_id, how, self._back_off)

    def _wait(self, lived: float) -> None:
        healthy = lived > _HEALTHY_AFTER
        self._back_off = 0.0 if healthy else min(_LONGEST_BACK_OFF, self._back_off * 2 or _FIRST_BACK_OFF)
        self.start_at = time.monotonic() + self._back_off
