"""The contract of `scheduler.backend` on this process's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self, TypeVar, get_args

from scheduler.backend import Backend, Finished
from scheduler.clock import Clock, SystemClock
from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_count, check_duration, check_limit, check_name, check_queues, check_token
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import MOVES, JobState
from scheduler.topology import MAX_PARTITIONS, QueueTopology
from scheduler.urls import RETENTION_OPTIONS, Parser, retention_from, split_options
from scheduler_backends.memory.groups import Group, later
from scheduler_backends.memory.pages import page_of
from scheduler_backends.memory.rows import Row
from scheduler_backends.memory.store import Store, seconds_until
from scheduler_backends.memory.topology import complete_version, promote_version, topology_of
from scheduler_backends.memory.wakeups import MemoryWaiter

T = TypeVar("T")
_URL_OPTIONS: Mapping[str, Parser] = {"partitions": int, "active_version": int, **RETENTION_OPTIONS}
_RETENTION = Retention()
_CLOCK = SystemClock()


class MemoryBackend(Backend):
    """
    Jobs in this process's memory, gone with it: for tests, the first five minutes, and work inside one process.

    partitions, active_version: what a queue is made with when first used. The abilities Wakeups and TopologyAdmin are
    offered. A forked child has a copy of its own from the fork on.
    """

    in_process = True

    def __init__(
        self, *, partitions: int = 1, active_version: int = 1, retention: Retention = _RETENTION, clock: Clock = _CLOCK
    ) -> None:
        self.retention = retention
        self._store = Store(
            version=check_count("active_version", active_version, at_least=1),
            partitions=check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS),
            retention=retention,
            clock=clock,
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A new, empty store for every call: ``memory://?partitions=8&retain_succeeded=60``."""
        rest, options = split_options(url, _URL_OPTIONS)
        if rest.removesuffix("//") != "memory:":
            raise ConfigError("url", "must be memory://, with options but no host or path: the store has no name")
        retention = retention_from(options)
        numbers = {name: int(value) for name, value in options.items()}
        return cls(retention=retention, **numbers)  # type: ignore[arg-type]  # names and values were checked above

    @property
    def clock(self) -> Clock:
        """Decides what is due and what has expired. May be replaced at any time."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self._store.clock = clock

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """→ scheduled, or ready when due."""
        wanted = _all_of("jobs", jobs, NewJob)
        store = self._store
        with store.lock:
            now = store.now()
            answers = []
            for new in wanted:
                queue = store.queue(new.queue)
                row = queue.jobs.get(new.id)
                is_new = row is None or row.nonce == new.nonce
                answers.append(Enqueued(job=(row or queue.store(new, now)).snapshot(), is_new=is_new))
            store.tell()
        return answers

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Scheduled, retry_wait → ready, urgent ones first."""
        names, left = check_queues(queues), check_limit(limit)
        store = self._store
        with store.lock:
            now = store.now()
            known = store.known(names)
            moved = 0
            for queue in known:
                moved += queue.promote(now, left - moved)
            next_due = seconds_until((queue.next_due() for queue in known), now)
            store.tell()
        return Promotion(moved=moved, next_due=next_due)

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """Ready → leased; queues, and within them partitions, take turns. A repeat renews what it still holds."""
        names = check_queues(queues)
        check_token(token)
        check_name("worker_id", worker_id, ConfigError)
        seconds, limit = check_duration(duration), check_limit(limit)
        store = self._store
        with store.lock:
            now = store.now()
            known = store.known(names)
            leases = []
            for queue in known:
                group = queue.leases.held(token)
                if group is not None:
                    queue.leases.extend(group, seconds, now)
                    leases += _leases(group.rows.values(), group)
            serving = [queue for queue in known if queue.ready and not queue.paused]
            while serving and len(leases) < limit:
                share = max(1, (limit - len(leases)) // len(serving))
                for queue in serving:
                    group = queue.leases.held(token) or queue.leases.open(token, worker_id, seconds, now)
                    leases += _leases(queue.lease(group, min(share, limit - len(leases))), group)
                    if len(leases) >= limit:
                        break
                serving = [queue for queue in serving if queue.ready]
        return leases

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """Leased → leased: whole lease calls at once."""
        asked, seconds = _all_of("leases", leases, Lease), check_duration(duration)
        store = self._store
        with store.lock:
            now = store.now()
            refused = []
            renewed = set()
            for lease in asked:
                held = store.held(lease)
                if held is None:
                    refused.append(lease)
                elif held.group not in renewed:
                    renewed.add(held.group)
                    held.queue.leases.extend(held.group, seconds, now)
        return Renewal(refused=refused)

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """Leased → succeeded."""
        done = _all_of("completions", completions, Completion)
        for completion in done:
            if completion.result is not None and not isinstance(completion.result, bytes):
                raise ConfigError("result", f"must be bytes or None, not {type(completion.result).__name__}")
        store = self._store
        with store.lock:
            now = store.now()
            refused = []
            for completion in done:
                held = store.held(completion.lease)
                if held is None:
                    refused.append(completion.lease)
                    continue
                held.row.result = completion.result
                held.queue.finish(held.row, JobState.SUCCEEDED, now)
        return refused

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → retry_wait, or ready where there is no delay."""
        failed = _all_of("failures", failures, Failure)
        store = self._store
        with store.lock:
            now = store.now()
            refused = []
            for failure in failed:
                held = store.held(failure.lease)
                if held is None:
                    refused.append(failure.lease)
                    continue
                held.row.record(failure, now)
                held.queue.retry(held.row, later(now, failure.delay), now)
            store.tell()
        return refused

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → dead."""
        failed = _all_of("failures", failures, Failure)
        store = self._store
        with store.lock:
            now = store.now()
            refused = []
            for failure in failed:
                held = store.held(failure.lease)
                if held is None:
                    refused.append(failure.lease)
                    continue
                held.row.record(failure, now)
                held.queue.finish(held.row, JobState.DEAD, now)
        return refused

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Leased → ready, the attempt given back, first in line and among themselves in the order given."""
        given = _all_of("leases", leases, Lease)
        store = self._store
        with store.lock:
            store.now()
            refused = []
            for lease in reversed(given):
                held = store.held(lease)
                if held is None:
                    refused.append(lease)
                else:
                    held.queue.release(held.row)
            store.tell()
        return refused[::-1]

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """Leased → ready or dead, whole lease calls at once."""
        names, limit = check_queues(queues), check_limit(limit)
        store = self._store
        with store.lock:
            now = store.now()
            known = store.known(names)
            ready = dead = 0
            for queue in known:
                while ready + dead < limit and (rows := queue.leases.expired(now)):
                    for row in rows:
                        if queue.recover(row, now):
                            ready += 1
                        else:
                            dead += 1
            next_expiry = seconds_until((queue.leases.next_expiry() for queue in known), now)
            store.tell()
        return Recovery(ready=ready, dead=dead, next_expiry=next_expiry)

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Scheduled, ready, retry_wait → cancelled."""
        return self._move("cancel", queue, ids)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Dead → ready, attempts and crashes 0, errors kept."""
        return self._move("requeue", queue, ids)

    def _move(self, verb: Literal["cancel", "requeue"], queue: str, ids: Sequence[str]) -> list[MoveAnswer]:
        name, asked = check_name("queue", queue, ConfigError), _all_of("ids", ids, str)
        sources, (target,) = MOVES[verb]
        store = self._store
        with store.lock:
            now = store.now()
            known = store.queues.get(name)
            answers = []
            for job_id in asked:
                row = None if known is None else known.jobs.get(job_id)
                if known is None or row is None:
                    answers.append(MoveAnswer(id=job_id, moved=False, state=None))
                    continue
                moved = row.chain.state in sources
                if moved and target is JobState.READY:
                    known.requeue(row, now)
                elif moved:
                    known.finish(row, target, now)
                answers.append(MoveAnswer(id=job_id, moved=moved, state=target if moved else row.chain.state))
            store.tell()
        return answers

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """The stored jobs among *ids*, by id."""
        name, asked = check_name("queue", queue, ConfigError), _all_of("ids", ids, str)
        store = self._store
        with store.lock:
            store.now()
            known = store.queues.get(name)
            rows = {} if known is None else known.jobs
            return {job_id: rows[job_id].snapshot() for job_id in asked if job_id in rows}

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """A page of the queue's jobs in *state*, by version, partition and priority, then as they came into it."""
        name, wanted, limit = check_name("queue", queue, ConfigError), _state(state), check_limit(limit)
        store = self._store
        with store.lock:
            store.now()
            return page_of(store.queues.get(name), wanted, cursor, limit)

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """Per queue and version, sorted by both; all counts are exact."""
        names = None if queues is None else check_queues(queues)
        store = self._store
        with store.lock:
            now = store.now()
            asked = (store.seen(name) for name in sorted(store.queues if names is None else names))
            return [row for queue in asked for row in queue.stats(now)]

    def pause(self, queue: str) -> None:
        """Lease calls get nothing of *queue* from now on."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.now()
            self._store.queue(name).paused = True

    def resume(self, queue: str) -> None:
        """Ends a pause and wakes the waiters of *queue*."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.now()
            known = self._store.queues.get(name)
            if known is not None:
                known.paused = False
            self._store.stir(name)
            self._store.tell()

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """Delete up to *limit* jobs in *state*, which is not leased, and answer how many went."""
        name, wanted, limit = check_name("queue", queue, ConfigError), _state(state), check_limit(limit)
        if wanted is JobState.LEASED:
            raise ConfigError("state", "leased jobs belong to their holders; they cannot be purged")
        with self._store.lock:
            self._store.now()
            known = self._store.queues.get(name)
            return 0 if known is None else known.purge(wanted, limit)

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """Delete up to *limit* finished jobs that retention no longer keeps and answer how many went."""
        names, limit = check_queues(queues), check_limit(limit)
        store = self._store
        with store.lock:
            now = store.now()
            gone = 0
            for queue in store.known(names):
                gone += queue.trim(now, limit - gone)
        return gone

    def ping(self) -> None:
        """Memory always answers, unless it was closed."""
        with self._store.lock:
            self._store.now()

    def close(self) -> None:
        """Forget all jobs and end every wait."""
        with self._store.lock:
            self._store.close()

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """A waiter that hears of *queues* from now on."""
        names = check_queues(queues)
        with self._store.lock:
            self._store.now()
            return self._store.bells.waiter(names)

    def topology(self, queue: str) -> QueueTopology:
        """The versions of *queue* now, or those that it would be made with."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.now()
            return topology_of(self._store.seen(name))

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """Make *version* the active one and every older one draining; `TopologyError` where that is unlawful."""
        name = check_name("queue", queue, ConfigError)
        number = check_count("version", version, at_least=1)
        count = check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS)
        with self._store.lock:
            self._store.now()
            changed = self._store.seen(name)
            promote_version(changed, number, count)
            self._store.queues[name] = changed  # one that was never used is known only once that was lawful
            return topology_of(changed)

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """Remove a draining *version* that holds no job; `TopologyError` with `.counts` where one stands in the way."""
        name, number = check_name("queue", queue, ConfigError), check_count("version", version, at_least=1)
        if finished not in get_args(Finished):
            raise ConfigError("finished", f"must be one of {', '.join(get_args(Finished))}")
        with self._store.lock:
            self._store.now()
            changed = self._store.seen(name)
            complete_version(changed, number, finished)
            return topology_of(changed)


def _leases(rows: Iterable[Row], group: Group) -> list[Lease]:
    return [Lease(job=row.snapshot(), token=group.token, expires_at=group.expires_at) for row in rows]


def _all_of(field: str, items: Sequence[T], kind: type[T]) -> tuple[T, ...]:
    """A copy of *items*, each of which is a *kind*: nothing is touched before the last one was looked at."""
    if isinstance(items, str):
        raise ConfigError(field, "must be a sequence, not one string")
    kept = tuple(items)
    for item in kept:
        if not isinstance(item, kind):
            raise ConfigError(field, f"must hold {kind.__name__} only, not {type(item).__name__}")
    return kept


def _state(state: object) -> JobState:
    try:
        return JobState(state)  # type: ignore[arg-type]  # a wrong kind of value is a wrong state too
    except ValueError:
        raise ConfigError("state", f"must be one of {', '.join(JobState)}") from None
