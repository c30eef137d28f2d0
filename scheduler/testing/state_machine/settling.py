"""Rules that settle leases, held and stale ones."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure
from scheduler.states import JobState
from scheduler.testing.state_machine.drive import check_refused, picks
from scheduler.testing.state_machine.leasing import Leasing


class Settling(Leasing):
    """Rules for complete, retry, bury and release, with held, stale and repeated leases."""

    @rule(places=picks, stale=st.booleans(), result=st.none() | st.binary(max_size=3))
    def complete(self, places: list[int], result: bytes | None, *, stale: bool) -> None:
        """Complete jobs, with or without a result."""
        leases = self.some(places, stale=stale)
        refused = self.harness.backend.complete([Completion(lease=lease, result=result) for lease in leases])
        check_refused(refused, [lease for lease in leases if not self.model.complete(lease, result, self.now)])

    @rule(
        places=picks,
        stale=st.booleans(),
        delay=st.sampled_from([0.0, 0.5, 10.0]),
        error=st.sampled_from([None, ErrorDetail(kind="Oops", message="why")]),
        counted=st.booleans(),
        bury=st.booleans(),
    )
    def fail(
        self, places: list[int], delay: float, error: ErrorDetail | None, *, stale: bool, counted: bool, bury: bool
    ) -> None:
        """Retry or bury jobs."""
        leases = self.some(places, stale=stale)
        failures = [Failure(lease=lease, delay=delay, error=error, counted=counted) for lease in leases]
        refused = self.harness.backend.bury(failures) if bury else self.harness.backend.retry(failures)
        state = JobState.DEAD if bury else JobState.RETRY_WAIT
        check_refused(refused, [each.lease for each in failures if not self.model.fail(each, state, self.now)])

    @rule(places=picks, stale=st.booleans())
    def release(self, places: list[int], *, stale: bool) -> None:
        """Release leases."""
        leases = self.some(places, stale=stale)
        refused = self.harness.backend.release(leases)
        check_refused(refused, [lease for lease in leases if not self.model.release(lease, self.now)])
