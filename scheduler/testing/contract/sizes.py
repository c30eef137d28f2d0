"""No batch and no backlog makes a call fail by its size (guarantee 28)."""

from __future__ import annotations

from scheduler.identity import new_token
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import MAX_BATCH
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig

_JOBS = MAX_BATCH + 2_000


class SizesContract:
    def test_every_move_takes_more_than_the_largest_batch(self, rig: Rig) -> None:
        """Enqueued, settled and asked for in one call; promoted, leased and recovered with the largest limit."""
        ids = [job.id for job in rig.add_many(_JOBS, delay=rig.span)]
        rig.wait(rig.span)
        while rig.backend.promote_due([rig.queue], MAX_BATCH).next_due == 0.0:
            pass
        leases = _lease_all(rig)
        assert not rig.backend.renew(leases, 0.001).refused
        rig.wait(rig.span)
        recovered = 0
        while (recovery := rig.backend.recover_expired([rig.queue], MAX_BATCH)).next_expiry == 0.0:
            recovered += recovery.ready
        assert recovered + recovery.ready == _JOBS
        assert not rig.backend.release(_lease_all(rig))
        assert not rig.backend.retry([Failure(lease=lease) for lease in _lease_all(rig)])
        assert not rig.backend.bury([Failure(lease=lease) for lease in _lease_all(rig)])
        assert all(answer.moved for answer in rig.backend.requeue(rig.queue, ids))
        assert not rig.backend.complete([Completion(lease=lease) for lease in _lease_all(rig)])
        assert len(rig.backend.get(rig.queue, ids)) == _JOBS
        counted = rig.numbers()
        assert counted.counts[JobState.SUCCEEDED] == _JOBS or JobState.SUCCEEDED in counted.capped
        page = rig.backend.list(rig.queue, JobState.SUCCEEDED, limit=MAX_BATCH)
        listed = [job.id for job in page.jobs]
        while page.cursor is not None:
            page = rig.backend.list(rig.queue, JobState.SUCCEEDED, cursor=page.cursor, limit=MAX_BATCH)
            listed += [job.id for job in page.jobs]
        assert sorted(listed) == sorted(ids)
        gone = 0
        while more := rig.backend.purge(rig.queue, JobState.SUCCEEDED, MAX_BATCH):
            gone += more
        assert gone == _JOBS


def _lease_all(rig: Rig) -> list[Lease]:
    leases: list[Lease] = []
    rig.promote(rig.queue)
    while more := rig.backend.lease([rig.queue], token=new_token(), worker_id="w", duration=LONG, limit=MAX_BATCH):
        leases.extend(more)
    assert len(leases) == _JOBS
    return leases
