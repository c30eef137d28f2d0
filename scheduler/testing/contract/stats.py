"""stats: the statistics of queues."""

from __future__ import annotations

import pytest

from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state


class StatsContract:
    def test_every_state_is_counted_zeros_included(self, harness: BackendHarness) -> None:
        for state in (JobState.LEASED, JobState.DEAD, JobState.DEAD, JobState.RETRY_WAIT, JobState.SCHEDULED):
            in_state(harness, state)
        row = harness.numbers()
        assert dict(row.counts) == {
            JobState.SCHEDULED: 1,
            JobState.READY: 0,
            JobState.LEASED: 1,
            JobState.RETRY_WAIT: 1,
            JobState.SUCCEEDED: 0,
            JobState.DEAD: 2,
            JobState.CANCELLED: 0,
        }
        assert (row.queue, row.paused, row.capped) == (harness.queue, False, frozenset())
        assert row.version >= 1
        assert row.partitions >= 1

    def test_an_unknown_queue_has_zero_counts(self, harness: BackendHarness) -> None:
        row = harness.numbers()
        assert set(row.counts) == set(JobState)
        assert not any(row.counts.values())
        assert row.oldest_ready_age is None

    def test_rows_are_sorted_and_named_once(self, harness: BackendHarness) -> None:
        names = [harness.queue, harness.new_queue(), harness.new_queue()]
        rows = harness.backend.stats([*names, names[0]])
        assert [row.queue for row in rows] == sorted(names)

    def test_without_names_every_known_queue_is_returned(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.add(delay=LONG)
        harness.add(queue=other)
        rows = harness.backend.stats()
        assert {harness.queue, other} <= {row.queue for row in rows}
        keys = [(row.queue, row.version) for row in rows]
        assert keys == sorted(keys)

    def test_the_age_of_the_oldest_ready_job(self, harness: BackendHarness) -> None:
        harness.add()
        harness.promote()
        harness.advance(harness.span)
        harness.add()
        age = harness.numbers().oldest_ready_age
        assert age is not None
        assert age >= harness.span - 0.01
        if harness.clock:
            assert age == pytest.approx(harness.span, abs=0.01)
        harness.lease()
        assert harness.numbers().oldest_ready_age is None

    def test_the_age_counts_from_becoming_ready_not_from_enqueue(self, harness: BackendHarness) -> None:
        harness.add(delay=2 * harness.span)
        assert harness.numbers().oldest_ready_age is None
        harness.advance(2 * harness.span)
        age = harness.numbers().oldest_ready_age
        assert age is not None
        assert age < 2 * harness.span
