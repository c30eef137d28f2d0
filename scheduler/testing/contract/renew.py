"""renew: leased → leased, for longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from scheduler.identity import new_token
from scheduler.leases import Completion, Lease
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness


class RenewContract:
    def test_a_lease_named_twice_is_renewed_or_refused_twice(self, harness: BackendHarness) -> None:
        held, lost = harness.leased(), harness.leased()
        harness.backend.complete([Completion(lease=lost)])
        assert list(harness.backend.renew([held, lost, held, lost], LONG).refused) == [lost, lost]

    def test_a_renewed_lease_outlives_its_first_end(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        leases = harness.lease(duration=harness.span)
        assert not harness.backend.renew(leases, LONG).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 0)
        assert harness.counts()[JobState.LEASED] == 3

    def test_a_renewal_may_shorten_a_lease(self, harness: BackendHarness) -> None:
        lease = harness.leased(LONG)
        assert not harness.backend.renew([lease], harness.span).refused
        expires_at = harness.job(lease.job.id).lease_expires_at
        assert expires_at is not None
        if harness.clock:
            assert abs(expires_at - harness.clock.now() - timedelta(seconds=harness.span)) <= timedelta(milliseconds=1)
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)

    def test_renewing_changes_only_the_expiry(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        before = harness.job(lease.job.id)
        harness.backend.renew([lease], 2 * LONG)
        after = harness.job(lease.job.id)
        assert replace(after, lease_expires_at=before.lease_expires_at) == before

    def test_an_expired_lease_that_nobody_recovered_is_renewed(self, harness: BackendHarness) -> None:
        """A lease is held until it is recovered."""
        lease = harness.leased(harness.span)
        harness.advance(1.1 * harness.span)
        assert not harness.backend.renew([lease], LONG).refused
        assert harness.recover() == (0, 0)
        assert not harness.backend.complete([Completion(lease=lease)])

    def test_a_recovered_lease_is_refused(self, harness: BackendHarness) -> None:
        lease = harness.leased(harness.span)
        harness.advance(1.1 * harness.span)
        harness.recover()
        assert list(harness.backend.renew([lease], LONG).refused) == [lease]
        assert harness.state(lease.job.id) is JobState.READY

    def test_of_leases_renewed_only_those_not_held_are_refused(self, harness: BackendHarness) -> None:
        harness.add_many(4)
        held = list(harness.lease())
        done = held.pop()
        harness.backend.complete([Completion(lease=done)])
        forged = replace(held[0], token=new_token())
        assert set(harness.backend.renew([*held, done, forged], LONG).refused) == {done, forged}
        assert harness.counts()[JobState.LEASED] == 3

    def test_leases_of_a_call_that_are_not_renewed_expire_as_before(self, harness: BackendHarness) -> None:
        """Perhaps no worker knows these leases: a lease request executed late can add jobs to those of its repeat."""
        kept, *left = self._three(harness)
        assert not harness.backend.renew([kept], LONG).refused
        job = harness.job(left[0].job.id)
        assert (job.state, job.attempts, job.lease_owner) == (JobState.LEASED, 1, left[0].job.lease_owner)
        assert job.lease_expires_at == left[0].expires_at
        harness.advance(1.1 * harness.span)
        assert not harness.backend.renew([kept], LONG).refused
        assert harness.recover() == (2, 0)
        assert harness.state(kept.job.id) is JobState.LEASED
        assert set(harness.backend.renew([kept, *left], LONG).refused) == set(left)
        assert not harness.backend.complete([Completion(lease=kept)])

    def test_leases_of_a_call_can_be_renewed_one_after_another(self, harness: BackendHarness) -> None:
        """A worker may renew its leases before it knows of all of them."""
        kept, named, settled = self._three(harness)
        assert not harness.backend.renew([kept], LONG).refused
        assert not harness.backend.complete([Completion(lease=settled)])
        assert not harness.backend.renew([named], LONG).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 0)
        assert not harness.backend.complete([Completion(lease=kept), Completion(lease=named)])
        assert harness.backend.recover_expired([harness.queue], 10).next_expiry is None

    def test_repeating_a_lease_call_returns_its_jobs_after_single_renewals(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        token = new_token()

        def call() -> Sequence[Lease]:
            return harness.backend.lease([harness.queue], token=token, worker_id="contract", duration=LONG, limit=3)

        leases = call()
        for lease in leases:
            assert not harness.backend.renew([lease], 2 * LONG).refused
        again = call()
        assert {lease.job.id for lease in leases} <= {lease.job.id for lease in again}
        assert not harness.backend.renew(again, LONG).refused

    def test_each_lease_of_a_call_can_be_renewed_alone(self, harness: BackendHarness) -> None:
        first, second, third = self._three(harness)
        for _ in range(2):
            for lease in (first, second):
                assert not harness.backend.renew([lease], LONG).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)
        assert harness.state(third.job.id) is JobState.READY
        assert not harness.backend.complete([Completion(lease=second)])
        assert not harness.backend.renew([first, first], LONG).refused
        assert harness.counts()[JobState.LEASED] == 1

    def _three(self, harness: BackendHarness) -> Sequence[Lease]:
        harness.add_many(3)
        leases = harness.lease(duration=harness.span)
        assert len(leases) == 3
        return leases

    def test_renewing_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.renew([], LONG).refused) == []

    def test_leases_of_several_queues_and_calls_are_renewed_in_one_call(self, harness: BackendHarness) -> None:
        leases = [
            harness.leased(harness.span, queue=queue)
            for queue in (harness.queue, harness.new_queue(), harness.new_queue())
        ]
        assert not harness.backend.renew(leases, LONG).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 0)

    def test_many_leases_are_renewed_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        assert not harness.backend.renew(harness.lease(2_000), 2 * LONG).refused
