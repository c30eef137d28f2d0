"""Renews everything the worker holds, and watches the handlers' deadlines."""

from __future__ import annotations

import sys
import time
import traceback

from scheduler.errors import BackendError
from scheduler.worker.inflight import InFlight
from scheduler.worker.job_log import fields, named
from scheduler.worker.outage import BackOff, may_pass
from scheduler.worker.rows import Row
from scheduler.worker.run import Run
from scheduler.worker.runner import JobRunner


class Heartbeat:
    """`beat` is the duty of the heartbeat's thread and answers the seconds until the next one."""

    def __init__(self, run: Run, inflight: InFlight, runner: JobRunner) -> None:
        self._run = run
        self._inflight = inflight
        self._runner = runner
        self._back_off = BackOff()
        self._next_renewal = time.monotonic() + run.config.heartbeat_interval
        self._stuck = 0  # as the metrics were told last

    def beat(self) -> float:
        """Cancel what is past its deadline, give up on what does not heed it, renew the rest when it is time."""
        now = time.monotonic()
        self._watch_deadlines(now)
        if now >= self._next_renewal:
            self._next_renewal = self._renew_after(now)
        return self._inflight.watch(self._next_renewal, self._run.config.timeout_grace) - time.monotonic()

    def _renew_after(self, now: float) -> float:
        """Renew, and answer when to do it next. The back-off is kept here: deadlines are watched meanwhile."""
        try:
            self.renew()
        except BackendError as error:
            if not may_pass(error):
                raise
            return time.monotonic() + min(self._back_off.next(), self._run.config.heartbeat_interval)
        self._back_off.reset()
        return now + self._run.config.heartbeat_interval

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
        config = self._run.config
        given_up = 0
        for row in self._inflight.started:
            if row.context is not None and row.deadline <= now:
                row.context.cancel("timeout")
            if row.gives_up_at(config.timeout_grace) <= now and not row.given_up:
                given_up += self._give_up(row)
        released = self._inflight.release_overdue(now, config.lease_duration)
        if given_up or released:
            self._run.doorbell.ring()
        stuck = self._inflight.stuck
        if stuck != self._stuck:
            self._stuck = stuck
            self._run.metrics.stuck(stuck)

    def _give_up(self, row: Row) -> bool:
        job = row.lease.job
        stack = _stack_of(row.thread)
        if not self._inflight.give_up(row, self._runner.timed_out(row.lease, stack)):
            return False
        self._run.logger.error(
            "The handler of job %s does not return; its thread is stuck:\n%s", named(job), stack, extra=fields(job)
        )
        return True


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to another thread's stack
    return "".join(traceback.format_stack(frame, limit=50)) if frame is not None else ""
