"""The jobs that a worker holds: their table, under one lock."""

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
_TRIAL = 5.0  # seconds: a job that kills its process mostly does so at once


def is_suspect(lease: Lease) -> bool:
    """Return whether this job may be what kills its workers."""
    return lease.job.crashes >= CRASHES_KEPT_APART


class HeldJob:
    """
    A job in the in-flight table. Changed only under the table's lock.

    taken: when it was leased, by time.monotonic(). begun, context, thread: set when its handler starts. unsent: its
    outcome is known and not recorded yet. offered: the outcome was sent to the store at least once. given_up: its
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
        """When to cancel its handler, by time.monotonic(); inf = nothing is to be cancelled, or not any more."""
        context = self.context
        return math.inf if context is None or context.reason is not None else context.ends

    def gives_up_at(self, grace: float) -> float:
        """Return when to give up on its thread: *grace* seconds after both its cancellation and its deadline."""
        context = self.context
        # A handler that only lost its lease, or that is being stopped, keeps the rest of its time.
        if context is None or (cancelled := context.cancelled_at) is None:
            return math.inf
        return max(context.ends, cancelled) + grace


class InFlight:
    """
    Each held job is buffered, running or unsent. A job whose lease is lost leaves the table; its handler runs on.

    Callers by thread: pump: wanted, trial_left, suspect_since, holds, take_in, unsent, keep, forget · pool threads:
    begin, finish · heartbeat: renewable, mark_lost · deadlines: give_up, release_overdue, watch · any: the counts,
    room, start_no_more. No store, handler or hook is called under the lock.
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
        self._started: set[HeldJob] = set()  # handlers that have not returned, of lost leases too
        self._stuck = 0  # of these, the given up
        self._outcomes: deque[Outcome] = deque()
        self._active_threads = 0  # pool threads in a shift, stuck ones included
        self._prefetching = True
        self._starting = True
        self._watched_until = 0.0  # when `watch` is woken next, by time.monotonic()

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
        """Jobs buffered or whose handler has not returned, stuck ones not counted."""
        with self._lock:
            return len(self._buffered) + len(self._started) - self._stuck

    def room(self) -> int:
        """Return how many more jobs may be leased now."""
        with self._lock:
            buffer = self._queue_buffer if self._prefetching else 0
            usable = (self._concurrency - self._stuck) * (1 + buffer)
            return max(0, min(self._limit - len(self._held), usable - self.unfinished))

    # ---- the pump

    def wanted(self, batch_size: int) -> int:
        """Return how many jobs to lease now, at most *batch_size*."""
        with self._lock:
            room = min(batch_size, self.room())
            # If every thread has its next job, a small lease would only cost a call.
            return 0 if room < batch_size and len(self._buffered) >= self._concurrency else room

    def trial_left(self) -> float:
        """
        Return for how many seconds nothing is to be leased, because a job that may kill the process has just begun.

        Also if one is about to begin; 0.0 = there is none. If the process died during a lease call, the jobs that the
        call took would have a crash counted against them.
        """
        since = self.suspect_since()
        return 0.0 if since is None else max(0.0, since + _TRIAL - time.monotonic())

    def suspect_since(self) -> float | None:
        """When the newest job that may kill the process began; now if one is about to begin, None if there is none."""
        with self._lock:
            if any(is_suspect(held.lease) for held in self._buffered):
                return time.monotonic()
            begun = [held.begun for held in self._started if is_suspect(held.lease) and not held.given_up]
            return max(begun, default=None)

    def holds(self, lease: Lease) -> bool:
        """Return whether *lease* is in the table."""
        return lease.key in self._held

    def take_in(self, leases: Iterable[Lease]) -> int:
        """Hold *leases*. Returns how many threads to wake for them."""
        now = time.monotonic()
        with self._lock:
            for lease in leases:
                held = HeldJob(lease, now)
                if held.key in self._held:  # a repeated call returned what is held already
                    continue
                self._held[held.key] = held
                if not self._starting:
                    self._conclude(held, released(lease))
                else:
                    self._buffered.append(held)
            coming = self._active_threads - len(self._started)  # woken, and no job begun yet
            woken = max(0, min(len(self._buffered) - coming, self._concurrency - self._active_threads))
            self._active_threads += woken
            return woken

    def _conclude(self, held: HeldJob, outcome: Outcome) -> None:
        held.unsent = True
        self._outcomes.append(outcome)

    def unsent(self, limit: int) -> list[Outcome]:
        """Take up to *limit* outcomes to be recorded. Call `forget` or `keep` for each of them afterwards."""
        taken: list[Outcome] = []
        with self._lock:
            while self._outcomes and len(taken) < limit:
                outcome = self._outcomes.popleft()
                held = self._held.get(outcome.lease.key)
                if held is not None:  # else it was lost in the meantime
                    held.offered = True
                    taken.append(outcome)
        return taken

    def keep(self, outcomes: Sequence[Outcome]) -> None:
        """Return *outcomes* that the store did not take: they are offered again, in their order."""
        with self._lock:
            self._outcomes.extendleft(reversed(outcomes))

    def forget(self, leases: Iterable[Lease]) -> None:
        """Stop holding *leases*, whose outcomes the store has recorded or refused."""
        with self._lock:
            for lease in leases:
                self._held.pop(lease.key, None)

    def start_no_more(self) -> None:
        """Give back jobs that have not started, also those that are taken in later."""
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
        """Return the next job to run on this thread. None ends the shift."""
        with self._lock:
            if not self._buffered:
                # Subtracted under the lock under which nothing was found, so that no job is left without a thread.
                self._active_threads -= 1
                return None
            held = self._buffered.popleft()
            held.context = context = self._open_context(held.lease.job)
            held.thread = threading.get_ident()
            held.begun = time.monotonic()
            self._started.add(held)
            if context.ends < self._watched_until:
                self._watched_until = context.ends  # one wake-up is enough for all deadlines up to this one
                self._wake_deadlines()
            return held

    def finish(self, held: HeldJob, outcome: Outcome) -> HeldJob | None:
        """Take the outcome of *held*, then return as `begin`. It is dropped if the lease is lost or was given up."""
        with self._lock:
            self._started.discard(held)
            self._stuck -= held.given_up
            self._prefetching = True
            if not held.given_up and held.key in self._held:
                self._conclude(held, outcome)
            return self.begin()

    # ---- the heartbeat

    def renewable(self) -> list[Lease]:
        """Return all leases to be renewed: of buffered, running and unsent jobs, but not of those given up."""
        with self._lock:
            return [held.lease for held in self._held.values() if not held.given_up]

    def mark_lost(self, leases: Iterable[Lease]) -> int:
        """Drop jobs that other workers hold now, and cancel their handlers. Returns how many were still held."""
        lost = []
        with self._lock:
            for lease in leases:
                held = self._held.get(lease.key)
                # A lease whose outcome was offered may be refused because the store has recorded it, although the
                # call has not returned (yet). If it has not recorded it, the next offer is refused.
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
        """Record *outcome* without waiting for the handler. False if the handler has returned in the meantime."""
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
        """Give back jobs that have not started once the oldest waits for *longest* seconds: others may have room."""
        with self._lock:
            if not self._buffered or now - self._buffered[0].taken < longest:
                return 0
            return self._stop_prefetching()

    def _stop_prefetching(self) -> int:
        self._prefetching = False
        return self._release_buffered()

    def watch(self, until: float, grace: float) -> float:
        """Return until when the deadlines' thread sleeps: *until*, or the next deadline or moment to give up."""
        with self._lock:
            # The moment it was woken for stays, even if that job is done: else each of many short jobs wakes it.
            if time.monotonic() < self._watched_until:
                until = min(until, self._watched_until)
            for held in self._started:
                if not held.given_up:
                    until = min(until, held.deadline, held.gives_up_at(grace))
            self._watched_until = until
            return until
