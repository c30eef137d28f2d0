"""The contract of `scheduler.backend` on this process's memory: arguments are checked here, and the lock is taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.errors import ConfigError
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_count, check_duration, check_kind, check_limit, check_name, check_queues, check_token
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.topology import MAX_PARTITIONS
from scheduler.urls import RETENTION_OPTIONS, Parser, retention_from, split_options
from scheduler_backends.memory import calls
from scheduler_backends.memory.arguments import all_of, state_of
from scheduler_backends.memory.reads import ReadMethods
from scheduler_backends.memory.store import SLICE, Store
from scheduler_backends.memory.topology import TopologyMethods
from scheduler_backends.memory.wakeups import MemoryWaiter

T = TypeVar("T")
A = TypeVar("A")
_URL_OPTIONS: Mapping[str, Parser] = {"partitions": int, "active_version": int, **RETENTION_OPTIONS}


class MemoryBackend(ReadMethods, TopologyMethods, Backend):
    """
    Jobs in this process's memory, gone with it: for tests, the first five minutes, and work inside one process.

    partitions, active_version: what a queue is made with when first used. retention: how long finished jobs are kept.
    clock: None = this machine's. Offers Wakeups and TopologyAdmin. Safe in any thread; inside another call of the same
    thread, as by a signal handler or finaliser, a call raises `BackendUnavailable`. A forked child has a copy of its
    own, and says so in the log when it uses it.
    """

    in_process = True

    def __init__(
        self,
        *,
        partitions: int = 1,
        active_version: int = 1,
        retention: Retention | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.retention = Retention() if retention is None else check_kind("retention", retention, Retention)
        self._store = Store(
            version=check_count("active_version", active_version, at_least=1),
            partitions=check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS),
            retention=self.retention,
            clock=None if clock is None else check_kind("clock", clock, Clock),
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A new, empty store each time: ``memory://?partitions=8&retain_succeeded=60``."""
        rest, options = split_options(url, _URL_OPTIONS)
        if rest.lower() not in ("memory", "memory://"):
            raise ConfigError("url", "must be memory:// without host or path, since the store has no name")
        retention = retention_from(options)
        numbers = {name: int(value) for name, value in options.items()}
        return cls(retention=retention, **numbers)  # type: ignore[arg-type]  # names and values were checked above

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def clock(self) -> Clock | None:
        """Decides what is due and what has expired; None = this machine's. May be replaced at any time."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = clock

    # Moves.

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """→ scheduled, or ready when due."""
        wanted = all_of("jobs", jobs, NewJob)
        self._store.warn_of_copy()
        return self._in_slices(wanted, calls.enqueue)

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Scheduled, retry_wait → ready, urgent ones first."""
        names, most = check_queues(queues), check_limit(limit)
        done = self._in_portions(most, partial(calls.promote, self._store, names), lambda part: part.moved)
        return Promotion(moved=sum(part.moved for part in done), next_due=done[-1].next_due)

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """
        Ready → leased; queues, and partitions within them, take turns. A repeat renews what it still holds.

        At most 1,000 jobs a call.
        """
        names = check_queues(queues)
        check_token(token)
        check_name("worker_id", worker_id, ConfigError)
        seconds, most = check_duration(duration), min(check_limit(limit), SLICE)
        self._store.warn_of_copy()
        with self._store.lock:
            now = self._store.begin()
            leases = calls.lease(
                self._store, names, token=token, worker_id=worker_id, duration=seconds, limit=most, now=now
            )
            self._store.end()
        return leases

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """Leased → leased, for all that are named."""
        asked, seconds = all_of("leases", leases, Lease), check_duration(duration)
        return Renewal(refused=self._in_slices(asked, partial(calls.renew, duration=seconds)))

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """Leased → succeeded."""
        done = all_of("completions", completions, Completion)
        all_of("result", [each.result for each in done if each.result is not None], bytes)
        return self._in_slices(done, calls.complete)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → retry_wait, or ready where there is no delay."""
        return self._in_slices(all_of("failures", failures, Failure), calls.retry)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → dead."""
        return self._in_slices(all_of("failures", failures, Failure), calls.bury)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Leased → ready, the attempt given back, first in line and among themselves in the order given."""
        last_first = all_of("leases", leases, Lease)[::-1]
        return self._in_slices(last_first, calls.release)[::-1]

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """Leased → ready or dead, whole lease calls at once."""
        names, most = check_queues(queues), check_limit(limit)
        done = self._in_portions(most, partial(calls.recover, self._store, names), lambda part: part.ready + part.dead)
        ready, dead = sum(part.ready for part in done), sum(part.dead for part in done)
        return Recovery(ready=ready, dead=dead, next_expiry=done[-1].next_expiry)

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Scheduled, ready, retry_wait → cancelled."""
        name, asked = check_name("queue", queue, ConfigError), all_of("ids", ids, str)
        return self._in_slices(asked, partial(calls.cancel, name=name))

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Dead → ready, attempts and crashes 0, errors kept."""
        name, asked = check_name("queue", queue, ConfigError), all_of("ids", ids, str)
        return self._in_slices(asked, partial(calls.requeue, name=name))

    def _in_slices(self, items: Sequence[T], call: Callable[[Store, Sequence[T], datetime], list[A]]) -> list[A]:
        """One call for some of *items* at a time: a huge batch must not keep a heartbeat from renewing meanwhile."""
        answers: list[A] = []
        for start in range(0, max(1, len(items)), SLICE):
            if start:
                time.sleep(0)  # whoever waits for the lock gets it; else this thread would have it again at once
            with self._store.lock:
                answers += call(self._store, items[start : start + SLICE], self._store.begin())
                self._store.end()
        return answers

    def _in_portions(self, limit: int, call: Callable[[int, datetime], A], number: Callable[[A], int]) -> list[A]:
        """As `_in_slices`, for up to *limit* jobs that the call looks for itself. number: how many it found."""
        answers: list[A] = []
        left, found, some = limit, 0, 0
        while not answers or (found >= some and left > 0):
            if answers:
                time.sleep(0)
            some = min(left, SLICE)
            with self._store.lock:
                answers.append(call(some, self._store.begin()))
                self._store.end()
            found = number(answers[-1])
            left -= found
        return answers

    # Care.

    def pause(self, queue: str) -> None:
        """Lease calls get nothing of *queue* from now on."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.look()
            self._store.queue(name).paused = True

    def resume(self, queue: str) -> None:
        """Ends a pause and wakes the waiters of *queue*."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.begin()
            self._store.seen(name).paused = False
            self._store.stir(name)
            self._store.end()

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """Delete up to *limit* jobs in *state*, which is not leased, and answer how many went."""
        name, wanted, most = check_name("queue", queue, ConfigError), state_of(state), check_limit(limit)
        if wanted is JobState.LEASED:
            raise ConfigError("state", "leased jobs belong to their holders; they cannot be purged")
        return sum(self._in_portions(most, lambda some, _: self._store.seen(name).purge(wanted, some), int))

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """Delete up to *limit* finished jobs that retention no longer keeps and answer how many went."""
        names, most = check_queues(queues), check_limit(limit)
        return sum(self._in_portions(most, partial(calls.trim, self._store, names), int))

    # Life.

    def ping(self) -> None:
        """Memory always answers, unless it was closed."""
        with self._store.lock:
            self._store.look()

    def close(self) -> None:
        """Forget all jobs and end every wait."""
        with self._store.lock:
            self._store.close()

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """A waiter that hears of *queues* from now on."""
        names = check_queues(queues)
        with self._store.lock:
            self._store.look()
            return self._store.waiters.waiter(names)
