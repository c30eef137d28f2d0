"""Renews all leases that the worker holds."""

from __future__ import annotations

import time

from scheduler.errors import BackendError
from scheduler.worker.inflight import InFlight
from scheduler.worker.outage import BackOff, is_transient
from scheduler.worker.threads import Run


class Heartbeat:
    """`beat` is the duty of the heartbeat's thread and returns the seconds until the next call."""

    def __init__(self, run: Run, inflight: InFlight) -> None:
        self._run = run
        self._inflight = inflight
        self._back_off = BackOff()
        self._next = time.monotonic() + run.config.heartbeat_interval

    def beat(self) -> float:
        """Renew when it is due. After a failure it is due soon: within a heartbeat, however long the outage."""
        now = time.monotonic()
        if now >= self._next:
            try:
                self.renew()
            except BackendError as error:
                if not is_transient(error):
                    raise
                self._next = time.monotonic() + min(self._back_off.next(), self._run.config.heartbeat_interval)
            else:
                self._back_off.reset()
                self._next = now + self._run.config.heartbeat_interval
        return self._next - time.monotonic()

    def renew(self) -> None:
        """Renew all leases. The jobs of leases that the store refuses are lost to this worker."""
        leases = self._inflight.renewable()
        if not leases:
            return
        with self._run.outage.calling("renew"):
            renewal = self._run.backend.renew(leases, self._run.config.lease_duration)
        self._run.metrics.renewed(len(leases) - len(renewal.refused))
        # Leases that were settled since they were read are refused too; they are not lost.
        lost = self._inflight.mark_lost(renewal.refused)
        if lost:
            self._run.metrics.lost("renew", lost)
            self._run.logger.warning("%d leases were lost: other workers hold the jobs, or they are finished", lost)
            self._run.wake_event.set()
