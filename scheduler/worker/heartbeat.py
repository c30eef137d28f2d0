"""Renews everything the worker holds, and watches the handlers' deadlines."""

from __future__ import annotations

import sys
import time
import traceback

from scheduler.worker.inflight import InFlight, Row
from scheduler.worker.run import Run
from scheduler.worker.runner import JobRunner


class Heartbeat:
    """`beat` is the duty of the heartbeat's thread and answers the seconds until the next one."""

    def __init__(self, run: Run, inflight: InFlight, runner: JobRunner) -> None:
        self._run = run
        self._inflight = inflight
        self._runner = runner
        self._next_renewal = time.monotonic() + run.config.heartbeat_interval

    def beat(self) -> float:
        """Cancel what is past its deadline, give up on what does not heed it, renew the rest when it is time."""
        now = time.monotonic()
        self._watch_deadlines(now)
        if now >= self._next_renewal:
            # Set before the call: a failing one is repeated after the ticker's back-off, not at once.
            self.renew()
            self._next_renewal = now + self._run.config.heartbeat_interval
        return self._inflight.watch(self._next_renewal, self._run.config.timeout_grace) - time.monotonic()

    def renew(self) -> None:
        """Renew all leases; the jobs of those that are refused are lost to this worker."""
        leases = self._inflight.renewable()
        if not leases:
            return
        with self._run.outage.calling("renew"):
            renewal = self._run.backend.renew(leases, self._run.config.lease_duration)
        self._run.metrics.renewed(len(leases) - len(renewal.refused))
        # What was settled since the leases were read is refused too, and no news.
        lost = self._inflight.mark_lost(renewal.refused)
        if lost:
            self._run.metrics.lost("renew", lost)
            self._run.logger.warning("%d leases were lost: other workers hold the jobs, or they are finished", lost)
            self._run.doorbell.ring()

    def _watch_deadlines(self, now: float) -> None:
        late, hopeless = self._inflight.overdue(now, self._run.config.timeout_grace)
        for context in late:
            context.cancel("timeout")
        given_up = sum(self._give_up(row) for row in hopeless)
        released = self._inflight.release_overdue(now, self._run.config.lease_duration)
        if given_up:
            self._run.metrics.stuck(self._inflight.stuck)
        if given_up or released:
            self._run.doorbell.ring()

    def _give_up(self, row: Row) -> bool:
        job = row.lease.job
        stack = _stack_of(row.thread)
        if not self._inflight.give_up(row, self._runner.timed_out(row.lease, stack)):
            return False
        self._run.logger.error(
            "The handler of job %s (%s) does not return; its thread is stuck:\n%s", job.id, job.type, stack
        )
        return True


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to another thread's stack
    return "".join(traceback.format_stack(frame, limit=50)) if frame is not None else ""
