"""pause and resume."""

from __future__ import annotations

from scheduler.leases import Completion, Failure
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE, in_state


class PauseContract:
    def test_a_paused_queue_gives_no_lease_and_a_resumed_one_does(self, rig: Rig) -> None:
        job = rig.add()
        rig.backend.pause(rig.queue)
        assert rig.numbers().paused
        assert rig.lease() == []
        rig.backend.resume(rig.queue)
        assert not rig.numbers().paused
        assert [lease.job.id for lease in rig.lease()] == [job.id]

    def test_other_queues_go_on(self, rig: Rig) -> None:
        other = rig.new_queue()
        rig.add()
        rig.add(queue=other)
        rig.backend.pause(rig.queue)
        assert [lease.job.queue for lease in rig.lease(queues=[rig.queue, other])] == [other]

    def test_a_queue_can_be_paused_before_its_first_job(self, rig: Rig) -> None:
        rig.backend.pause(rig.queue)
        rig.add()
        assert rig.lease() == []
        assert rig.numbers().paused

    def test_enqueue_promote_and_settle_go_on(self, rig: Rig) -> None:
        rig.add_many(3)
        done, failed, released = rig.lease()
        rig.backend.pause(rig.queue)
        assert not rig.backend.complete([Completion(lease=done)])
        assert not rig.backend.retry([Failure(lease=failed, delay=rig.span, error=ONCE)])
        assert not rig.backend.release([released])
        later = rig.add(delay=rig.span)
        rig.advance(rig.span)
        assert rig.state(later.id) is JobState.READY
        assert rig.counts()[JobState.READY] == 3
        assert rig.lease() == []

    def test_renewal_and_recovery_go_on(self, rig: Rig) -> None:
        lease = rig.leased(LONG)
        rig.backend.pause(rig.queue)
        assert not rig.backend.renew([lease], rig.span).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (1, 0)

    def test_cancel_and_requeue_go_on(self, rig: Rig) -> None:
        dead, _ = in_state(rig, JobState.DEAD)
        job = rig.add(delay=LONG)
        rig.backend.pause(rig.queue)
        assert rig.backend.cancel(rig.queue, [job.id])[0].moved
        assert rig.backend.requeue(rig.queue, [dead.id])[0].moved
        assert rig.lease() == []

    def test_what_is_held_under_a_token_is_still_answered(self, rig: Rig) -> None:
        """Or it gets nothing: what matters is that nothing new is leased."""
        lease = rig.leased()
        rig.add()
        rig.backend.pause(rig.queue)
        assert set(rig.lease_once(token=lease.token)) <= {lease}
        assert rig.counts()[JobState.LEASED] == 1

    def test_twice_is_as_good_as_once(self, rig: Rig) -> None:
        rig.backend.pause(rig.queue)
        rig.backend.pause(rig.queue)
        rig.backend.resume(rig.queue)
        rig.backend.resume(rig.queue)
        rig.add()
        assert len(rig.lease()) == 1

    def test_resuming_what_is_not_paused_is_harmless(self, rig: Rig) -> None:
        rig.backend.resume(rig.new_queue())
        assert not rig.numbers().paused
