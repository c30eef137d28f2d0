"""Rules that lease jobs, and renew and recover leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import rule

from scheduler.identity import new_token
from scheduler.leases import Lease
from scheduler.states import JobState
from scheduler.testing.state_machine.agreement import check_lease_order
from scheduler.testing.state_machine.drive import Drive, check_refused, limits, pick, picks

_durations = st.sampled_from([0.25, 1.25, 7.25, 30.75])


class Leasing(Drive):
    """Rules for lease, renew and recover_expired."""

    @rule(
        places=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
        limit=limits,
        duration=_durations,
        owner=st.sampled_from(["first", "second"]),
        again=st.booleans(),
    )
    def lease(self, places: Sequence[int], limit: int, duration: float, owner: str, *, again: bool) -> None:
        """Lease once, and sometimes again with the same token, as after a lost reply."""
        names, token = [self.queues[place] for place in places], new_token()

        def call() -> Sequence[Lease]:
            return self.harness.backend.lease(names, token=token, worker_id=owner, duration=duration, limit=limit)

        leasable = self.model.leasable(names)
        leases = call()
        assert bool(leases) == bool(leasable), "the result must be empty if and only if nothing can be leased"
        check_lease_order(leases, leasable)
        result = call() if again and leases else leases
        assert set(leases) <= set(result), "a repeat must return all leases held under its token"
        assert len(result) <= limit
        assert all(lease.token == token for lease in result)
        more = [lease for lease in result if lease not in set(leases)]
        self.model.lease([*leases, *more], owner, self.now + timedelta(seconds=duration), self.now)
        self.given.extend([*leases, *more])

    def some(self, places: Sequence[int], *, stale: bool) -> list[Lease]:
        """Pick held leases or, if *stale*, any that were given out. Lease some jobs first if none is held."""
        held = [lease for lease in self.given if self.model.holder(lease)]
        if not held:
            self.lease((0, 1), 3, 1.25, "first", again=False)
            held = [lease for lease in self.given if self.model.holder(lease)]
        return pick(self.given if stale else held, places)

    @rule(places=picks, stale=st.booleans(), whole=st.booleans(), duration=_durations)
    def renew(self, places: list[int], duration: float, *, stale: bool, whole: bool) -> None:
        """Renew all leases of some lease calls, as workers do, or only some of them. Stale ones may be included."""
        leases = self.some(places, stale=stale)
        if whole:
            tokens = {lease.token for lease in leases}
            leases = [lease for lease in self.given if lease.token in tokens]
        refused = self.model.renew(leases, self.now + timedelta(seconds=duration))
        check_refused(self.harness.backend.renew(leases, duration).refused, refused)

    @rule(seconds=st.sampled_from([0.0, 2.0, 8.0, 31.0]), limit=limits)
    def recover(self, seconds: float, limit: int) -> None:
        """Advance the clock and recover once. The call recovers a lease if any has expired."""
        if not self.model.among(self.queues, JobState.LEASED):
            self.some([], stale=False)
        self.clock.advance(seconds)
        rows = self.model.among(self.queues, JobState.LEASED)
        expired = [row for row in rows if row.job.lease_expires_at and row.job.lease_expires_at < self.now]
        recovery = self.harness.backend.recover_expired(self.queues, limit)
        found = [row for row in expired if self.harness.state(row.job.id, queue=row.job.queue) is not JobState.LEASED]
        reached = [self.model.recover(row, self.now) for row in found]
        assert (recovery.ready, recovery.dead) == (reached.count(JobState.READY), reached.count(JobState.DEAD))
        assert bool(found) == bool(expired)
        self._check_next(recovery.next_expiry)

    def _check_next(self, next_expiry: float | None) -> None:
        ends = [row.job.lease_expires_at for row in self.model.among(self.queues, JobState.LEASED)]
        left = [max(0.0, (end - self.now).total_seconds()) for end in ends if end]
        if not left:
            assert next_expiry is None
        else:
            assert next_expiry is not None
            assert abs(next_expiry - min(left)) < 0.01
