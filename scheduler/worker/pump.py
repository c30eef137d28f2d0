"""Records outcomes, leases new jobs and wakes threads for them, again and again, on a thread of its own."""

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
_LAST_TRIES = 5  # some three seconds of back-off
_SHORT_REST = 0.001  # seconds
_APART_DELAY = (0.1, 0.3)  # seconds


class Pump:
    """
    In each turn: record outcomes, lease jobs, wake threads for them. One thread takes turns.

    Outcomes are recorded here rather than by another thread: that takes fewer calls, and a store that is slow or away
    limits leasing by itself, since jobs with unsent outcomes count as held.
    """

    def __init__(self, run: Run, inflight: InFlight, *, wake_threads: Callable[[int], None]) -> None:
        self._run = run
        self._inflight = inflight
        self._wake_threads = wake_threads
        self._unanswered: str | None = None  # the token of a lease call that did not return
        self._uncertain: set[Lease] = set()  # of outcomes that were sent before, without an answer
        self.settled = 0
        self.released = 0

    def turn(self) -> float:
        """
        Take one turn. Returns the seconds until the next one.

        Raises any error that will not pass, such as a bug, or a backend that was closed.
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
            # Fewer jobs than wanted does not mean that no more are ready, so the store is asked again. But not at once:
            # the call would keep the interpreter from the threads that were just woken. An outcome ends the rest.
            return _SHORT_REST
        pause = config.poll_interval * random.uniform(*_JITTER)
        return min(pause, trial) if trial > 0.0 else pause

    def _lease(self, want: int) -> int:
        """Lease up to *want* jobs and have them run. Returns how many were leased."""
        # The same token again after a lost answer: the call returns what was leased then, which would else expire.
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
        self._unanswered = None  # only now: any error before this is a lost answer too
        return len(leases)

    def give_back(self) -> bool:
        """
        After `start_no_more`: find the jobs of a lease call without an answer. False if there was no such call.

        The call is repeated with a limit of one, since a repeat returns all jobs that its token holds.
        """
        if self._unanswered is None:
            return False
        self._lease(1)
        return True

    def settle_all(self) -> None:
        """After `start_no_more`: record outcomes until nothing is held or the time is up, then a last time."""
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
            # What a lease call without an answer may have taken comes back by itself: not worth all of the grace.
            doubt = self._unanswered is not None and failures < _LAST_TRIES
            if self._run.shutdown.given_up or not (self._inflight.held or doubt):
                return
            self._run.wake_event.wait(pause)

    def settle(self) -> bool:
        """Record a batch of outcomes, and keep those that the store does not take. False if there was none."""
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
        # A lease refused at a repeat is not lost: the first try recorded the outcome, and its answer did not come.
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
    Return which of *leases* to take in, and the outcomes that put the others back.

    Record those outcomes before any of the taken jobs begins. Of jobs that may kill their process (whose workers have
    crashed twice or more), only one is held at a time. Two must not die together: a crash would be counted against
    both, although only one is to blame.
    """
    kept: list[Lease] = []
    apart: list[Outcome] = []
    is_taken = inflight.suspect_since() is not None
    for lease in leases:
        suspect = is_suspect(lease) and not inflight.holds(lease)  # a repeated call returns what is held already
        if suspect and is_taken:
            apart.append(put_back(lease, random.uniform(*_APART_DELAY)))
        else:
            kept.append(lease)
            is_taken |= suspect
    return kept, apart
