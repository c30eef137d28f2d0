"""enqueue: → scheduled, or ready when due."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from scheduler.jobs import Job, Priority
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state


class EnqueueContract:
    def test_a_job_is_stored_as_it_was_asked_for(self, rig: Rig) -> None:
        new = rig.new(
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
        (enqueued,) = rig.enqueue(new)
        job = rig.job(new.id)
        assert enqueued.is_new
        assert enqueued.job == job
        for name in ("id", "queue", "type", "payload", "priority", "max_retries", "timeout", "retry_policy"):
            assert getattr(job, name) == getattr(new, name), name
        assert job.idempotency_key == "order 7"
        assert dict(job.metadata) == {"trace": "ä/日本", "empty": ""}
        assert isinstance(job.priority, Priority)
        assert (job.attempts, job.crashes, job.errors, job.last_error) == (0, 0, (), None)

    def test_a_job_for_now_can_be_leased_at_once(self, rig: Rig) -> None:
        job = rig.add()
        assert [lease.job.id for lease in rig.lease()] == [job.id]

    def test_a_job_for_later_is_scheduled_and_not_leased(self, rig: Rig) -> None:
        job = rig.add(delay=LONG)
        assert job.state is JobState.SCHEDULED
        assert rig.lease() == []
        assert rig.state(job.id) is JobState.SCHEDULED

    def test_defaults_survive_the_store(self, rig: Rig) -> None:
        job = rig.add()
        assert (job.payload, job.priority, job.retry_policy, job.idempotency_key) == (b"", Priority.NORMAL, None, None)
        assert dict(job.metadata) == {}
        assert rig.add(max_retries=0).max_retries == 0

    def test_one_answer_per_job_in_order(self, rig: Rig) -> None:
        news = [rig.new(delay=float(number % 3) * LONG) for number in range(30)]
        assert [answer.job.id for answer in rig.enqueue(*news)] == [new.id for new in news]

    def test_an_empty_batch_is_answered_with_nothing(self, rig: Rig) -> None:
        assert list(rig.backend.enqueue([])) == []

    def test_one_batch_may_name_many_queues(self, rig: Rig) -> None:
        queues = [rig.queue, rig.new_queue(), rig.new_queue()]
        rig.enqueue(*(rig.new(queue=queue) for queue in queues for _ in range(2)))
        assert [rig.counts(queue)[JobState.READY] for queue in queues if not rig.promote(queue).moved] == [2, 2, 2]

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_kept_id_changes_nothing_in_any_state(self, rig: Rig, state: JobState) -> None:
        """Guarantee 9: neither the job nor anything else changes, and the stored one is the answer."""
        before, _ = in_state(rig, state, payload=b"first", metadata={"a": "1"})
        other = rig.new(id=before.id, payload=b"second", type="other", priority=Priority.URGENT, max_retries=0)
        (answer,) = rig.enqueue(other)
        assert not answer.is_new
        assert answer.job == before
        assert rig.job(before.id) == before
        assert sum(rig.counts().values()) == 1

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_repeat_of_the_same_object_counts_as_new_and_stores_nothing(self, rig: Rig, state: JobState) -> None:
        """A lost answer: the nonce tells the repeat from another job, and it is answered with the job as it is now."""
        new = rig.new(delay=LONG) if state in (JobState.SCHEDULED, JobState.CANCELLED) else rig.new()
        before, _ = in_state(rig, state, new)
        (answer,) = rig.enqueue(new)
        assert answer.is_new
        assert answer.job == before == rig.job(new.id)
        assert sum(rig.counts().values()) == 1

    def test_the_same_id_twice_in_one_call_counts_as_two_calls(self, rig: Rig) -> None:
        first = rig.new(id="same", payload=b"first")
        answers = rig.enqueue(first, rig.new(id="same", payload=b"second"), first)
        assert [answer.is_new for answer in answers] == [True, False, True]
        assert [answer.job.payload for answer in answers] == [b"first"] * 3
        assert len(rig.lease()) == 1

    def test_an_id_is_unique_within_its_queue_only(self, rig: Rig) -> None:
        other = rig.new_queue()
        rig.enqueue(rig.new(id="same", payload=b"here"), rig.new(id="same", payload=b"there", queue=other))
        assert rig.job("same").payload == b"here"
        assert rig.job("same", queue=other).payload == b"there"

    def test_an_idempotency_key_is_stored_once(self, rig: Rig) -> None:
        first = rig.add(idempotency_key="order 7", payload=b"first")
        (answer,) = rig.enqueue(rig.new(idempotency_key="order 7", payload=b"second"))
        assert not answer.is_new
        assert answer.job == rig.job(first.id)
        assert answer.job.payload == b"first"

    def test_the_caller_cannot_change_a_stored_job(self, rig: Rig) -> None:
        metadata = {"kind": "stored"}
        new = rig.new(metadata=metadata)
        (answer,) = rig.enqueue(new)
        for mapping in (metadata, new.metadata, answer.job.metadata, rig.job(new.id).metadata):
            _try_to_change(mapping)
        assert dict(rig.job(new.id).metadata) == {"kind": "stored"}

    def test_run_at_is_the_store_s_now_where_none_was_asked_for(self, rig: Rig) -> None:
        job, later = rig.add(), rig.add(delay=LONG)
        assert abs(job.run_at - job.created_at) <= timedelta(milliseconds=1)
        assert abs(later.run_at - later.created_at - timedelta(seconds=LONG)) <= timedelta(milliseconds=1)
        if rig.clock:
            assert abs(job.created_at - rig.clock.now()) <= timedelta(milliseconds=1)

    def test_a_large_batch_is_stored_whole(self, rig: Rig) -> None:
        jobs: list[Job] = [*rig.add_many(2_500)]
        assert len({job.id for job in jobs}) == 2_500
        rig.promote()
        assert rig.counts()[JobState.READY] == 2_500


def _try_to_change(mapping: object) -> None:
    with suppress(TypeError):  # a mapping that takes no change is right as well
        mapping["kind"] = "changed"  # type: ignore[index]  # whether it takes one is the question
