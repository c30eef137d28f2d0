"""Enforcement of the handlers' deadlines. Never waits for the store."""

from __future__ import annotations

import math
import time

from scheduler.errors import WorkerCrashed
from scheduler.worker.context import JobContext
from scheduler.worker.frames import stack_of
from scheduler.worker.inflight import HeldJob, InFlight
from scheduler.worker.log_lines import fields, named
from scheduler.worker.runner import JobRunner
from scheduler.worker.threads import Run

# A cancelled handler is interrupted again after this share of the time since its cancellation, within these bounds.
_SHARE = 0.02
_SOONEST = 0.001  # seconds
_LATEST = 1.0  # seconds
_DEPTH = 50  # frames of a stuck handler that are logged


class Deadlines:
    """Supervision of the deadlines of running handlers. `watch` is the duty of the deadlines' thread."""

    def __init__(self, run: Run, inflight: InFlight, runner: JobRunner) -> None:
        self._run = run
        self._inflight = inflight
        self._runner = runner
        self._stuck = 0  # as last reported to the metrics

    def watch(self) -> float:
        """
        Cancel handlers past their deadline, interrupt those that allow it, and give up on those that do not return.

        Returns the seconds until the next call. Ends the run if too many threads are stuck.
        """
        now = time.monotonic()
        config = self._run.config
        given_up = 0
        again = now + config.heartbeat_interval
        for held in self._inflight.started:
            if held.context is not None and held.deadline <= now:
                held.context.cancel("timeout")
            if held.gives_up_at(config.timeout_grace) <= now and not held.given_up:
                given_up += self._give_up(held)
            again = min(again, now + _interrupt(held.context, now))
        released = self._inflight.release_overdue(now, config.lease_duration)
        if given_up or released:
            self._run.wake_event.set()
        stuck = self._inflight.stuck
        if stuck != self._stuck:
            self._stuck = stuck
            self._run.metrics.stuck(stuck)
            if stuck >= (config.stuck_limit or math.inf) and not self._run.shutdown.requested:
                message = f"{stuck} handler threads are stuck past their timeouts"
                self._run.shutdown.crashed(WorkerCrashed(message, stuck=stuck))
        return self._inflight.watch(again, config.timeout_grace) - time.monotonic()

    def _give_up(self, held: HeldJob) -> bool:
        job = held.lease.job
        stack = stack_of(held.thread, _DEPTH)
        if not self._inflight.give_up(held, self._runner.timed_out(held.lease, stack)):
            return False
        self._run.logger.error(
            "The handler of job %s does not return; its thread is stuck:\n%s", named(job), stack, extra=fields(job)
        )
        return True


def _interrupt(context: JobContext | None, now: float) -> float:
    """Interrupt a cancelled handler that still runs. Return the seconds until the next check, inf if none is needed."""
    if context is None or context.cancelled_at is None or context.interrupt():
        return math.inf
    return min(max(_SOONEST, (now - context.cancelled_at) * _SHARE), _LATEST)
