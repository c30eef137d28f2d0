"""purge and trim: the two ways in which stored jobs are deleted."""

from __future__ import annotations

import pytest

from scheduler.errors import ConfigError
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state
from scheduler.testing.reading import TURNS

_PURGEABLE = sorted(set(JobState) - {JobState.LEASED})
_KEPT = 2.0  # seconds


class PurgeContract:
    @pytest.mark.parametrize("state", _PURGEABLE)
    def test_a_purged_job_is_gone_and_its_id_can_be_used_at_once(
        self, harness: BackendHarness, state: JobState
    ) -> None:
        in_state(harness, state, id="again")
        assert harness.backend.purge(harness.queue, state, 100) == 1
        assert harness.find("again") is None
        assert not any(harness.counts().values())
        harness.add(id="again", payload=b"new")
        assert [lease.job.payload for lease in harness.lease()] == [b"new"]

    def test_only_that_state_of_that_queue_is_purged(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        kept = [
            harness.add(delay=LONG, queue=other),
            in_state(harness, JobState.DEAD)[0],
            in_state(harness, JobState.LEASED)[0],
        ]
        harness.add_many(3, delay=LONG)
        assert harness.backend.purge(harness.queue, JobState.SCHEDULED, 100) == 3
        assert [harness.job(job.id, queue=job.queue) for job in kept] == kept

    def test_leased_jobs_are_never_purged(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        with pytest.raises(ConfigError) as refusal:
            harness.backend.purge(harness.queue, JobState.LEASED, 100)
        assert refusal.value.field == "state"
        assert not harness.backend.complete([Completion(lease=lease)])

    def test_at_most_limit_are_purged_and_their_number_is_returned(self, harness: BackendHarness) -> None:
        harness.add_many(7, delay=LONG)
        gone = 0
        for _ in range(TURNS):
            more = harness.backend.purge(harness.queue, JobState.SCHEDULED, 2)
            assert more <= 2
            gone += more
            assert harness.counts()[JobState.SCHEDULED] == 7 - gone
            if not more:
                break
        assert gone == 7

    def test_an_unknown_queue_has_nothing_to_purge(self, harness: BackendHarness) -> None:
        assert harness.backend.purge(harness.new_queue(), JobState.DEAD, 10) == 0


class TrimContract:
    @pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD])
    def test_a_finished_job_is_kept_for_its_retention_and_then_trimmed(
        self, open_harness: OpenHarness, state: JobState
    ) -> None:
        harness = open_harness(Retention(**{"succeeded": LONG, "cancelled": LONG, "dead": LONG, state.value: 3.0}))
        if harness.clock:
            harness.clock.advance(0.25)  # not a whole second, to find stores that count in seconds
        job, _ = in_state(harness, state)
        harness.advance(1.0)
        assert harness.trim() == 0
        assert harness.job(job.id) == job
        (result,) = harness.enqueue(harness.new(id=job.id))
        assert not result.is_new
        harness.advance(2.0)
        assert harness.trim() <= 1  # a store may delete it by itself once its retention has ended
        assert harness.find(job.id) is None
        assert not any(harness.counts().values())
        assert harness.add(id=job.id, delay=LONG).state is JobState.SCHEDULED

    def test_only_finished_jobs_are_trimmed(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention(succeeded=0.001, cancelled=0.001, dead=0.001))
        jobs = [harness.leased().job, harness.add(delay=LONG), harness.add()]
        harness.advance(harness.span)
        assert harness.trim() == 0
        assert all(harness.find(job.id) for job in jobs)

    def test_at_most_limit_are_trimmed_per_call(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention(succeeded=_KEPT))
        harness.add_many(7)
        harness.backend.complete([Completion(lease=lease) for lease in harness.lease()])
        harness.advance(1.1 * _KEPT)
        gone = 0
        for _ in range(TURNS):
            more = harness.backend.trim([harness.queue], 2)
            assert more <= 2
            gone += more
            if not more:
                break
        assert gone == 7
        assert harness.counts()[JobState.SUCCEEDED] == 0

    def test_only_the_named_queues_are_trimmed(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention(succeeded=_KEPT))
        lease = harness.leased()
        harness.backend.complete([Completion(lease=lease)])
        harness.advance(1.1 * _KEPT)
        assert harness.backend.trim([harness.new_queue()], 100) == 0
        assert harness.trim() <= 1
