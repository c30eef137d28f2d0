"""stats: the queues in numbers."""

from __future__ import annotations

import pytest

from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state


class StatsContract:
    def test_every_state_is_counted_zeros_included(self, rig: Rig) -> None:
        for state in (JobState.LEASED, JobState.DEAD, JobState.DEAD, JobState.RETRY_WAIT, JobState.SCHEDULED):
            in_state(rig, state)
        row = rig.numbers()
        assert dict(row.counts) == {
            JobState.SCHEDULED: 1,
            JobState.READY: 0,
            JobState.LEASED: 1,
            JobState.RETRY_WAIT: 1,
            JobState.SUCCEEDED: 0,
            JobState.DEAD: 2,
            JobState.CANCELLED: 0,
        }
        assert (row.queue, row.paused, row.capped) == (rig.queue, False, frozenset())
        assert row.version >= 1
        assert row.partitions >= 1

    def test_a_named_queue_that_was_never_seen_answers_zeros(self, rig: Rig) -> None:
        row = rig.numbers()
        assert set(row.counts) == set(JobState)
        assert not any(row.counts.values())
        assert row.oldest_ready_age is None

    def test_rows_are_sorted_and_named_once(self, rig: Rig) -> None:
        names = [rig.queue, rig.new_queue(), rig.new_queue()]
        rows = rig.backend.stats([*names, names[0]])
        assert [row.queue for row in rows] == sorted(names)

    def test_without_names_every_known_queue_answers(self, rig: Rig) -> None:
        other = rig.new_queue()
        rig.add(delay=LONG)
        rig.add(queue=other)
        rows = rig.backend.stats()
        assert {rig.queue, other} <= {row.queue for row in rows}
        keys = [(row.queue, row.version) for row in rows]
        assert keys == sorted(keys)

    def test_the_age_of_the_oldest_ready_job(self, rig: Rig) -> None:
        rig.add()
        rig.promote()
        rig.advance(rig.span)
        rig.add()
        age = rig.numbers().oldest_ready_age
        assert age is not None
        assert age >= rig.span - 0.01
        if rig.clock:
            assert age == pytest.approx(rig.span, abs=0.01)
        rig.lease()
        assert rig.numbers().oldest_ready_age is None

    def test_the_age_counts_from_becoming_ready_not_from_enqueue(self, rig: Rig) -> None:
        rig.add(delay=2 * rig.span)
        assert rig.numbers().oldest_ready_age is None
        rig.advance(2 * rig.span)
        age = rig.numbers().oldest_ready_age
        assert age is not None
        assert age < 2 * rig.span
