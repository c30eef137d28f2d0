"""Table of the jobs that a worker holds, guarded by one lock."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from scheduler.config import WorkerConfig
from scheduler.jobs import Job
from scheduler.leases import Lease
from scheduler.worker.context import JobContext
from scheduler.worker.outcome import Outcome, released

LeaseKey = tuple[str, str, str]
CRASHES_KEPT_APART = 2
_TRIAL = 5.0  # seconds: most jobs that kill their process do so soon after they begin


def is_suspect(lease: Lease) -> bool:
    """Return whether this job may be the one that kills its worker processes."""
    return lease.job.crashes >= CRASHES_KEPT_APART


class HeldJob:
    """
    A job in the in-flight table. Its fields change only under the table's lock.

    taken: when it was leased, by time.monotonic(). begun, context, thread: set when its handler starts. unsent: its
    outcome is known but not recorded yet. offered: the outcome was sent to the store at least once. given_up: its
    thread is stuck.
    """

    __slots__ = ("begun", "context", "given_up", "key", "lease", "offered", "taken", "thread", "unsent")

    def __init__(self, lease: Lease, taken: float) -> None:
        self.lease = lease
        self.key: LeaseKey = lease.key
        self.taken = taken
        self.context: JobContext | None = None
        self.thread = 0
        self.begun = 0.0
        self.unsent = self.offered = self.given_up = False

    @property
    def deadline(self) -> float:
        """When to cancel its handler, by time.monotonic(); inf if it has not started or is already cancelled."""
        context = self.context
        return math.inf if context is None or context.reason is not None else context.ends

    def gives_up_at(self, grace: float) -> float:
        """Return when to give up on its thread: *grace* seconds after both its cancellation and its deadline."""
        context = self.context
        # A handler that was cancelled before its deadline (lease lost, worker stopping) keeps the rest of its time.
        if context is None or (cancelled := context.cancelled_at) is None:
            return math.inf
        return max(context.ends, cancelled) + grace


class InFlight:
    """
    The in-flight table. Each held job is buffered, running or unsent.

    A job whose lease is lost leaves the table, although its handler has not returned.

    Callers by thread: pump: wanted, trial_left, suspect_since, holds, take_in, unsent, keep, forget · pool threads:
    begin, finish · heartbeat: renewable, mark_lost · deadlines: give_up, release_overdue, watch · any: the counts,
    free_capacity, start_no_more. No store, handler or hook is called under the lock.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        open_context: Callable[[Job], JobContext],
        wake_deadlines: Callable[[], None],
    ) -> None:
        self._concurrency = config.concurrency
        self._queue_buffer = config.queue_buffer
        self._limit = config.held_limit
        self._open_context = open_context
        self._wake_deadlines = wake_deadlines
        self._lock = threading.RLock()  # guards all below; re-entrant for signal handlers that read the health
        self._held: dict[LeaseKey, HeldJob] = {}  # not yet settled, released or lost
        self._buffered: deque[HeldJob] = deque()
        self._started: set[HeldJob] = set()  # jobs whose handler has not returned, also those of lost leases
        self._stuck = 0  # how many of those were given up
        self._outcomes: deque[Outcome] = deque()
        self._active_threads = 0  # pool threads in a shift, stuck ones included
        self._prefetching = True
        self._starting = True
        self._watched_until = 0.0  # when `watch` is called next, by time.monotonic()

    # ---- any thread

    @property
    def held(self) -> int:
        """Leases not yet settled, released or lost."""
        return len(self._held)  # one read of one object needs no lock

    @property
    def stuck(self) -> int:
        """Handler threads that were given up on and have not returned."""
        return self._stuck

    @property
    def started(self) -> list[HeldJob]:
        """Jobs whose handler has not returned, stuck ones included."""
        with self._lock:
            return list(self._started)

    @property
    def unfinished(self) -> int:
        """Jobs that are buffered or whose handler has not returned, without the stuck ones."""
        with self._lock:
            return len(self._buffered) + len(self._started) - self._stuck

    def free_capacity(self) -> int:
        """Return how many more jobs may be leased now."""
        with self._lock:
            buffer = self._queue_buffer if self._prefetching else 0
            usable = (self._concurrency - self._stuck) * (1 + buffer)
            return max(0, min(self._limit - len(self._held), usable - self.unfinished))

    # ---- the pump

    def wanted(self, batch_size: int) -> int:
        """Return how many jobs to lease now, at most *batch_size*."""
        with self._lock:
            free = min(batch_size, self.free_capacity())
            # While every thread has its next job buffered, a lease of less than a batch is not worth a call.
            return 0 if free < batch_size and len(self._buffered) >= self._concurrency else free

    def trial_left(self) -> float:
        """
        Return for how many seconds nothing may be leased because a suspect has just begun, or is about to begin.

        A suspect is a job that may kill the process. 0.0 means that jobs may be leased. If the process died during a
        lease call, a crash would be counted against the jobs of that call too.
        """
        since = self.suspect_since()
        return 0.0 if since is None else max(0.0, since + _TRIAL - time.monotonic())

    def suspect_since(self) -> float | None:
        """Return when the newest suspect began: now if one is about to begin, None if there is none."""
        with self._lock:
            if any(is_suspect(held.lease) for held in self._buffered):
                return time.monotonic()
            begun = [held.begun for held in self._started if is_suspect(held.lease) and not held.given_up]
            return max(begun, default=None)

    def holds(self, lease: Lease) -> bool:
        """Return whether *lease* is in the table."""
        return lease.key in self._held

    def take_in(self, leases: Iterable[Lease]) -> int:
        """Add *leases* to the table. Return how many threads to wake for them."""
        now = time.monotonic()
        with self._lock:
            for lease in leases:
                held = HeldJob(lease, now)
                if held.key in self._held:  # a repeated lease call also returns jobs that are held already
                    continue
                self._held[held.key] = held
                if not self._starting:
                    self._conclude(held, released(lease))
                else:
                    self._buffered.append(held)
            coming = self._active_threads - len(self._started)  # threads that were woken and have not begun a job
            woken = max(0, min(len(self._buffered) - coming, self._concurrency - self._active_threads))
            self._active_threads += woken
            return woken

    def _conclude(self, held: HeldJob, outcome: Outcome) -> None:
        held.unsent = True
        self._outcomes.append(outcome)

    def unsent(self, limit: int) -> list[Outcome]:
        """Take up to *limit* outcomes to record. Call `forget` or `keep` for each of them afterwards."""
        taken: list[Outcome] = []
        with self._lock:
            while self._outcomes and len(taken) < limit:
                outcome = self._outcomes.popleft()
                held = self._held.get(outcome.lease.key)
                if held is not None:  # else the lease was lost in the meantime
                    held.offered = True
                    taken.append(outcome)
        return taken

    def keep(self, outcomes: Sequence[Outcome]) -> None:
        """Put back *outcomes* that could not be recorded. `unsent` returns them first, in the same order."""
        with self._lock:
            self._outcomes.extendleft(reversed(outcomes))

    def forget(self, leases: Iterable[Lease]) -> None:
        """Remove *leases*, whose outcomes the store has recorded or refused."""
        with self._lock:
            for lease in leases:
                self._held.pop(lease.key, None)

    def start_no_more(self) -> None:
        """Start no more jobs. Release those that have not started, also those that are added later."""
        with self._lock:
            self._starting = False
            self._release_buffered()

    def _release_buffered(self) -> int:
        count = len(self._buffered)
        while self._buffered:
            held = self._buffered.popleft()
            self._conclude(held, released(held.lease))
        return count

    # ---- pool threads

    def begin(self) -> HeldJob | None:
        """Return the next job to run on this thread. None means that none is buffered: the thread's shift ends."""
        with self._lock:
            if not self._buffered:
                # Under the same lock as the check above, so that no job is left without a thread.
                self._active_threads -= 1
                return None
            held = self._buffered.popleft()
            held.context = context = self._open_context(held.lease.job)
            held.thread = threading.get_ident()
            held.begun = time.monotonic()
            self._started.add(held)
            if context.ends < self._watched_until:
                self._watched_until = context.ends  # only an earlier deadline needs another wake-up
                self._wake_deadlines()
            return held

    def finish(self, held: HeldJob, outcome: Outcome) -> HeldJob | None:
        """
        Add the outcome of *held* to the unsent ones, and return the next job as `begin` does.

        The outcome is dropped if the lease is lost or the job was given up.
        """
        with self._lock:
            self._started.discard(held)
            self._stuck -= held.given_up
            self._prefetching = True
            if not held.given_up and held.key in self._held:
                self._conclude(held, outcome)
            return self.begin()

    # ---- the heartbeat

    def renewable(self) -> list[Lease]:
        """Return the leases to renew: those of all held jobs except the ones given up."""
        with self._lock:
            return [held.lease for held in self._held.values() if not held.given_up]

    def mark_lost(self, leases: Iterable[Lease]) -> int:
        """Remove jobs whose leases the store did not renew, and cancel them. Return how many were still held."""
        lost = []
        with self._lock:
            for lease in leases:
                held = self._held.get(lease.key)
                # The store may have refused the lease because it has recorded the outcome, although that call has not
                # returned (yet). If it has not recorded the outcome, it refuses it when it is sent again.
                if held is None or held.offered:
                    continue
                del self._held[held.key]
                lost.append(held)
                if held.context is None and not held.unsent:
                    self._buffered.remove(held)
        for held in lost:
            if held.context is not None:
                held.context.cancel("lease lost")
                self._wake_deadlines()  # the handler may have to be interrupted
        return len(lost)

    # ---- the deadlines

    def give_up(self, held: HeldJob, outcome: Outcome) -> bool:
        """
        Add *outcome* to the unsent ones, without waiting for the handler of *held*.

        Returns False if the handler has returned in the meantime.
        """
        with self._lock:
            if held not in self._started or held.given_up:
                return False
            self._stuck += 1
            held.given_up = True
            if held.key in self._held:
                self._conclude(held, outcome)
            self._stop_prefetching()
            return True

    def release_overdue(self, now: float, longest: float) -> int:
        """
        Release the buffered jobs once the oldest has waited for *longest* seconds: other workers may be free.

        Returns how many were released.
        """
        with self._lock:
            if not self._buffered or now - self._buffered[0].taken < longest:
                return 0
            return self._stop_prefetching()

    def _stop_prefetching(self) -> int:
        self._prefetching = False
        return self._release_buffered()

    def watch(self, until: float, grace: float) -> float:
        """Return until when the deadlines' thread sleeps: *until*, or an earlier deadline or time to give up."""
        with self._lock:
            # Kept even if the job with that deadline is done: otherwise each of many short jobs would wake the thread.
            if time.monotonic() < self._watched_until:
                until = min(until, self._watched_until)
            for held in self._started:
                if not held.given_up:
                    until = min(until, held.deadline, held.gives_up_at(grace))
            self._watched_until = until
            return until
