"""The pump, which records outcomes, leases jobs and wakes threads for them, in a loop on its own thread."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from functools import partial

from scheduler.errors import BackendError
from scheduler.identity import new_token
from scheduler.leases import Lease
from scheduler.worker.inflight import InFlight, is_suspect
from scheduler.worker.outage import BackOff, is_transient
from scheduler.worker.outcome import Outcome, Verdict, put_back, record
from scheduler.worker.threads import Run

_JITTER = (0.8, 1.2)
_LAST_TRIES = 5  # about three seconds of back-off
_SHORT_REST = 0.001  # seconds
_APART_DELAY = (0.1, 0.3)  # seconds for which a second suspect is put back


class Pump:
    """
    The pump. Each `turn` records outcomes, leases jobs and wakes threads for them. Used by one thread.

    No other thread records outcomes: that takes fewer calls, and a slow or unavailable store limits leasing by itself,
    because jobs with unrecorded outcomes count as held.
    """

    def __init__(self, run: Run, inflight: InFlight, *, wake_threads: Callable[[int], None]) -> None:
        self._run = run
        self._inflight = inflight
        self._wake_threads = wake_threads
        self._unanswered: str | None = None  # the token of a lease call whose result was lost
        self._uncertain: set[Lease] = set()  # leases of outcomes that were sent before, with unknown result
        self.settled = 0
        self.released = 0

    def turn(self) -> float:
        """
        Record outcomes and lease jobs once. Return the seconds until the next turn.

        Errors of the store are raised; the thread repeats the turn after transient ones.
        """
        config = self._run.config
        settled = self.settle()
        trial = self._inflight.trial_left()
        idle = trial > 0.0 or self._run.shutdown.requested
        want = 0 if idle else self._inflight.wanted(config.batch_size)
        leased = self._lease(want) if want else 0
        if leased == want > 0 or settled:
            return 0.0
        if leased:
            # Fewer jobs than wanted does not mean that no more are ready, so lease again. But not at once: the call
            # would compete with the threads that were just woken for the interpreter. An outcome ends the pause.
            return _SHORT_REST
        pause = config.poll_interval * random.uniform(*_JITTER)
        return min(pause, trial) if trial > 0.0 else pause

    def _lease(self, want: int) -> int:
        """Lease up to *want* jobs and wake threads for them. Return how many were leased."""
        # After a lost result the token is reused: the call returns the jobs leased then, which would else expire.
        config = self._run.config
        token = self._unanswered or new_token()
        self._unanswered = token
        lease = partial(self._run.backend.lease, config.queues, token=token, worker_id=config.worker_id, limit=want)
        leases = self._run.outage.call("lease", lease, duration=config.lease_duration)
        if leases:
            kept, apart = ([*leases], []) if self._run.shutdown.requested else set_apart(self._inflight, leases)
            if apart:
                self._record(Verdict.RETRY, apart)
            self._wake_threads(self._inflight.take_in(kept))
            self._run.metrics.leased(len(leases))
        self._unanswered = None  # only now: after any error above, the result is lost too
        return len(leases)

    def give_back(self) -> bool:
        """
        Release the jobs of a lease call whose result was lost. Return False if there is no such call.

        Call `start_no_more` first. The lease call is repeated with a limit of one: a repeated call returns all jobs
        that its token holds.
        """
        if self._unanswered is None:
            return False
        self._lease(1)
        return True

    def settle_all(self) -> None:
        """Record outcomes until nothing is held; try once more after the time is up. Call `start_no_more` first."""
        back_off = BackOff()
        failures = 0
        while True:
            try:
                busy = self.settle() or self.give_back()
                back_off.reset()
                failures = 0
                pause = threading.TIMEOUT_MAX
            except BackendError as error:
                if not is_transient(error):
                    raise
                busy = False
                failures += 1
                pause = back_off.next()
            if busy:
                continue
            # Jobs of a lost lease call come back when their leases expire: they are not worth the whole grace.
            doubt = self._unanswered is not None and failures < _LAST_TRIES
            if self._run.shutdown.given_up or not (self._inflight.held or doubt):
                return
            self._run.wake_event.wait(pause)

    def settle(self) -> bool:
        """Record a batch of outcomes, and keep those that could not be recorded. Return False if there was none."""
        outcomes = self._inflight.unsent(self._run.config.batch_size)
        if not outcomes:
            return False
        waiting: dict[Verdict, list[Outcome]] = {}
        for outcome in outcomes:
            waiting.setdefault(outcome.verdict, []).append(outcome)
        try:
            for verdict in tuple(waiting):
                self._record(verdict, waiting[verdict])
                del waiting[verdict]
        finally:
            for kept in waiting.values():
                self._inflight.keep(kept)
        return True

    def _record(self, verdict: Verdict, outcomes: Sequence[Outcome]) -> None:
        leases = [outcome.lease for outcome in outcomes]
        try:
            refused = set(self._run.outage.call(verdict, record, self._run.backend, verdict, outcomes))
        except BackendError:
            self._uncertain.update(leases)
            raise
        self._inflight.forget(leases)
        # A lease refused in a repeated call is not lost: the first call recorded the outcome, but its result was lost.
        lost = len(refused - self._uncertain)
        self._uncertain.difference_update(leases)
        if verdict is Verdict.RELEASE:
            self.released += len(leases) - lost
        else:
            self.settled += len(leases) - lost
        self._run.metrics.settled(verdict, len(leases) - lost)
        if lost:
            self._run.metrics.lost(verdict, lost)
            self._run.logger.warning("%d leases were lost before %s could be recorded", lost, verdict)


def set_apart(inflight: InFlight, leases: Sequence[Lease]) -> tuple[list[Lease], list[Outcome]]:
    """
    Return which of *leases* to keep, and the outcomes that put the others back.

    A worker holds at most one suspect (a job whose workers have crashed twice or more) at a time. If two were held when
    the process dies, a crash would be counted against both, although only one caused it. Therefore record the outcomes
    before any of the kept jobs begins.
    """
    kept: list[Lease] = []
    apart: list[Outcome] = []
    is_taken = inflight.suspect_since() is not None
    for lease in leases:
        suspect = is_suspect(lease) and not inflight.holds(lease)  # a repeated call returns held jobs too
        if suspect and is_taken:
            apart.append(put_back(lease, random.uniform(*_APART_DELAY)))
        else:
            kept.append(lease)
            is_taken |= suspect
    return kept, apart
