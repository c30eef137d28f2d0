"""complete: leased → succeeded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.identity import new_token
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.harness import LONG, BackendHarness


class CompleteContract:
    def test_a_completed_job_has_succeeded(self, harness: BackendHarness) -> None:
        lease = harness.leased(payload=b"work")
        assert list(harness.backend.complete([Completion(lease=lease)])) == []
        job = harness.job(lease.job.id)
        assert (job.state, job.attempts, job.payload, job.result) == (JobState.SUCCEEDED, 1, b"work", None)
        assert job.finished_at is not None
        if harness.clock:
            assert abs(job.finished_at - harness.clock.now()) <= timedelta(milliseconds=1)

    def test_a_result_is_kept_byte_for_byte(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        leases = harness.lease()
        results = [bytes(range(256)), b"", None]
        harness.backend.complete(
            [Completion(lease=lease, result=result) for lease, result in zip(leases, results, strict=True)]
        )
        assert [harness.job(lease.job.id).result for lease in leases] == results

    def test_without_retention_the_job_is_gone_at_once_and_its_id_free(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention())
        lease = harness.leased(id="again")
        assert not harness.backend.complete([Completion(lease=lease, result=b"lost")])
        assert harness.find("again") is None
        assert not any(harness.counts().values())
        assert harness.add(id="again").attempts == 0
        assert list(harness.backend.complete([Completion(lease=lease)])) == [lease]

    def test_completing_twice_is_refused_and_changes_nothing(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.complete([Completion(lease=lease, result=b"first")])
        before = harness.job(lease.job.id)
        assert list(harness.backend.complete([Completion(lease=lease, result=b"second")])) == [lease]
        assert harness.job(lease.job.id) == before

    def test_twice_in_one_call_is_refused_once(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        refused = harness.backend.complete([Completion(lease=lease, result=b"first"), Completion(lease=lease)])
        assert list(refused) == [lease]
        assert harness.job(lease.job.id).result == b"first"
        lease = harness.leased()
        refused = harness.backend.complete([Completion(lease=lease), Completion(lease=lease, result=b"second")])
        assert list(refused) == [lease]
        assert harness.job(lease.job.id).result is None

    def test_an_expired_lease_that_nobody_recovered_still_completes(self, harness: BackendHarness) -> None:
        """A lease is held until it is recovered, so finished work is not lost because it is late."""
        lease = harness.leased(harness.span)
        harness.advance(1.1 * harness.span)
        assert not harness.backend.complete([Completion(lease=lease)])
        assert harness.recover() == (0, 0)
        assert harness.state(lease.job.id) is JobState.SUCCEEDED

    def test_completing_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.complete([])) == []

    def test_only_the_leases_not_held_are_refused(self, harness: BackendHarness) -> None:
        leases = [harness.leased(queue=queue) for queue in (harness.queue, harness.new_queue(), harness.new_queue())]
        harness.backend.release([leases[1]])
        assert list(harness.backend.complete([Completion(lease=lease) for lease in leases])) == [leases[1]]
        assert [harness.state(lease.job.id, queue=lease.job.queue) for lease in leases] == [
            JobState.SUCCEEDED,
            JobState.READY,
            JobState.SUCCEEDED,
        ]

    def test_many_are_completed_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        assert not harness.backend.complete([Completion(lease=lease) for lease in harness.lease(2_000)])
        assert harness.counts()[JobState.SUCCEEDED] == 1_500

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": "a\1b"},
            {"id": "a\0b"},
            {"id": ""},
            {"id": "\ud800"},
            {"id": "x" * 300},
            {"queue": "\1"},
            {"queue": "\ud800"},
            {"token": "x"},
        ],
        ids=str,
    )
    def test_a_forged_lease_is_refused_and_the_others_are_taken(
        self, harness: BackendHarness, wrong: dict[str, str]
    ) -> None:
        """A lease that no store gave out is refused like a stale one, without an error."""
        harness.add_many(3)
        first, *others = harness.lease()
        token = wrong.get("token", first.token)
        job = replace(first.job, id=wrong.get("id", first.job.id), queue=wrong.get("queue", first.job.queue))
        forged = replace(first, job=job, token=token)
        assert list(harness.backend.complete([Completion(lease=lease) for lease in (forged, *others)])) == [forged]
        assert list(harness.backend.complete([Completion(lease=forged)])) == [forged]
        assert list(harness.backend.complete([Completion(lease=first)])) == []

    def test_a_token_is_compared_letter_by_letter(self, harness: BackendHarness) -> None:
        """A store may keep a token as a number, but must not accept another spelling of it."""
        harness.add()
        (lease,) = harness.lease_once(1, token=f"abcdef{new_token()[6:]}")
        for text in (lease.token.upper(), f"{lease.token[:16]} {lease.token[16:]}"):
            other = replace(lease, token=text)
            assert list(harness.backend.renew([other], LONG).refused) == [other]
            assert list(harness.backend.release([other])) == [other]
            assert list(harness.backend.complete([Completion(lease=other)])) == [other]
        assert list(harness.backend.complete([Completion(lease=lease)])) == []
