"""pause and resume."""

from __future__ import annotations

from scheduler.leases import Completion, Failure
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE, in_state


class PauseContract:
    def test_a_paused_queue_gives_no_lease_and_a_resumed_one_does(self, harness: BackendHarness) -> None:
        job = harness.add()
        harness.backend.pause(harness.queue)
        assert harness.numbers().paused
        assert harness.lease() == []
        harness.backend.resume(harness.queue)
        assert not harness.numbers().paused
        assert [lease.job.id for lease in harness.lease()] == [job.id]

    def test_other_queues_go_on(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.add()
        harness.add(queue=other)
        harness.backend.pause(harness.queue)
        assert [lease.job.queue for lease in harness.lease(queues=[harness.queue, other])] == [other]

    def test_a_queue_can_be_paused_before_its_first_job(self, harness: BackendHarness) -> None:
        harness.backend.pause(harness.queue)
        harness.add()
        assert harness.lease() == []
        assert harness.numbers().paused

    def test_enqueue_promote_and_settle_go_on(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        done, failed, released = harness.lease()
        harness.backend.pause(harness.queue)
        assert not harness.backend.complete([Completion(lease=done)])
        assert not harness.backend.retry([Failure(lease=failed, delay=harness.span, error=ONCE)])
        assert not harness.backend.release([released])
        later = harness.add(delay=harness.span)
        harness.advance(harness.span)
        assert harness.state(later.id) is JobState.READY
        assert harness.counts()[JobState.READY] == 3
        assert harness.lease() == []

    def test_renewal_and_recovery_go_on(self, harness: BackendHarness) -> None:
        lease = harness.leased(LONG)
        harness.backend.pause(harness.queue)
        assert not harness.backend.renew([lease], harness.span).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)

    def test_cancel_and_requeue_go_on(self, harness: BackendHarness) -> None:
        dead, _ = in_state(harness, JobState.DEAD)
        job = harness.add(delay=LONG)
        harness.backend.pause(harness.queue)
        assert harness.backend.cancel(harness.queue, [job.id])[0].moved
        assert harness.backend.requeue(harness.queue, [dead.id])[0].moved
        assert harness.lease() == []

    def test_repeating_a_lease_call_on_a_paused_queue_leases_nothing_new(self, harness: BackendHarness) -> None:
        """The call may also return nothing, but it must not lease another job."""
        lease = harness.leased()
        harness.add()
        harness.backend.pause(harness.queue)
        assert set(harness.lease_once(token=lease.token)) <= {lease}
        assert harness.counts()[JobState.LEASED] == 1

    def test_pausing_and_resuming_twice_has_the_effect_of_once(self, harness: BackendHarness) -> None:
        harness.backend.pause(harness.queue)
        harness.backend.pause(harness.queue)
        harness.backend.resume(harness.queue)
        harness.backend.resume(harness.queue)
        harness.add()
        assert len(harness.lease()) == 1

    def test_resuming_what_is_not_paused_is_harmless(self, harness: BackendHarness) -> None:
        harness.backend.resume(harness.new_queue())
        assert not harness.numbers().paused
