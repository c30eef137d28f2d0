"""The order of leasing within one partition of a queue: by priority, then by the time of becoming ready."""

from __future__ import annotations

import random

import pytest

from scheduler.abilities import TopologyAdmin
from scheduler.jobs import Priority
from scheduler.leases import Failure
from scheduler.testing.harness import BackendHarness


def _use_one_partition(harness: BackendHarness) -> None:
    """Change the harness's queue to one partition, or skip the test."""
    (row,) = harness.backend.stats([harness.queue])
    if row.partitions == 1:
        return
    if not isinstance(harness.backend, TopologyAdmin):
        pytest.skip(f"order holds within a partition, and the queue has {row.partitions} that cannot be changed")
    harness.backend.promote_queue_version(harness.queue, row.version + 1, 1)
    harness.backend.complete_draining_version(harness.queue, row.version)


def _pass_time(harness: BackendHarness) -> None:
    """Advance the time, so that the next job becomes ready at a different time."""
    harness.advance(0.01)


class OrderContract:
    @pytest.fixture
    def line(self, harness: BackendHarness) -> BackendHarness:
        """Return a harness whose queue has one partition."""
        _use_one_partition(harness)
        return harness

    def test_the_more_urgent_job_is_leased_first(self, line: BackendHarness) -> None:
        priorities = [*Priority, *Priority, *Priority]
        random.shuffle(priorities)
        for priority in priorities:
            line.add(priority=priority)
            _pass_time(line)
        leased = [line.lease_one().job.priority for _ in priorities]
        assert leased == sorted(priorities)

    def test_of_one_priority_the_longest_ready_is_first(self, line: BackendHarness) -> None:
        jobs = []
        for _ in range(6):
            jobs.append(line.add().id)
            _pass_time(line)
        assert [line.lease_one().job.id for _ in jobs] == jobs

    def test_the_leases_of_one_call_are_in_order(self, line: BackendHarness) -> None:
        jobs = []
        for priority in (Priority.LOW, Priority.URGENT, Priority.NORMAL, Priority.URGENT):
            jobs.append(line.add(priority=priority))
            _pass_time(line)
        low, first, normal, second = jobs
        assert [lease.job.id for lease in line.lease_once(10)] == [first.id, second.id, normal.id, low.id]

    def test_a_delayed_job_queues_up_when_it_becomes_due(self, line: BackendHarness) -> None:
        """The order depends on the time of becoming ready, not on the time of the enqueue."""
        delayed = line.add(delay=line.span)
        _pass_time(line)
        first = line.add()
        line.advance(line.span)
        _pass_time(line)
        last = line.add()
        assert [line.lease_one().job.id for _ in range(3)] == [first.id, delayed.id, last.id]

    def test_a_more_urgent_job_that_is_not_due_does_not_delay_others(self, line: BackendHarness) -> None:
        line.add(priority=Priority.URGENT, delay=line.span)
        low = line.add(priority=Priority.LOW)
        assert line.lease_one().job.id == low.id

    def test_a_recovered_job_goes_to_the_back(self, line: BackendHarness) -> None:
        """So a job that crashes its workers does not delay the others."""
        crashed = line.leased(line.span)
        other = line.add()
        line.advance(1.1 * line.span)
        line.recover()
        assert [line.lease_one().job.id for _ in range(2)] == [other.id, crashed.job.id]

    def test_a_requeued_job_goes_to_the_back(self, line: BackendHarness) -> None:
        buried = line.leased()
        line.backend.bury([Failure(lease=buried)])
        other = line.add()
        _pass_time(line)
        line.backend.requeue(line.queue, [buried.job.id])
        assert [line.lease_one().job.id for _ in range(2)] == [other.id, buried.job.id]

    def test_a_retried_job_goes_to_the_back(self, line: BackendHarness) -> None:
        failed = line.leased()
        other = line.add()
        _pass_time(line)
        line.backend.retry([Failure(lease=failed, delay=line.span)])
        line.advance(line.span)
        assert [line.lease_one().job.id for _ in range(2)] == [other.id, failed.job.id]

    def test_a_released_job_is_not_overtaken_by_a_later_one(self, line: BackendHarness) -> None:
        first = line.leased()
        _pass_time(line)
        line.backend.release([first])
        _pass_time(line)
        later = line.add()
        assert [line.lease_one().job.id for _ in range(2)] == [first.job.id, later.id]
