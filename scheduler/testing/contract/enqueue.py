"""enqueue: → scheduled, or ready when due."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from scheduler.jobs import Job, Priority
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state


class EnqueueContract:
    def test_a_job_is_stored_as_it_was_asked_for(self, harness: BackendHarness) -> None:
        new = harness.new(
            type="email.send",
            payload=b"\x00\xffhello",
            delay=LONG,
            priority=Priority.HIGH,
            max_retries=7,
            timeout=12.5,
            retry_policy=RetryPolicy(curve="polynomial", initial=2.0, factor=3.0, cap=50.0, jitter=0.5, max_retries=9),
            idempotency_key="order 7",
            metadata={"trace": "ä/日本", "empty": ""},
        )
        (enqueued,) = harness.enqueue(new)
        job = harness.job(new.id)
        assert enqueued.is_new
        assert enqueued.job == job
        for name in ("id", "queue", "type", "payload", "priority", "max_retries", "timeout", "retry_policy"):
            assert getattr(job, name) == getattr(new, name), name
        assert job.idempotency_key == "order 7"
        assert dict(job.metadata) == {"trace": "ä/日本", "empty": ""}
        assert isinstance(job.priority, Priority)
        assert (job.attempts, job.crashes, job.errors, job.last_error) == (0, 0, (), None)

    def test_a_job_for_now_can_be_leased_at_once(self, harness: BackendHarness) -> None:
        job = harness.add()
        assert [lease.job.id for lease in harness.lease()] == [job.id]

    def test_a_job_for_later_is_scheduled_and_not_leased(self, harness: BackendHarness) -> None:
        job = harness.add(delay=LONG)
        assert job.state is JobState.SCHEDULED
        assert harness.lease() == []
        assert harness.state(job.id) is JobState.SCHEDULED

    def test_defaults_survive_the_store(self, harness: BackendHarness) -> None:
        job = harness.add()
        assert (job.payload, job.priority, job.retry_policy, job.idempotency_key) == (b"", Priority.NORMAL, None, None)
        assert dict(job.metadata) == {}
        assert harness.add(max_retries=0).max_retries == 0

    def test_enqueue_returns_one_result_per_job_in_order(self, harness: BackendHarness) -> None:
        jobs = [harness.new(delay=float(number % 3) * LONG) for number in range(30)]
        assert [result.job.id for result in harness.enqueue(*jobs)] == [new.id for new in jobs]

    def test_enqueueing_nothing_returns_an_empty_result(self, harness: BackendHarness) -> None:
        assert list(harness.backend.enqueue([])) == []

    def test_one_batch_may_name_many_queues(self, harness: BackendHarness) -> None:
        queues = [harness.queue, harness.new_queue(), harness.new_queue()]
        harness.enqueue(*(harness.new(queue=queue) for queue in queues for _ in range(2)))
        assert [harness.counts(queue)[JobState.READY] for queue in queues if not harness.promote(queue).moved] == [
            2,
            2,
            2,
        ]

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_duplicate_id_changes_nothing_in_any_state(self, harness: BackendHarness, state: JobState) -> None:
        """Guarantee 9: nothing changes, and the result is the stored job."""
        before, _ = in_state(harness, state, payload=b"first", metadata={"a": "1"})
        other = harness.new(id=before.id, payload=b"second", type="other", priority=Priority.URGENT, max_retries=0)
        (result,) = harness.enqueue(other)
        assert not result.is_new
        assert result.job == before
        assert harness.job(before.id) == before
        assert sum(harness.counts().values()) == 1

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_repeat_of_the_same_object_counts_as_new_and_stores_nothing(
        self, harness: BackendHarness, state: JobState
    ) -> None:
        """After a lost reply, the nonce distinguishes the repeat from another job. The result is the current job."""
        new = harness.new(delay=LONG) if state in (JobState.SCHEDULED, JobState.CANCELLED) else harness.new()
        before, _ = in_state(harness, state, new)
        (result,) = harness.enqueue(new)
        assert result.is_new
        assert result.job == before == harness.job(new.id)
        assert sum(harness.counts().values()) == 1

    def test_the_same_id_twice_in_one_call_counts_as_two_calls(self, harness: BackendHarness) -> None:
        first = harness.new(id="same", payload=b"first")
        results = harness.enqueue(first, harness.new(id="same", payload=b"second"), first)
        assert [result.is_new for result in results] == [True, False, True]
        assert [result.job.payload for result in results] == [b"first"] * 3
        assert len(harness.lease()) == 1

    def test_an_id_is_unique_within_its_queue_only(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.enqueue(harness.new(id="same", payload=b"here"), harness.new(id="same", payload=b"there", queue=other))
        assert harness.job("same").payload == b"here"
        assert harness.job("same", queue=other).payload == b"there"

    def test_an_idempotency_key_is_stored_once(self, harness: BackendHarness) -> None:
        first = harness.add(idempotency_key="order 7", payload=b"first")
        (result,) = harness.enqueue(harness.new(idempotency_key="order 7", payload=b"second"))
        assert not result.is_new
        assert result.job == harness.job(first.id)
        assert result.job.payload == b"first"

    def test_the_caller_cannot_change_a_stored_job(self, harness: BackendHarness) -> None:
        metadata = {"kind": "stored"}
        new = harness.new(metadata=metadata)
        (result,) = harness.enqueue(new)
        for mapping in (metadata, new.metadata, result.job.metadata, harness.job(new.id).metadata):
            _try_to_change(mapping)
        assert dict(harness.job(new.id).metadata) == {"kind": "stored"}

    @pytest.mark.parametrize("metadata", [{}, {"kind": "stored"}], ids=["without", "with"])
    def test_the_metadata_of_a_job_has_one_type(self, harness: BackendHarness, metadata: dict[str, str]) -> None:
        """That of a `NewJob` is read-only. A `Job` has the same kind of mapping, whichever call returned it."""
        new = harness.new(metadata=metadata)
        (first,), (again,) = harness.enqueue(new), harness.enqueue(new)
        kinds = {type(job.metadata) for job in (first.job, again.job, harness.job(new.id), harness.lease_one().job)}
        assert len(kinds) == 1
        assert type(new.metadata) not in kinds

    def test_run_at_is_the_store_s_now_where_none_was_asked_for(self, harness: BackendHarness) -> None:
        job, later = harness.add(), harness.add(delay=LONG)
        assert abs(job.run_at - job.created_at) <= timedelta(milliseconds=1)
        assert abs(later.run_at - later.created_at - timedelta(seconds=LONG)) <= timedelta(milliseconds=1)
        if harness.clock:
            assert abs(job.created_at - harness.clock.now()) <= timedelta(milliseconds=1)

    def test_a_large_batch_is_stored_whole(self, harness: BackendHarness) -> None:
        jobs: list[Job] = [*harness.add_many(2_500)]
        assert len({job.id for job in jobs}) == 2_500
        harness.promote()
        assert harness.counts()[JobState.READY] == 2_500


def _try_to_change(mapping: object) -> None:
    with suppress(TypeError):  # an immutable mapping is correct as well
        mapping["kind"] = "changed"  # type: ignore[index]  # tests whether it is mutable
