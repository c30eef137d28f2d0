"""complete: leased → succeeded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.identity import new_token
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.rig import LONG, Rig


class CompleteContract:
    def test_a_completed_job_has_succeeded(self, rig: Rig) -> None:
        lease = rig.leased(payload=b"work")
        assert list(rig.backend.complete([Completion(lease=lease)])) == []
        job = rig.job(lease.job.id)
        assert (job.state, job.attempts, job.payload, job.result) == (JobState.SUCCEEDED, 1, b"work", None)
        assert job.finished_at is not None
        if rig.clock:
            assert abs(job.finished_at - rig.clock.now()) <= timedelta(milliseconds=1)

    def test_a_result_is_kept_byte_for_byte(self, rig: Rig) -> None:
        rig.add_many(3)
        leases = rig.lease()
        results = [bytes(range(256)), b"", None]
        rig.backend.complete(
            [Completion(lease=lease, result=result) for lease, result in zip(leases, results, strict=True)]
        )
        assert [rig.job(lease.job.id).result for lease in leases] == results

    def test_without_retention_the_job_is_gone_at_once_and_its_id_free(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention())
        lease = rig.leased(id="again")
        assert not rig.backend.complete([Completion(lease=lease, result=b"lost")])
        assert rig.find("again") is None
        assert not any(rig.counts().values())
        assert rig.add(id="again").attempts == 0
        assert list(rig.backend.complete([Completion(lease=lease)])) == [lease]

    def test_completing_twice_is_refused_and_changes_nothing(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.complete([Completion(lease=lease, result=b"first")])
        before = rig.job(lease.job.id)
        assert list(rig.backend.complete([Completion(lease=lease, result=b"second")])) == [lease]
        assert rig.job(lease.job.id) == before

    def test_twice_in_one_call_is_refused_once(self, rig: Rig) -> None:
        lease = rig.leased()
        refused = rig.backend.complete([Completion(lease=lease, result=b"first"), Completion(lease=lease)])
        assert list(refused) == [lease]
        assert rig.job(lease.job.id).result == b"first"

    def test_an_expired_lease_that_nobody_recovered_still_completes(self, rig: Rig) -> None:
        """Held means until recovered: finished work is not thrown away for being late."""
        lease = rig.leased(rig.span)
        rig.advance(1.1 * rig.span)
        assert not rig.backend.complete([Completion(lease=lease)])
        assert rig.recover() == (0, 0)
        assert rig.state(lease.job.id) is JobState.SUCCEEDED

    def test_completing_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.complete([])) == []

    def test_only_the_leases_not_held_are_refused(self, rig: Rig) -> None:
        leases = [rig.leased(queue=queue) for queue in (rig.queue, rig.new_queue(), rig.new_queue())]
        rig.backend.release([leases[1]])
        assert list(rig.backend.complete([Completion(lease=lease) for lease in leases])) == [leases[1]]
        assert [rig.state(lease.job.id, queue=lease.job.queue) for lease in leases] == [
            JobState.SUCCEEDED,
            JobState.READY,
            JobState.SUCCEEDED,
        ]

    def test_many_are_completed_in_one_call(self, rig: Rig) -> None:
        rig.add_many(1_500)
        assert not rig.backend.complete([Completion(lease=lease) for lease in rig.lease(2_000)])
        assert rig.counts()[JobState.SUCCEEDED] == 1_500

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
    def test_a_forged_lease_is_refused_and_the_others_are_taken(self, rig: Rig, wrong: dict[str, str]) -> None:
        """One that no store ever gave is refused like any other, and no reason to fail."""
        rig.add_many(3)
        first, *others = rig.lease()
        token = wrong.get("token", first.token)
        job = replace(first.job, id=wrong.get("id", first.job.id), queue=wrong.get("queue", first.job.queue))
        forged = replace(first, job=job, token=token)
        assert list(rig.backend.complete([Completion(lease=lease) for lease in (forged, *others)])) == [forged]
        assert list(rig.backend.complete([Completion(lease=forged)])) == [forged]
        assert list(rig.backend.complete([Completion(lease=first)])) == []

    def test_a_token_is_compared_letter_by_letter(self, rig: Rig) -> None:
        """A store may keep it as a number, but another text is another token."""
        rig.add()
        (lease,) = rig.lease_once(1, token=f"abcdef{new_token()[6:]}")
        for text in (lease.token.upper(), f"{lease.token[:16]} {lease.token[16:]}"):
            other = replace(lease, token=text)
            assert list(rig.backend.renew([other], LONG).refused) == [other]
            assert list(rig.backend.release([other])) == [other]
            assert list(rig.backend.complete([Completion(lease=other)])) == [other]
        assert list(rig.backend.complete([Completion(lease=lease)])) == []
