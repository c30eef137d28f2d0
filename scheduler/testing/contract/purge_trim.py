"""purge and trim: the two ways in which stored jobs are deleted."""

from __future__ import annotations

import pytest

from scheduler.errors import ConfigError
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.reading import TURNS
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state

_PURGEABLE = sorted(set(JobState) - {JobState.LEASED})
_KEPT = 2.0  # seconds


class PurgeContract:
    @pytest.mark.parametrize("state", _PURGEABLE)
    def test_a_purged_job_is_gone_and_its_id_can_be_used_at_once(self, rig: Rig, state: JobState) -> None:
        in_state(rig, state, id="again")
        assert rig.backend.purge(rig.queue, state, 100) == 1
        assert rig.find("again") is None
        assert not any(rig.counts().values())
        rig.add(id="again", payload=b"new")
        assert [lease.job.payload for lease in rig.lease()] == [b"new"]

    def test_only_that_state_of_that_queue_is_purged(self, rig: Rig) -> None:
        other = rig.new_queue()
        kept = [rig.add(delay=LONG, queue=other), in_state(rig, JobState.DEAD)[0], in_state(rig, JobState.LEASED)[0]]
        rig.add_many(3, delay=LONG)
        assert rig.backend.purge(rig.queue, JobState.SCHEDULED, 100) == 3
        assert [rig.job(job.id, queue=job.queue) for job in kept] == kept

    def test_leased_jobs_are_never_purged(self, rig: Rig) -> None:
        lease = rig.leased()
        with pytest.raises(ConfigError) as refusal:
            rig.backend.purge(rig.queue, JobState.LEASED, 100)
        assert refusal.value.field == "state"
        assert not rig.backend.complete([Completion(lease=lease)])

    def test_at_most_limit_go_and_the_answer_says_how_many(self, rig: Rig) -> None:
        rig.add_many(7, delay=LONG)
        gone = 0
        for _ in range(TURNS):
            more = rig.backend.purge(rig.queue, JobState.SCHEDULED, 2)
            assert more <= 2
            gone += more
            assert rig.counts()[JobState.SCHEDULED] == 7 - gone
            if not more:
                break
        assert gone == 7

    def test_an_unknown_queue_has_nothing_to_purge(self, rig: Rig) -> None:
        assert rig.backend.purge(rig.new_queue(), JobState.DEAD, 10) == 0


class TrimContract:
    @pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD])
    def test_a_finished_job_is_kept_for_its_retention_and_then_trimmed(
        self, open_rig: OpenRig, state: JobState
    ) -> None:
        rig = open_rig(Retention(**{"succeeded": LONG, "cancelled": LONG, "dead": LONG, state.value: 3.0}))
        if rig.clock:
            rig.clock.advance(0.25)  # a moment within a second, as a store that counts seconds would not see
        job, _ = in_state(rig, state)
        rig.advance(1.0)
        assert rig.trim() == 0
        assert rig.job(job.id) == job
        (answer,) = rig.enqueue(rig.new(id=job.id))
        assert not answer.is_new
        rig.advance(2.0)
        assert rig.trim() <= 1  # a store may drop it by itself, once it is due
        assert rig.find(job.id) is None
        assert not any(rig.counts().values())
        assert rig.add(id=job.id, delay=LONG).state is JobState.SCHEDULED

    def test_only_finished_jobs_are_trimmed(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention(succeeded=0.001, cancelled=0.001, dead=0.001))
        jobs = [rig.leased().job, rig.add(delay=LONG), rig.add()]
        rig.advance(rig.span)
        assert rig.trim() == 0
        assert all(rig.find(job.id) for job in jobs)

    def test_at_most_limit_go_and_the_rest_with_later_calls(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention(succeeded=_KEPT))
        rig.add_many(7)
        rig.backend.complete([Completion(lease=lease) for lease in rig.lease()])
        rig.advance(1.1 * _KEPT)
        gone = 0
        for _ in range(TURNS):
            more = rig.backend.trim([rig.queue], 2)
            assert more <= 2
            gone += more
            if not more:
                break
        assert gone == 7
        assert rig.counts()[JobState.SUCCEEDED] == 0

    def test_only_the_named_queues_are_trimmed(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention(succeeded=_KEPT))
        lease = rig.leased()
        rig.backend.complete([Completion(lease=lease)])
        rig.advance(1.1 * _KEPT)
        assert rig.backend.trim([rig.new_queue()], 100) == 0
        assert rig.trim() <= 1
