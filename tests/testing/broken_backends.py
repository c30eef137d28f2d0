"""Backends with one typical fault each. The suite must find every fault."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from zlib import crc32

from examples.own_backend import DictBackend
from scheduler.abilities import WakeReason
from scheduler.leases import MoveAnswer, Recovery
from scheduler.queues import Page
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory import MemoryBackend


class ChecksNoToken(DictBackend):
    def _settle_each(self, items, move):
        for lease in [getattr(item, "lease", item) for item in items]:
            row = self._rows.get((lease.job.queue, lease.job.id))
            if row is not None and row.job.state is JobState.LEASED:
                row.token = lease.token
        return super()._settle_each(items, move)


class CountsNoAttempts(DictBackend):
    def _move(self, row, state, now, **changes):
        if state is JobState.LEASED:
            changes["attempts"] = 1
        super()._move(row, state, now, **changes)


class IgnoresOrder(DictBackend):
    def _ready_jobs(self, queue):
        return list(reversed(super()._ready_jobs(queue)))


class IgnoresPriority(DictBackend):
    def _ready_jobs(self, queue):
        return sorted(super()._ready_jobs(queue), key=lambda row: row.ready_at)


class OverwritesARepeatedId(DictBackend):
    def _store(self, new, now):
        self._rows.pop((new.queue, new.id), None)
        return super()._store(new, now)


class CallsEveryRepeatADuplicate(DictBackend):
    def _store(self, new, now):
        return super()._store(replace(new), now)  # a copy has a nonce of its own


class SharesTheCallersMetadata(DictBackend):
    def _store(self, new, now):
        result = super()._store(new, now)
        row = self._rows[new.queue, new.id]
        row.job = replace(row.job, metadata=new.metadata)
        return result


class KeepsAReleasedAttempt(DictBackend):
    def release(self, leases):
        refused = super().release(leases)
        for lease in leases:
            if lease not in refused:
                row = self._rows[lease.job.queue, lease.job.id]
                row.job = replace(row.job, attempts=row.job.attempts + 1)
        return refused


class RecoversForEver(DictBackend):
    """Recovery ignores max_retries, so a poison job crashes worker after worker."""

    def recover_expired(self, queues, limit):
        recovery = super().recover_expired(queues, limit)
        for row in self._in(tuple(queues), JobState.DEAD):
            if row.job.crashes:
                row.job = replace(row.job, state=JobState.READY, finished_at=None)
        return Recovery(ready=recovery.ready + recovery.dead, dead=0, next_expiry=recovery.next_expiry)


class CountsNoCrash(DictBackend):
    def _move(self, row, state, now, **changes):
        changes.pop("crashes", None)
        super()._move(row, state, now, **changes)


class RecoversOnlyWhatItLikes(DictBackend):
    """A third of the expired leases are never recovered."""

    def recover_expired(self, queues, limit):
        hidden = [row for row in self._in(tuple(queues), JobState.LEASED) if crc32(row.job.id.encode()) % 3 == 0]
        for row in hidden:
            del self._rows[row.job.queue, row.job.id]
        recovery = super().recover_expired(queues, limit)
        for row in hidden:
            self._rows[row.job.queue, row.job.id] = row
        return recovery


class RecoversEarly(DictBackend):
    """Recovers leases an hour before they expire."""

    def recover_expired(self, queues, limit):
        for row in self._in(tuple(queues), JobState.LEASED):
            row.job = replace(row.job, lease_expires_at=row.job.lease_expires_at - timedelta(hours=1))
        return super().recover_expired(queues, limit)


class LeasesMoreOnARepeat(DictBackend):
    """Repeating a lease call leases more jobs, so a lost reply doubles what a worker holds."""

    def lease(self, queues, *, token, **options):
        for row in self._rows.values():
            if row.token == token:
                row.token = "0" * 32
        return super().lease(queues, token=token, **options)


class LeasesAboveTheLimit(DictBackend):
    def lease(self, queues, *, limit, **options):
        return super().lease(queues, limit=limit + 1 if limit > 1 else 1, **options)


class StarvesTheLaterQueues(DictBackend):
    def lease(self, queues, **options):
        for queue in queues:
            leases = super().lease([queue], **options)
            if leases:
                return leases
        return []


class IgnoresPause(DictBackend):
    def _ready_jobs(self, queue):
        return sorted(self._in((queue,), JobState.READY), key=lambda row: (row.job.priority, row.ready_at))


class IgnoresTheDelayOfARetry(DictBackend):
    def retry(self, failures):
        return super().retry([replace(failure, delay=0.0) for failure in failures])


class KeepsErrorsWithoutBound(DictBackend):
    def _record(self, row, detail, now):
        before = row.job.errors
        super()._record(row, detail, now)
        row.job = replace(row.job, errors=(*before, row.job.errors[-1]))


class RequeuesTheAttemptsToo(DictBackend):
    def requeue(self, queue, ids):
        before = {id: job.attempts for id, job in self.get(queue, ids).items()}
        results = super().requeue(queue, ids)
        for result in results:
            if result.moved:
                row = self._rows[queue, result.id]
                row.job = replace(row.job, attempts=before[result.id])
        return results


class CancelsUnderAWorker(DictBackend):
    def cancel(self, queue, ids):
        results = []
        for id in ids:
            row = self._rows.get((queue, id))
            if row is not None and row.job.state is JobState.LEASED:
                self._move(row, JobState.CANCELLED, self.clock.now())
                results.append(MoveAnswer(id=id, moved=True, state=JobState.CANCELLED))
            else:
                results.extend(super().cancel(queue, [id]))
        return results


class DecodesPayloads(DictBackend):
    def _store(self, new, now):
        return super()._store(_same_nonce(new, payload=new.payload.decode("utf-8", "replace").encode()), now)


class JoinsNames(DictBackend):
    """Joins queue and id, so that "a" and "b:c" are confused with "a:b" and "c"."""

    def __init__(self, **options):
        super().__init__(**options)
        self._rows = _Joined()


class _Joined(dict):
    def __setitem__(self, key, row):
        super().__setitem__(":".join(key), row)

    def __getitem__(self, key):
        return super().__getitem__(":".join(key))

    def __delitem__(self, key):
        super().__delitem__(":".join(key))

    def __contains__(self, key):
        return super().__contains__(":".join(key))

    def get(self, key, default=None):
        return super().get(":".join(key), default)


class FoldsCase(DictBackend):
    def get(self, queue, ids):
        known = {job_id.casefold(): job_id for name, job_id in self._rows if name == queue}
        return super().get(queue, [known.get(id.casefold(), id) for id in ids])


class LosesTheLastOfAPage(DictBackend):
    def list(self, queue, state, *, cursor=None, limit=100):
        page = super().list(queue, state, cursor=cursor, limit=limit)
        return Page(jobs=page.jobs[:-1] if page.cursor else page.jobs, cursor=page.cursor)


class ListsTwice(DictBackend):
    """Lists jobs in retry_wait as scheduled ones too."""

    def list(self, queue, state, *, cursor=None, limit=100):
        page = super().list(queue, state, cursor=cursor, limit=limit)
        more = super().list(queue, JobState.RETRY_WAIT).jobs if state is JobState.SCHEDULED else ()
        return Page(jobs=(*page.jobs, *more), cursor=page.cursor)


class CountsOnlyWhatItHas(DictBackend):
    def _numbers(self, queue, now):
        numbers = super()._numbers(queue, now)
        return replace(numbers, counts={state: count for state, count in numbers.counts.items() if count})


class PurgesLeased(DictBackend):
    def purge(self, queue, state, limit):
        if state is JobState.LEASED:
            return self._delete([*self._in((queue,), state)][:limit])
        return super().purge(queue, state, limit)


class TrimsAtOnce(DictBackend):
    def trim(self, queues, limit):
        return self._delete([*self._in(tuple(queues), *TERMINAL)][:limit])


class TakesAnyLimit(DictBackend):
    def promote_due(self, queues, limit):
        return super().promote_due(queues, limit if isinstance(limit, int) and 0 < limit < 10_001 else 100)


class StartsEarly(DictBackend):
    """Keeps times in whole seconds, rounded down."""

    def _store(self, new, now):
        result = super()._store(new, now)
        row = self._rows[new.queue, new.id]
        if row.job.due_at:
            row.job = replace(row.job, due_at=row.job.due_at.replace(microsecond=0))
        return replace(result, job=row.job)


class WorksWhenClosed(DictBackend):
    def close(self):
        pass


class HasNoTransactions(DictBackend):
    """Reads first and writes later, without a transaction."""

    def __init__(self, **options):
        super().__init__(**options)
        self._lock = nullcontext()

    def _ready_jobs(self, queue):
        line = super()._ready_jobs(queue)
        time.sleep(0.001)  # the gap in which other threads read as well
        return line

    def _in(self, queues, *states):
        return iter([*super()._in(queues, *states)])


class LosesWhatIsRetried(DictBackend):
    def retry(self, failures):
        refused = super().retry(failures)
        for failure in failures[1:]:
            self._rows.pop((failure.lease.job.queue, failure.lease.job.id), None)
        return refused


class NeverRings(MemoryBackend):
    def waiter(self, queues):
        return super().waiter(["another queue"])


class CallsAllNewsReady(MemoryBackend):
    """Never reports EARLIER_DUE_TIME, so a worker misses an earlier due time."""

    def waiter(self, queues):
        waiter = super().waiter(queues)
        wait = waiter.wait
        waiter.wait = lambda timeout: wait(timeout) & WakeReason.JOBS_READY
        return waiter


class StrandsJobs(MemoryBackend):
    """Completes a version although it holds jobs."""

    def complete_draining_version(self, queue, version, *, finished="refuse"):
        for state in JobState:
            if state is not JobState.LEASED:
                self.purge(queue, state, 10_000)
        return super().complete_draining_version(queue, version, finished=finished)


def _same_nonce(new, **changes):
    other = replace(new, **changes)
    object.__setattr__(other, "nonce", new.nonce)
    return other
