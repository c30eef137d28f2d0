"""No call fails because of the size of a batch or a backlog (guarantee 28)."""

from __future__ import annotations

from scheduler.identity import new_token
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import MAX_BATCH
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness

_JOBS = MAX_BATCH + 2_000


class SizesContract:
    def test_every_move_takes_more_than_the_largest_batch(self, harness: BackendHarness) -> None:
        """Enqueue, settle and get them in one call; promote, lease and recover them with the largest limit."""
        ids = [job.id for job in harness.add_many(_JOBS, delay=harness.span)]
        harness.wait(harness.span)
        while harness.backend.promote_due([harness.queue], MAX_BATCH).next_due == 0.0:
            pass
        leases = _lease_all(harness)
        assert not harness.backend.renew(leases, 0.001).refused
        harness.wait(harness.span)
        recovered = 0
        while (recovery := harness.backend.recover_expired([harness.queue], MAX_BATCH)).next_expiry == 0.0:
            recovered += recovery.ready
        assert recovered + recovery.ready == _JOBS
        assert not harness.backend.release(_lease_all(harness))
        assert not harness.backend.retry([Failure(lease=lease) for lease in _lease_all(harness)])
        assert not harness.backend.bury([Failure(lease=lease) for lease in _lease_all(harness)])
        assert all(result.moved for result in harness.backend.requeue(harness.queue, ids))
        assert not harness.backend.complete([Completion(lease=lease) for lease in _lease_all(harness)])
        assert len(harness.backend.get(harness.queue, ids)) == _JOBS
        counted = harness.numbers()
        assert counted.counts[JobState.SUCCEEDED] == _JOBS or JobState.SUCCEEDED in counted.capped
        page = harness.backend.list(harness.queue, JobState.SUCCEEDED, limit=MAX_BATCH)
        listed = [job.id for job in page.jobs]
        while page.cursor is not None:
            page = harness.backend.list(harness.queue, JobState.SUCCEEDED, cursor=page.cursor, limit=MAX_BATCH)
            listed += [job.id for job in page.jobs]
        assert sorted(listed) == sorted(ids)
        gone = 0
        while more := harness.backend.purge(harness.queue, JobState.SUCCEEDED, MAX_BATCH):
            gone += more
        assert gone == _JOBS


def _lease_all(harness: BackendHarness) -> list[Lease]:
    leases: list[Lease] = []
    harness.promote(harness.queue)
    while more := harness.backend.lease(
        [harness.queue], token=new_token(), worker_id="w", duration=LONG, limit=MAX_BATCH
    ):
        leases.extend(more)
    assert len(leases) == _JOBS
    return leases
