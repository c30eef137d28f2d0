"""renew: leased → leased, for longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from scheduler.identity import new_token
from scheduler.leases import Completion, Lease
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig


class RenewContract:
    def test_a_lease_named_twice_is_renewed_or_refused_twice(self, rig: Rig) -> None:
        held, lost = rig.leased(), rig.leased()
        rig.backend.complete([Completion(lease=lost)])
        assert list(rig.backend.renew([held, lost, held, lost], LONG).refused) == [lost, lost]

    def test_a_renewed_lease_outlives_its_first_end(self, rig: Rig) -> None:
        rig.add_many(3)
        leases = rig.lease(duration=rig.span)
        assert not rig.backend.renew(leases, LONG).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (0, 0)
        assert rig.counts()[JobState.LEASED] == 3

    def test_the_end_is_so_long_from_now_also_when_that_is_sooner(self, rig: Rig) -> None:
        lease = rig.leased(LONG)
        assert not rig.backend.renew([lease], rig.span).refused
        expires_at = rig.job(lease.job.id).lease_expires_at
        assert expires_at is not None
        if rig.clock:
            assert abs(expires_at - rig.clock.now() - timedelta(seconds=rig.span)) <= timedelta(milliseconds=1)
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (1, 0)

    def test_renewing_changes_the_end_alone(self, rig: Rig) -> None:
        lease = rig.leased()
        before = rig.job(lease.job.id)
        rig.backend.renew([lease], 2 * LONG)
        after = rig.job(lease.job.id)
        assert replace(after, lease_expires_at=before.lease_expires_at) == before

    def test_an_expired_lease_that_nobody_recovered_is_renewed(self, rig: Rig) -> None:
        """Held means until recovered."""
        lease = rig.leased(rig.span)
        rig.advance(1.1 * rig.span)
        assert not rig.backend.renew([lease], LONG).refused
        assert rig.recover() == (0, 0)
        assert not rig.backend.complete([Completion(lease=lease)])

    def test_a_recovered_lease_is_refused(self, rig: Rig) -> None:
        lease = rig.leased(rig.span)
        rig.advance(1.1 * rig.span)
        rig.recover()
        assert list(rig.backend.renew([lease], LONG).refused) == [lease]
        assert rig.state(lease.job.id) is JobState.READY

    def test_of_leases_renewed_only_those_not_held_are_refused(self, rig: Rig) -> None:
        rig.add_many(4)
        held = list(rig.lease())
        done = held.pop()
        rig.backend.complete([Completion(lease=done)])
        forged = replace(held[0], token=new_token())
        assert set(rig.backend.renew([*held, done, forged], LONG).refused) == {done, forged}
        assert rig.counts()[JobState.LEASED] == 3

    def test_what_is_not_named_of_a_lease_call_expires_when_it_would_have(self, rig: Rig) -> None:
        """Nobody may know of it: a lease request that was served late adds to what a repeat has been given."""
        kept, *left = self._three(rig)
        assert not rig.backend.renew([kept], LONG).refused
        job = rig.job(left[0].job.id)
        assert (job.state, job.attempts, job.lease_owner) == (JobState.LEASED, 1, left[0].job.lease_owner)
        assert job.lease_expires_at == left[0].expires_at
        rig.advance(1.1 * rig.span)
        assert not rig.backend.renew([kept], LONG).refused
        assert rig.recover() == (2, 0)
        assert rig.state(kept.job.id) is JobState.LEASED
        assert set(rig.backend.renew([kept, *left], LONG).refused) == set(left)
        assert not rig.backend.complete([Completion(lease=kept)])

    def test_what_was_not_named_is_held_until_it_is_recovered(self, rig: Rig) -> None:
        """A renewal may be made by whoever has not heard of it yet."""
        kept, named, settled = self._three(rig)
        assert not rig.backend.renew([kept], LONG).refused
        assert not rig.backend.complete([Completion(lease=settled)])
        assert not rig.backend.renew([named], LONG).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (0, 0)
        assert not rig.backend.complete([Completion(lease=kept), Completion(lease=named)])
        assert rig.backend.recover_expired([rig.queue], 10).next_expiry is None

    def test_a_repeat_of_the_lease_call_answers_with_all_of_it_whoever_was_renewed(self, rig: Rig) -> None:
        rig.add_many(3)
        token = new_token()

        def call() -> Sequence[Lease]:
            return rig.backend.lease([rig.queue], token=token, worker_id="contract", duration=LONG, limit=3)

        leases = call()
        for lease in leases:
            assert not rig.backend.renew([lease], 2 * LONG).refused
        again = call()
        assert {lease.job.id for lease in leases} <= {lease.job.id for lease in again}
        assert not rig.backend.renew(again, LONG).refused

    def test_each_of_a_lease_call_may_be_renewed_alone(self, rig: Rig) -> None:
        first, second, third = self._three(rig)
        for _ in range(2):
            for lease in (first, second):
                assert not rig.backend.renew([lease], LONG).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (1, 0)
        assert rig.state(third.job.id) is JobState.READY
        assert not rig.backend.complete([Completion(lease=second)])
        assert not rig.backend.renew([first, first], LONG).refused
        assert rig.counts()[JobState.LEASED] == 1

    def _three(self, rig: Rig) -> Sequence[Lease]:
        rig.add_many(3)
        leases = rig.lease(duration=rig.span)
        assert len(leases) == 3
        return leases

    def test_renewing_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.renew([], LONG).refused) == []

    def test_leases_of_several_queues_and_calls_are_renewed_in_one_call(self, rig: Rig) -> None:
        leases = [rig.leased(rig.span, queue=queue) for queue in (rig.queue, rig.new_queue(), rig.new_queue())]
        assert not rig.backend.renew(leases, LONG).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (0, 0)

    def test_many_leases_are_renewed_in_one_call(self, rig: Rig) -> None:
        rig.add_many(1_500)
        assert not rig.backend.renew(rig.lease(2_000), 2 * LONG).refused
