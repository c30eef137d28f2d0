"""The one table of everything a worker holds, under one lock."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from scheduler.config import WorkerConfig
from scheduler.leases import Lease
from scheduler.worker.context import JobContext
from scheduler.worker.held_job import HeldJob, LeaseKey, is_suspect
from scheduler.worker.outcome import Outcome, released


class InFlight:
    """
    Held jobs, in one of: buffered, running, unsent. A job whose lease is lost leaves the table, its handler runs on.

    pump: room, suspect_since, holds, take_in, unsent, keep, forget · pool threads: begin, finish · heartbeat:
    renewable, mark_lost · deadlines: give_up, release_overdue, watch · any: the counts, start_no_more. No store,
    handler or hook is called under the lock.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        open_context: Callable[[Lease], JobContext],
        wake_deadlines: Callable[[], None],
    ) -> None:
        self._concurrency = config.concurrency
        self._queue_buffer = config.queue_buffer
        self._limit = config.held_limit
        self._open_context = open_context
        self._ring_deadlines = wake_deadlines
        self._lock = threading.RLock()  # guards all below; re-entrant for signal handlers that ask for the health
        self._held: dict[LeaseKey, HeldJob] = {}  # not yet settled, released or lost
        self._buffered: deque[HeldJob] = deque()
        self._running: set[HeldJob] = set()  # whose handler has not returned, lost ones included, stuck ones not
        self._stuck: set[HeldJob] = set()
        self._outcomes: deque[Outcome] = deque()
        self._active_threads = 0  # pool threads in a shift, stuck ones included
        self._prefetching = True
        self._starting = True
        self._watched_until = 0.0  # when the deadlines are looked at next, by time.monotonic()

    # ---- any thread

    @property
    def held(self) -> int:
        """Leases not yet settled, released or lost."""
        with self._lock:
            return len(self._held)

    @property
    def buffered(self) -> int:
        """Jobs that have not started."""
        return len(self._buffered)  # one read of one deque needs no lock

    @property
    def stuck(self) -> int:
        """Threads given up on that have not returned."""
        with self._lock:
            return len(self._stuck)

    @property
    def started(self) -> list[HeldJob]:
        """Jobs whose handler has not returned, stuck ones included."""
        with self._lock:
            return [*self._running, *self._stuck]

    @property
    def unfinished(self) -> int:
        """Jobs buffered or whose handler has not returned, stuck ones not counted."""
        with self._lock:
            return len(self._buffered) + len(self._running)

    def room(self) -> int:
        """How many more jobs may be leased now."""
        with self._lock:
            buffer = self._queue_buffer if self._prefetching else 0
            usable = (self._concurrency - len(self._stuck)) * (1 + buffer)
            unfinished = len(self._buffered) + len(self._running)
            return max(0, min(self._limit - len(self._held), usable - unfinished))

    # ---- the pump

    def suspect_since(self) -> float | None:
        """When the newest job that may kill the process began; now where one is about to, None where there is none."""
        with self._lock:
            if any(is_suspect(row.lease) for row in self._buffered):
                return time.monotonic()
            return max((row.begun for row in self._running if is_suspect(row.lease)), default=None)

    def holds(self, lease: Lease) -> bool:
        """Whether *lease* is in the table."""
        return lease.key in self._held  # one look into one dict needs no lock

    def take_in(self, leases: Iterable[Lease]) -> int:
        """Hold *leases*; answers how many threads to call in for them."""
        now = time.monotonic()
        with self._lock:
            for lease in leases:
                row = HeldJob(lease, now)
                if row.key in self._held:  # a repeated call answered with what is held already
                    continue
                self._held[row.key] = row
                if not self._starting:
                    self._conclude(row, released(lease))
                else:
                    self._buffered.append(row)
            coming = self._active_threads - len(self._running) - len(self._stuck)  # called in, and not begun yet
            called = max(0, min(len(self._buffered) - coming, self._concurrency - self._active_threads))
            self._active_threads += called
            return called

    def _conclude(self, row: HeldJob, outcome: Outcome) -> None:
        row.unsent = True
        self._outcomes.append(outcome)

    def unsent(self, limit: int) -> list[Outcome]:
        """Take up to *limit* outcomes to be recorded; `forget` or `keep` each of them afterwards."""
        taken: list[Outcome] = []
        with self._lock:
            while self._outcomes and len(taken) < limit:
                outcome = self._outcomes.popleft()
                row = self._held.get(outcome.lease.key)
                if row is not None:  # else it was lost meanwhile
                    row.offered = True
                    taken.append(outcome)
        return taken

    def keep(self, outcomes: Sequence[Outcome]) -> None:
        """The store did not take *outcomes*: they are offered again, in their order."""
        with self._lock:
            self._outcomes.extendleft(reversed(outcomes))

    def forget(self, leases: Iterable[Lease]) -> None:
        """The store recorded or refused the outcomes of *leases*: they are not held any more."""
        with self._lock:
            for lease in leases:
                self._held.pop(lease.key, None)

    def start_no_more(self) -> None:
        """Give back what has not started, also what will yet be taken in."""
        with self._lock:
            self._starting = False
            self._release_buffered()

    def _release_buffered(self) -> int:
        count = len(self._buffered)
        while self._buffered:
            row = self._buffered.popleft()
            self._conclude(row, released(row.lease))
        return count

    # ---- pool threads

    def begin(self) -> HeldJob | None:
        """The next job to run on this thread; None ends the shift."""
        with self._lock:
            return self._begin()

    def _begin(self) -> HeldJob | None:
        if not self._buffered:
            # Counted out under the same lock that finds nothing, so that no job is left without a thread.
            self._active_threads -= 1
            return None
        row = self._buffered.popleft()
        row.context = context = self._open_context(row.lease)
        row.thread = threading.get_ident()
        row.begun = time.monotonic()
        self._running.add(row)
        if context.ends < self._watched_until:
            self._watched_until = context.ends  # one ring is enough for all deadlines up to this one
            self._ring_deadlines()
        return row

    def finish(self, row: HeldJob, outcome: Outcome) -> HeldJob | None:
        """Take the outcome of *row*, dropped where the lease is lost or given up; answers as `begin`."""
        with self._lock:
            self._running.discard(row)
            self._stuck.discard(row)
            self._prefetching = True
            if not row.given_up and row.key in self._held:
                self._conclude(row, outcome)
            return self._begin()

    # ---- the heartbeat

    def renewable(self) -> list[Lease]:
        """All leases to be renewed: buffered, running and unsent ones; those given up not."""
        with self._lock:
            return [row.lease for row in self._held.values() if not row.given_up]

    def mark_lost(self, leases: Iterable[Lease]) -> int:
        """Other workers hold these jobs now: drop them, and tell their handlers. Answers how many were still held."""
        lost = []
        with self._lock:
            for lease in leases:
                row = self._held.get(lease.key)
                # One whose outcome was offered may be refused because the store has recorded it, though no answer came
                # (yet). If not, the next offer hears of the loss.
                if row is None or row.offered:
                    continue
                del self._held[row.key]
                lost.append(row)
                if row.context is None and not row.unsent:
                    self._buffered.remove(row)
        for row in lost:
            if row.context is not None:
                row.context.cancel("lease lost")
                self._ring_deadlines()  # the handler may have to be interrupted
        return len(lost)

    # ---- the deadlines

    def give_up(self, row: HeldJob, outcome: Outcome) -> bool:
        """Record *outcome* without waiting for the handler; False if it has returned meanwhile."""
        with self._lock:
            if row not in self._running:
                return False
            self._running.discard(row)
            self._stuck.add(row)
            row.given_up = True
            if row.key in self._held:
                self._conclude(row, outcome)
            self._stop_prefetching()
            return True

    def release_overdue(self, now: float, longest: float) -> int:
        """Give back what has not started when the oldest has waited for *longest* seconds: others may have room."""
        with self._lock:
            if not self._buffered or now - self._buffered[0].taken < longest:
                return 0
            return self._stop_prefetching()

    def _stop_prefetching(self) -> int:
        self._prefetching = False
        return self._release_buffered()

    def watch(self, until: float, grace: float) -> float:
        """The deadlines' thread sleeps until *until* or the next deadline or giving-up, which is returned."""
        with self._lock:
            # What it was rung for stays its next look, even if that job is done: else each of many short jobs rings.
            if time.monotonic() < self._watched_until:
                until = min(until, self._watched_until)
            for row in self._running:
                until = min(until, row.deadline, row.gives_up_at(grace))
            self._watched_until = until
            return until
