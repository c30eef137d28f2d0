"""One of the places for worker processes that a supervisor keeps filled."""

from __future__ import annotations

import logging
import time

from scheduler.cli.child import Child
from scheduler.cli.options import WorkerOptions

_log = logging.getLogger(__name__)
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 30.0  # seconds before a crashed process is replaced
_HEALTHY_AFTER = 10.0  # seconds: a process that ran so long is replaced without back-off


class Slot:
    """child: None while the place is empty, until `start_at` (by time.monotonic()). finished: empty for good."""

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
        """Whether a worker runs here."""
        return self.child is not None and self.child.status is not None and self.child.status.live

    def start_child(self, options: WorkerOptions) -> Child | None:
        """Start a process; None if the system refuses it, to be tried again after the back-off."""
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
        """End the back-off: its reason may be gone."""
        self._back_off = 0.0
        self.start_at = min(self.start_at, time.monotonic())

    def on_exit(self, child: Child) -> None:
        """*child* has exited as planned."""
        self.child = None
        # Not at once: with a small --max-memory, for example, processes would be started in a tight loop.
        self.start_at = child.started + _FIRST_BACK_OFF

    def on_crash(self, child: Child, status: int) -> None:
        """*child* has crashed: the next one starts after the back-off, and logs the jobs that this one held."""
        self.child = None
        # One whose worker never ran has not logged the jobs of its own predecessor.
        self._predecessor = child.worker_id if child.began else child.predecessor
        self._wait(time.monotonic() - child.started)
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        _log.error("Worker %s died (%s); replaced in %.1f s", child.worker_id, how, self._back_off)

    def _wait(self, lifetime: float) -> None:
        healthy = lifetime > _HEALTHY_AFTER
        self._back_off = 0.0 if healthy else min(_LONGEST_BACK_OFF, self._back_off * 2 or _FIRST_BACK_OFF)
        self.start_at = time.monotonic() + self._back_off
